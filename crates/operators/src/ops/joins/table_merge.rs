//! Merges the two sides of a table-table join.
//!
//! Takes the updates of both sides, writes the result to its store, if it has one, and forwards them. A
//! join may ask to retract a row if it exists: the store knows; without a store nothing is forwarded
//! then. Never joins.
//!
//! With `emit.mode = barrier` a result without a store waits for the barrier too. Both sides release
//! their updates there, one after the other: a row that the first joins with an old value of the second
//! must not be visible.

#[cfg(test)]
mod tests;

use crate::api::operator::move_records;
use crate::ops::joins::foreign_key::message::Retract;
use crate::support::node_context::NodeContext;
use crate::support::table_writer::{Before, TableWriter};
use crate::support::update_cache::UpdateCache;
use crate::{Context, Operator};
use stoatflow_core::{Datum, Error, Record, Result, Serde};

/// See the module.
#[derive(Debug)]
pub(crate) struct TableMerge {
    writer: Option<TableWriter>,
    /// Updates that wait for the barrier, by the key's bytes.
    waits: Option<(Serde, UpdateCache)>,
    node_context: NodeContext,
}

impl TableMerge {
    /// `waits`: serde of the keys, if results without a store wait for the barrier, one per key.
    pub fn new(
        writer: Option<TableWriter>,
        waits: Option<Serde>,
        node_context: NodeContext,
    ) -> Self {
        Self {
            writer,
            waits: waits.map(|key| (key, UpdateCache::default())),
            node_context,
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
        if self.writer.is_none() {
            input.retain(|record| !Retract::is(&record.value));
        }
        if let Some((serde, cache)) = &mut self.waits {
            for record in input.drain(..) {
                let key = serde.encode(&record.key).and_then(|key| {
                    key.ok_or_else(|| Error::internal("a null key reached a join of tables"))
                });
                let key = key.map_err(|e| self.node_context.locate(e, &record.origin))?;
                // Without a store it is unknown what was forwarded before: a deletion is always
                // forwarded.
                cache.hold(&key, true, record);
            }
            return Ok(());
        }
        let Some(writer) = &mut self.writer else {
            move_records(input, out);
            return Ok(());
        };
        for mut record in input.drain(..) {
            if Retract::is(&record.value) {
                let Some(cache) = writer.stored(&record, context)? else {
                    continue;
                };
                // A versioned store is ordered by time, and this retracts its newest row.
                record.timestamp = record.timestamp.max(cache.timestamp);
                record.value = Datum::Null;
            }
            // A row of a foreign-key join doesn't contain the old value.
            let (new, before) = match std::mem::take(&mut record.value) {
                Datum::Change(change) => (change.new, Before::Given(change.old)),
                new => (new, Before::Stored),
            };
            writer.keep(record, new, before, out, context)?;
        }
        Ok(())
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        if let Some(writer) = &mut self.writer {
            writer.barrier(out);
        }
        if let Some((_, cache)) = &mut self.waits {
            cache.release(out);
        }
        Ok(())
    }
}
