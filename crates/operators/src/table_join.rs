//! One side of a join of two tables by their keys (`join`, `left_join`, `outer_join`).
//!
//! Takes one side's updates at their key's lane, reads the other side, gives the updates of the result to
//! the node where both sides meet. A row has the later of both times. Without a partner that the join
//! can't do without nothing is given, not even a tombstone; with one, a deletion gives a tombstone each
//! time. Updates that aren't the newest of a versioned table are left out.

#[cfg(test)]
mod tests;

use crate::joiner::{Joiner, Needs};
use crate::site::Site;
use crate::view_read::{AsOf, ViewRead};
use crate::{Context, Operator, dropped, table_update};
use stoatflow_core::{Change, Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct TableJoin {
    site: Site,
    /// Are the updates those of the left side?
    left: bool,
    needs: Needs,
    other: ViewRead,
    joiner: Joiner,
    old: bool,
    rows: Vec<Row>,
}

/// An update of the result, before the joiner was called.
#[derive(Debug)]
struct Row {
    record: Record,
    latest: bool,
    /// Is there a row now, and was there one before?
    new: bool,
    old: bool,
}

impl TableJoin {
    pub fn new(
        site: Site,
        left: bool,
        needs: Needs,
        other: ViewRead,
        joiner: Joiner,
        old: bool,
    ) -> Self {
        Self {
            site,
            left,
            needs,
            other,
            joiner,
            old,
            rows: Vec::new(),
        }
    }

    /// Adds a row for the joiner, if there is one.
    fn add(&mut self, record: &Record, own: Datum, other: Datum) -> bool {
        let (left, right) = if self.left {
            (own, other)
        } else {
            (other, own)
        };
        let met = self.needs.met(&left, &right);
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
        let node = self.site.node;
        input.retain(|record| {
            if record.key.is_null() {
                context.effects.dropped.push((node, dropped::NULL_KEY));
                return false;
            }
            table_update::is_latest(&record.value)
        });
        let others = self
            .other
            .read(input, AsOf::Latest, context)
            .map_err(|e| self.site.name_node(e))?;
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
                None if other_needed || (new.is_null() && old.is_null()) => continue,
                None => Datum::Null,
            };
            let new = self.add(&record, new, other.clone());
            let old = self.old && self.add(&record, old, other);
            self.rows.push(Row {
                record,
                latest,
                new,
                old,
            });
        }
        let mut results = self.joiner.join()?;
        for row in self.rows.drain(..) {
            let mut result = |there: bool| {
                let found = there.then(|| results.next()).flatten();
                found.unwrap_or_default()
            };
            let (new, old) = (result(row.new), result(row.old));
            let mut record = row.record;
            record.value = table_update::make(self.old, old, new, row.latest);
            out.push(record);
        }
        Ok(())
    }
}
