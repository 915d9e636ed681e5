//! `count`: how many records a key has had.
//!
//! Takes records at their key's lane, gives the count after each. Null keys and null values are not
//! counted (but counted as dropped). The result's time is the highest the key has seen.

#[cfg(test)]
mod tests;

use crate::keeper::{Keeper, Update};
use crate::{Context, LaneStore, Operator};
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
                    let now = before
                        .checked_add(1)
                        .ok_or_else(|| Error::user("a count went beyond 64 bits"))?;
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

fn not_a_count(found: &Datum) -> Error {
    Error::incompatible(format!(
        "the store of a count holds a value of type {}",
        found.type_name()
    ))
    .hint("keep counts with Serdes.int64(), and delete a store that was written with another serde")
}
