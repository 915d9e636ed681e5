//! One side of a join of two tables by their keys (`join`, `left_join`, `outer_join`).
//!
//! Takes one side's updates at their key's lane, reads the other side, sends the updates of the result
//! to the node that merges both sides. A row has the later of both timestamps. If a required partner is
//! missing, nothing is emitted, not even a tombstone; otherwise each deletion emits a tombstone. Updates
//! that aren't the newest of a versioned table are left out.
//!
//! The other side is read from its store, as in Kafka Streams. If updates arrive after their store was
//! written (the store is in a lower stage, or record caching holds updates back), the other side is what
//! its updates have reported so far, see [`crate::ops::joins::epoch_updates`]. A deletion that finds
//! nothing to join then still retracts a kept row, because under at-least-once a crash may have
//! committed the tables' deletions without that of the row.

#[cfg(test)]
mod tests;

use crate::ops::joins::epoch_updates;
use crate::ops::joins::foreign_key::message::Retract;
use crate::ops::joins::joiner::{Joined, Joiner, Needs};
use crate::ops::tables::table_update;
use crate::ops::tables::view_read::{AsOf, ViewRead};
use crate::support::dropped;
use crate::support::node_context::NodeContext;
use crate::{Context, Operator};
use stoatflow_core::{Change, Datum, Error, Record, Result, Serde};
use stoatflow_state::Stored;

/// See the module.
#[derive(Debug)]
pub(crate) struct TableJoin {
    node_context: NodeContext,
    /// True if the updates are those of the left side.
    left: bool,
    needs: Needs,
    other: ViewRead,
    joiner: Joiner,
    late: Option<Late>,
    old: bool,
    rows: Vec<Row>,
}

/// For updates that arrive after their stores were written.
#[derive(Debug)]
pub(crate) struct Late {
    pub key: Serde,
    pub updates: epoch_updates::Shared,
}

/// An update of the result, before the joiner is called.
#[derive(Debug)]
struct Row {
    record: Record,
    latest: bool,
    /// True if there is nothing to join, and only an existing row has to be retracted.
    gone: bool,
    /// True if there is a row now, and if there was one before.
    new: bool,
    old: bool,
}

impl TableJoin {
    pub fn new(
        node_context: NodeContext,
        left: bool,
        needs: Needs,
        other: ViewRead,
        joiner: Joiner,
        late: Option<Late>,
        old: bool,
    ) -> Self {
        Self {
            node_context,
            left,
            needs,
            other,
            joiner,
            late,
            old,
            rows: Vec::new(),
        }
    }

    /// The other side of each update; updates whose other side can't be computed are added to `lost` and
    /// left out.
    fn partners(
        &mut self,
        input: &[Record],
        lost: &mut Vec<usize>,
        context: &mut Context<'_>,
    ) -> Result<Vec<Option<Stored>>> {
        let Some(late) = &self.late else {
            return self
                .other
                .look_up(&self.node_context, input, AsOf::Latest, lost, context);
        };
        let mut updates = epoch_updates::lock(&late.updates, context.epoch);
        let mut found = Vec::with_capacity(input.len());
        for record in input {
            let key = late.key.encode(&record.key)?;
            let key = key.ok_or_else(|| Error::internal("a null key reached a join of tables"))?;
            found.push(updates.last_update(!self.left, &key));
            updates.record_update(self.left, key, record);
        }
        drop(updates);
        if found.iter().all(Option::is_none) {
            return self.other.read(input, AsOf::EpochStart, context);
        }
        let quiet = input
            .iter()
            .zip(&found)
            .filter(|(_, updates)| updates.is_none());
        let quiet: Vec<Record> = quiet.map(|(r, _)| r.with_value(Datum::Null)).collect();
        let read = self.other.read(&quiet, AsOf::EpochStart, context)?;
        let mut read = read.into_iter();
        let partner = |updates: Option<_>| updates.unwrap_or_else(|| read.next().flatten());
        Ok(found.into_iter().map(partner).collect())
    }

    /// Adds a row to the joiner, if the join has one for these sides.
    fn add(&mut self, record: &Record, own: Datum, other: Datum) -> bool {
        let (left, right) = if self.left {
            (own, other)
        } else {
            (other, own)
        };
        let met = self.needs.is_joined(&left, &right);
        if met {
            self.joiner.add(&record.key, left, right, record.origin);
        }
        met
    }
}

impl Operator for TableJoin {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let node = self.node_context.node;
        input.retain(|record| {
            if record.key.is_null() {
                context.effects.dropped.push((node, dropped::NULL_KEY));
                return false;
            }
            table_update::is_latest(&record.value)
        });
        let mut lost = Vec::new();
        let others = self
            .partners(input, &mut lost, context)
            .map_err(|e| self.node_context.name_node(e))?;
        for at in lost.into_iter().rev() {
            input.remove(at);
        }
        let other_needed = if self.left {
            self.needs.right
        } else {
            self.needs.left
        };
        for (mut record, other) in input.drain(..).zip(others) {
            let Change { old, new, latest } =
                table_update::split(std::mem::take(&mut record.value));
            let other = match other {
                Some(other) => {
                    record.timestamp = record.timestamp.max(other.timestamp);
                    other.value
                }
                None if other_needed || (new.is_null() && old.is_null()) => {
                    if self.late.is_some() && new.is_null() {
                        self.rows.push(Row {
                            record,
                            latest,
                            gone: true,
                            new: false,
                            old: false,
                        });
                    }
                    continue;
                }
                None => Datum::Null,
            };
            let new = self.add(&record, new, other.clone());
            let old = self.old && self.add(&record, old, other);
            self.rows.push(Row {
                record,
                latest,
                gone: false,
                new,
                old,
            });
        }
        let Joined { mut results, lost } = self.joiner.join(context)?;
        let (mut called, mut lost) = (0, lost.iter().peekable());
        for row in self.rows.drain(..) {
            let mut whole = true;
            let mut result = |there: bool| {
                if !there {
                    return Datum::Null;
                }
                whole &= lost.next_if(|row| **row == called).is_none();
                called += 1;
                results.next().unwrap_or_default()
            };
            let (new, old) = (result(row.new), result(row.old));
            if !whole {
                continue;
            }
            let mut record = row.record;
            if row.gone {
                record.value = Retract.wrap();
                out.push(record);
                continue;
            }
            record.value = table_update::make(self.old, old, new, row.latest);
            out.push(record);
        }
        Ok(())
    }
}
