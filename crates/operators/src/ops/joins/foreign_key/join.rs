//! `foreign_join`: joins an answer with the left value that it is an answer to.
//!
//! Takes answers at the left key's lane, gives the rows of the result: null where one side is missing
//! that the join can't do without. An answer to another left value than there is now is dropped: that one
//! has subscribed too, and its own answer is on its way. The last value of an epoch has its answers in
//! the same epoch, and none of them is dropped, so the row is right when the epoch ends, whatever
//! overtook what.

use crate::ops::joins::foreign_key::message::{Answer, TakeBack, fingerprint};
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
    /// A left join?
    outer: bool,
}

impl ForeignJoin {
    pub fn new(
        node_context: NodeContext,
        left: ViewRead,
        joiner: Joiner,
        value: Serde,
        outer: bool,
    ) -> Self {
        Self {
            node_context,
            left,
            joiner,
            value,
            outer,
        }
    }

    /// Is the left value still the one that an answer speaks of? For each record; one attach for all.
    fn current(&self, batch: &[Record], held: &[Option<Stored>]) -> Result<Vec<bool>> {
        let mut verdicts = Ok(Vec::new());
        self.joiner.scope(&mut || {
            verdicts = batch
                .iter()
                .zip(held)
                .map(|(record, held)| {
                    let print = match held {
                        Some(held) => fingerprint(&held.value, &self.value),
                        None => Ok(None),
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
        let held =
            self.left
                .look_up(&self.node_context, input, AsOf::Latest, &mut lost, context)?;
        for at in lost.into_iter().rev() {
            input.remove(at);
        }
        let current = self.current(input, &held)?;
        let mut joined = Vec::new();
        for ((mut record, held), current) in input.drain(..).zip(held).zip(current) {
            if !current {
                continue;
            }
            let Answer { right, quiet, .. } = Answer::of(&record)?.clone();
            if quiet {
                record.value = TakeBack.wrap();
                out.push(record);
                continue;
            }
            let left = held.filter(|_| self.outer || !right.is_null());
            if let Some(left) = left {
                self.joiner
                    .add(&record.key, left.value, right, record.origin);
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
}
