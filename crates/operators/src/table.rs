//! `table`: keeps a topic's newest value per key.
//!
//! Takes records, writes them to its store as they come (an out-of-order record overwrites, as in
//! Kafka Streams), gives every update on, unchanged ones and tombstones too. Null keys are dropped
//! and counted. Never compares timestamps.

#[cfg(test)]
mod tests;

use crate::keeper::{Keeper, Update};
use crate::{Context, LaneStore, Operator, dropped};
use stoatflow_core::{Record, Result};
use stoatflow_state::Stored;

/// See the module.
#[derive(Debug)]
pub(crate) struct Table {
    keeper: Keeper,
}

impl Table {
    pub fn new(keeper: Keeper) -> Self {
        Self { keeper }
    }
}

impl Operator for Table {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let epoch = context.epoch;
        for record in input.drain(..) {
            if record.key.is_null() {
                context
                    .effects
                    .dropped
                    .push((self.keeper.site.node, dropped::NULL_KEY));
                continue;
            }
            let key = self.keeper.key(&record)?;
            let (value, timestamp) = (record.value.clone(), record.timestamp);
            // A null value deletes, at this time.
            let stored = Some(Stored {
                value: value.clone(),
                timestamp,
            });
            let LaneStore { store, dirty } = context.store(self.keeper.store);
            // Only held updates need to know what was there; a plain write needs no read.
            let written = if self.keeper.is_cached() {
                store.update(epoch, dirty, &key, |old| Ok((stored, old.is_some())))
            } else {
                store.put(epoch, dirty, &key, stored).map(|()| true)
            };
            let existed = written.map_err(|e| self.keeper.locate(e, &record))?;
            self.keeper.forward(
                &key,
                record,
                Update {
                    existed,
                    value,
                    timestamp,
                },
                out,
            );
        }
        Ok(())
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        self.keeper.barrier(out);
        Ok(())
    }
}
