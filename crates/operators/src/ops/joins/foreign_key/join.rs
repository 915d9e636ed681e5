//! `foreign_join`: joins an answer with the left value that subscribed for it.
//!
//! Takes answers at the left key's lane, emits the rows of the result: null if a required side is
//! missing. The left value is the one at the answer's place in the order; with record caching, the
//! current one. An answer to another left value is dropped: that value has subscribed too, and gets its
//! own answer. The last value of an epoch gets its answers in the same epoch, and none of them is
//! dropped, so the row is right when the epoch ends, in whatever order messages arrived.

use crate::ops::joins::foreign_key::epoch_rows::SharedEpochRows;
use crate::ops::joins::foreign_key::message::{Answer, Fingerprint, Retract, fingerprint};
use crate::ops::joins::joiner::{Joined, Joiner};
use crate::ops::tables::view_read::{AsOf, ViewRead};
use crate::support::node_context::NodeContext;
use crate::{Context, Operator};
use stoatflow_core::{Datum, Record, Result, Serde};
use stoatflow_state::Stored;

/// See the module.
#[derive(Debug)]
pub(crate) struct ForeignJoin {
    node_context: NodeContext,
    left: ViewRead,
    joiner: Joiner,
    /// Serde of left values.
    value: Serde,
    /// True for a left join.
    outer: bool,
    /// Without record caching: the left keys' serde, and the left table's rows of this epoch.
    rows: Option<(Serde, SharedEpochRows)>,
}

/// The left row for an answer.
#[derive(Debug, Default)]
struct Held {
    row: Option<Stored>,
    /// Set if it is already known.
    fingerprint: Option<Fingerprint>,
}

impl ForeignJoin {
    pub fn new(
        node_context: NodeContext,
        left: ViewRead,
        joiner: Joiner,
        value: Serde,
        outer: bool,
        rows: Option<(Serde, SharedEpochRows)>,
    ) -> Self {
        Self {
            node_context,
            left,
            joiner,
            value,
            outer,
            rows,
        }
    }

    /// The left rows at the answers' places in the order, where they differ from those before the epoch.
    fn at_answers(
        &self,
        batch: &[Record],
        held: Vec<Option<Stored>>,
        context: &Context<'_>,
    ) -> Result<Vec<Held>> {
        let before = held.into_iter().map(|row| Held {
            row,
            fingerprint: None,
        });
        let mut held: Vec<Held> = before.collect();
        let Some((serde, rows)) = &self.rows else {
            return Ok(held);
        };
        let rows = rows.lock();
        for (record, held) in batch.iter().zip(&mut held) {
            let Some(key) = serde.encode(&record.key)? else {
                continue;
            };
            let asked = Answer::of(record)?.fingerprint;
            if let Some(row) = rows.as_of(context.epoch, &key, record.origin.order, asked) {
                *held = Held {
                    row: row.stored(),
                    fingerprint: Some(row.fingerprint),
                };
            }
        }
        Ok(held)
    }

    /// A copy of a left value, as if read from a store: other operators may change an object in place.
    fn own(&self, value: Datum) -> Result<Datum> {
        match &value {
            Datum::Opaque(object) if object.changes() => {
                self.value.decode(self.value.encode(&value)?)
            }
            _ => Ok(value),
        }
    }

    /// For each record: whether the left value is the one that the answer belongs to. Attaches once for
    /// all.
    fn current(&self, batch: &[Record], held: &[Held]) -> Result<Vec<bool>> {
        let mut verdicts = Ok(Vec::new());
        self.joiner.scope(&mut || {
            verdicts = batch
                .iter()
                .zip(held)
                .map(|(record, held)| {
                    let print = match held {
                        Held {
                            fingerprint: Some(known),
                            ..
                        } => Ok(*known),
                        Held { row: Some(row), .. } => fingerprint(&row.value, &self.value),
                        Held { .. } => Ok(None),
                    };
                    print
                        .and_then(|print| Ok(print == Answer::of(record)?.fingerprint))
                        .map_err(|e| self.node_context.locate(e, &record.origin))
                })
                .collect();
        });
        verdicts
    }
}

impl Operator for ForeignJoin {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut lost = Vec::new();
        let as_of = match &self.rows {
            Some(_) => AsOf::EpochStart,
            None => AsOf::Latest,
        };
        let held = self
            .left
            .look_up(&self.node_context, input, as_of, &mut lost, context)?;
        for at in lost.into_iter().rev() {
            input.remove(at);
        }
        let held = self.at_answers(input, held, context)?;
        let current = self.current(input, &held)?;
        let mut joined = Vec::new();
        for ((mut record, held), current) in input.drain(..).zip(held).zip(current) {
            if !current {
                continue;
            }
            let Answer { right, quiet, .. } = Answer::of(&record)?.clone();
            if quiet {
                record.value = Retract.wrap();
                out.push(record);
                continue;
            }
            let left = held.row.filter(|_| self.outer || !right.is_null());
            if let Some(left) = left {
                let left = self.own(left.value)?;
                self.joiner.add(&record.key, left, right, record.origin);
                joined.push(out.len());
            }
            record.value = Datum::Null;
            out.push(record);
        }
        let Joined { results, lost } = self.joiner.join(context)?;
        for (at, row) in joined.iter().zip(results) {
            out[*at].value = row;
        }
        for row in lost.iter().rev() {
            out.remove(joined[*row]);
        }
        Ok(())
    }

    fn barrier(&mut self, _: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        if let Some((_, rows)) = &self.rows {
            rows.lock().forget(context.epoch);
        }
        Ok(())
    }
}
