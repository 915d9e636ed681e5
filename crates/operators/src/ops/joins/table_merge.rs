//! Where the two sides of a join of tables meet.
//!
//! Takes the updates of both sides, keeps the result if it has a store, gives them on. A join may say that a
//! row has to be taken back if it is there: the store knows, and where there is none nobody below is told.
//! Never joins.
//!
//! With `emit.mode = barrier` a result without a store waits for the barrier too. Both sides release
//! their updates there, one after the other: what the first makes with an old value of the second must
//! not be seen.

#[cfg(test)]
mod tests;

use crate::api::operator::pour;
use crate::ops::joins::foreign_key::message::TakeBack;
use crate::support::node_context::Site;
use crate::support::table_writer::{Before, Keeper};
use crate::support::update_cache::Held;
use crate::{Context, Operator};
use stoatflow_core::{Datum, Error, Record, Result, Serde};

/// See the module.
#[derive(Debug)]
pub(crate) struct TableMerge {
    keeper: Option<Keeper>,
    /// What waits for the barrier, by the key's bytes.
    waits: Option<(Serde, Held)>,
    site: Site,
}

impl TableMerge {
    /// `waits`: without a store results wait for the barrier, one for each key of this serde.
    pub fn new(keeper: Option<Keeper>, waits: Option<Serde>, site: Site) -> Self {
        Self {
            keeper,
            waits: waits.map(|key| (key, Held::default())),
            site,
        }
    }
}

impl Operator for TableMerge {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if self.keeper.is_none() {
            input.retain(|record| !TakeBack::is(&record.value));
        }
        if let Some((serde, held)) = &mut self.waits {
            for record in input.drain(..) {
                let key = serde.encode(&record.key).and_then(|key| {
                    key.ok_or_else(|| Error::internal("a null key reached a join of tables"))
                });
                let key = key.map_err(|e| self.site.locate(e, &record.origin))?;
                // Nobody knows what was below before: a deletion goes on, as it does without a store.
                held.hold(&key, true, record);
            }
            return Ok(());
        }
        let Some(keeper) = &mut self.keeper else {
            pour(input, out);
            return Ok(());
        };
        for mut record in input.drain(..) {
            if TakeBack::is(&record.value) {
                let Some(held) = keeper.stored(&record, context)? else {
                    continue;
                };
                // A store of versions goes by time, and this is about the row that it has now.
                record.timestamp = record.timestamp.max(held.timestamp);
                record.value = Datum::Null;
            }
            // A row of a join by foreign key doesn't say what was before.
            let (new, before) = match std::mem::take(&mut record.value) {
                Datum::Change(change) => (change.new, Before::Given(change.old)),
                new => (new, Before::Stored),
            };
            keeper.keep(record, new, before, out, context)?;
        }
        Ok(())
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        if let Some(keeper) = &mut self.keeper {
            keeper.barrier(out);
        }
        if let Some((_, held)) = &mut self.waits {
            held.release(out);
        }
        Ok(())
    }
}
