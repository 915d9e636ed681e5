//! `count`: how many records a key has had.
//!
//! Takes records at their key's lane, gives the count after each. Null keys and null values are not
//! counted (but counted as dropped). The result's time is the highest the key has seen.

#[cfg(test)]
mod tests;

use crate::fold::{Steps, fold_versions};
use crate::keeper::{Keeper, Update};
use crate::{Context, LaneStore, Operator, Udf};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};
use stoatflow_state::Stored;

/// See the module.
#[derive(Debug)]
pub(crate) struct Count {
    keeper: Keeper,
}

impl Count {
    pub fn new(keeper: Keeper) -> Self {
        Self { keeper }
    }
}

impl Operator for Count {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if self.keeper.is_versioned() {
            return fold_versions(&mut self.keeper, &mut Counting, input, out, context);
        }
        let epoch = context.epoch;
        for record in input.drain(..) {
            if !self.keeper.admits(&record, context) {
                continue;
            }
            let key = self.keeper.key(&record)?;
            let keeper = &self.keeper;
            let LaneStore { store, dirty } = context.store(keeper.store);
            let update = store
                .update(epoch, dirty, &key, |old| {
                    let (before, timestamp) = match old {
                        Some(Stored {
                            value: Datum::Int(n),
                            timestamp,
                        }) => (*n, record.timestamp.max(*timestamp)),
                        Some(other) => return Err(not_a_count(&other.value)),
                        None => (0, record.timestamp),
                    };
                    let now = more(before, 1)?;
                    let stored = Stored {
                        value: Datum::Int(now),
                        timestamp,
                    };
                    let existed = old.is_some();
                    let update = Update {
                        existed,
                        // A count that starts was 0 before, not null.
                        value: keeper.update(existed, Datum::Int(before), Datum::Int(now)),
                        timestamp,
                    };
                    Ok((Some(stored), update))
                })
                .map_err(|e| self.keeper.locate(e, &record))?;
            self.keeper.forward(&key, record, update, out);
        }
        Ok(())
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        self.keeper.barrier(out);
        Ok(())
    }
}

/// Counts as steps, where versions are kept.
struct Counting;

impl Steps for Counting {
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

/// A count and some more, or less.
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
    .hint("keep counts with Serdes.int64(), and delete a store that was written with another serde")
}
