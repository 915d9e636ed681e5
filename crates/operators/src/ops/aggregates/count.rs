//! `count`: number of records per key.
//!
//! Takes records at their key's lane, emits the count after each. Null keys and null values are not
//! counted (but counted as dropped). The result's timestamp is the highest that the key has seen. After
//! a pre-aggregating exchange ([`Preaggregate`]) each record stands for as many records as its value
//! says.

mod preaggregate;
#[cfg(test)]
mod tests;

pub(crate) use preaggregate::Preaggregate;

use crate::ops::aggregates::fold::{FoldFunction, fold_versions};
use crate::support::table_writer::{TableWriter, Update};
use crate::{Context, LaneStore, Operator, Udf};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};
use stoatflow_state::Stored;

/// See the module.
#[derive(Debug)]
pub(crate) struct Count {
    writer: TableWriter,
    /// True if the exchange above has pre-aggregated.
    ahead: bool,
}

impl Count {
    /// `ahead`: each record's value is the number of records that it stands for.
    pub fn new(writer: TableWriter, ahead: bool) -> Self {
        Self { writer, ahead }
    }
}

impl Operator for Count {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if self.writer.is_versioned() {
            return fold_versions(&mut self.writer, &mut CountFold, input, out, context);
        }
        let epoch = context.epoch;
        for record in input.drain(..) {
            if !self.writer.admits(&record, context) {
                continue;
            }
            let by = if self.ahead {
                preaggregate::records(&record.value).map_err(|e| self.writer.locate(e, &record))?
            } else {
                1
            };
            let key = self.writer.key(&record)?;
            let LaneStore { store, dirty } = context.store(self.writer.store);
            // The closure sets these: a return value would be copied on its way through the store.
            let (mut existed, mut now, mut time) = (false, 0, record.timestamp);
            store
                .update(epoch, dirty, &key, |old| {
                    match old {
                        Some(Stored {
                            value: Datum::Int(count),
                            timestamp,
                        }) => (existed, now, time) = (true, *count, time.max(*timestamp)),
                        Some(other) => return Err(not_a_count(&other.value)),
                        None => {}
                    }
                    now = more(now, by)?;
                    let stored = Stored {
                        value: Datum::Int(now),
                        timestamp: time,
                    };
                    Ok((Some(stored), ()))
                })
                .map_err(|e| self.writer.locate(e, &record))?;
            let value = if self.writer.sends_old() {
                // The old value of a new count is 0, not null.
                let before = Datum::Int(now - by);
                self.writer.update(existed, before, Datum::Int(now))
            } else {
                Datum::Int(now)
            };
            let update = Update {
                existed,
                value,
                timestamp: time,
            };
            self.writer.forward(&key, record, update, out);
        }
        Ok(())
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        self.writer.barrier(out);
        Ok(())
    }
}

/// Counting as [`FoldFunction`], for versioned stores.
struct CountFold;

impl FoldFunction for CountFold {
    fn attach(&self) -> Option<Arc<dyn Udf>> {
        None
    }

    fn start(&mut self, _record: &Record) -> Result<Option<Datum>> {
        Ok(Some(Datum::Int(0)))
    }

    fn step(&mut self, so_far: Option<Datum>, _record: &Record) -> Result<Datum> {
        counted(&so_far.unwrap_or(Datum::Int(0)), 1)
    }
}

/// Adds `by`, which may be negative, to a count.
pub(crate) fn counted(count: &Datum, by: i64) -> Result<Datum> {
    match count {
        Datum::Int(count) => more(*count, by).map(Datum::Int),
        other => Err(not_a_count(other)),
    }
}

fn more(count: i64, by: i64) -> Result<i64> {
    count
        .checked_add(by)
        .ok_or_else(|| Error::user("a count went beyond 64 bits"))
}

fn not_a_count(found: &Datum) -> Error {
    Error::incompatible(format!(
        "the store of a count holds a value of type {}",
        found.type_name()
    ))
    .hint("keep counts with Serdes.int64(), and give a store that had another serde another name. To compute everything \
        again: stoatflow reset")
}
