//! `aggregate` with a native aggregation, without a user function.
//!
//! Takes records at their key's lane, emits the aggregate after each. Updates the value inside the
//! store: one look-up per record. Null keys and null values are dropped and counted. The result's
//! timestamp is the highest that the key has seen since it started. For grouped tables and windows: see
//! `table_aggregate`, `window`.

#[cfg(test)]
mod tests;

use crate::expr::aggregation::Aggregation;
use crate::ops::aggregates::fold::{FoldFunction, fold_versions};
use crate::support::table_writer::{TableWriter, Update};
use crate::{Context, LaneStore, Operator, Udf};
use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::{Datum, Record, Result};
use stoatflow_state::Stored;

/// See the module.
#[derive(Debug)]
pub(crate) struct NativeAggregate {
    writer: TableWriter,
    aggregation: Aggregation,
}

impl NativeAggregate {
    pub fn new(writer: TableWriter, aggregation: Aggregation) -> Self {
        Self {
            writer,
            aggregation,
        }
    }
}

/// Adds a record to its key's aggregate; returns the key and the update.
fn turn(
    writer: &TableWriter,
    aggregation: &Aggregation,
    record: &Record,
    context: &mut Context<'_>,
) -> Result<(Bytes, Update)> {
    // Read before the store is locked.
    let inputs = aggregation.read(record)?;
    let key = writer.key(record)?;
    let epoch = context.epoch;
    let LaneStore { store, dirty } = context.store(writer.store);
    let update = store.update(epoch, dirty, &key, |old| {
        let held = old.filter(|held| !held.value.is_null());
        let time = held.map_or(record.timestamp, |held| {
            record.timestamp.max(held.timestamp)
        });
        let start;
        let so_far = match held {
            Some(held) => &held.value,
            None => {
                start = aggregation.start();
                &start
            }
        };
        let new = aggregation.add(so_far, &inputs)?;
        writer.check(&new)?;
        let existed = held.is_some();
        let before = if writer.sends_old() {
            so_far.clone()
        } else {
            Datum::Null
        };
        let stored = Stored {
            value: new.clone(),
            // A tombstone has the timestamp of the record that caused it, as in Kafka Streams.
            timestamp: if new.is_null() {
                record.timestamp
            } else {
                time
            },
        };
        let update = Update {
            existed,
            value: writer.update(existed, before, new),
            timestamp: time,
        };
        Ok((Some(stored), update))
    })?;
    Ok((key, update))
}

impl Operator for NativeAggregate {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let Self {
            writer,
            aggregation,
        } = self;
        if writer.is_versioned() {
            return fold_versions(writer, &mut NativeFold(aggregation), input, out, context);
        }
        for record in input.drain(..) {
            if !writer.admits(&record, context) {
                continue;
            }
            let one = |context: &mut Context<'_>| turn(writer, aggregation, &record, context);
            if let Some((key, update)) = writer.node_context.attempt(&record, context, one)? {
                writer.forward(&key, record, update, out);
            }
        }
        Ok(())
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        self.writer.barrier(out);
        Ok(())
    }
}

/// The aggregation as [`FoldFunction`], for versioned stores.
struct NativeFold<'a>(&'a Aggregation);

impl FoldFunction for NativeFold<'_> {
    fn attach(&self) -> Option<Arc<dyn Udf>> {
        None
    }

    fn start(&mut self, _record: &Record) -> Result<Option<Datum>> {
        Ok(Some(self.0.start()))
    }

    fn step(&mut self, so_far: Option<Datum>, record: &Record) -> Result<Datum> {
        self.0.step(&so_far.unwrap_or_default(), record)
    }
}
