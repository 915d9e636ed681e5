//! `count`, `reduce`, `aggregate` in windows of a fixed number of records per key.
//!
//! Takes records at their key's lane, emits the aggregate of the record's window. The first `n` records
//! of a key are its window `[0, n)`, the next `n` are `[n, 2n)`, and so on. Only the key's records are
//! counted: time has no influence, no record is late, and lanes need not agree on anything. Null keys
//! are dropped and not counted; null values are aggregated, as in time windows. The result's timestamp
//! is the highest in the window.
//!
//! The number of records per key is kept in a store of its own, beside that of the windows. A key's open
//! window and its last full one are kept; older ones are deleted when the next one is full. With
//! `on_window_close` the result is emitted once, with the record that fills the window.

#[cfg(test)]
mod tests;

use crate::ops::windows::window::{Folder, WindowCache, WindowedStore};
use crate::support::dropped;
use crate::{Context, Operator};
use bytes::Bytes;
use stoatflow_core::{Datum, Error, Record, Result, StoreId, Timestamp};
use stoatflow_state::{Stored, WindowView};

/// A record in its window.
#[derive(Debug)]
struct WindowUpdate {
    record: usize,
    window: usize,
    start: i64,
    /// True if the record fills the window.
    fills: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct CountWindowAggregate {
    kept: WindowedStore,
    positions: StoreId,
    folder: Folder,
    /// Number of records per window.
    records: i64,
    on_close: bool,
    cache: WindowCache,
    counted: WindowCache,
    batch: Vec<Record>,
    updates: Vec<WindowUpdate>,
    /// Windows that were full before the last full one of their key.
    outdated: Vec<Bytes>,
}

impl CountWindowAggregate {
    pub fn new(
        kept: WindowedStore,
        positions: StoreId,
        folder: Folder,
        records: i64,
        on_close: bool,
    ) -> Self {
        Self {
            kept,
            positions,
            folder,
            records,
            on_close,
            cache: WindowCache::default(),
            counted: WindowCache::default(),
            batch: Vec::new(),
            updates: Vec::new(),
            outdated: Vec::new(),
        }
    }

    /// Counts the records, and reads their windows.
    fn gather(&mut self, input: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        for record in input.drain(..) {
            if record.key.is_null() {
                let dropped = (self.kept.writer.node_context.node, dropped::NULL_KEY);
                context.effects.dropped.push(dropped);
                continue;
            }
            let update = self.admit(&record, context);
            let update = update.map_err(|e| self.kept.writer.locate(e, &record))?;
            self.updates.push(update);
            self.batch.push(record);
        }
        Ok(())
    }

    fn admit(&mut self, record: &Record, context: &mut Context<'_>) -> Result<WindowUpdate> {
        let key = self.kept.writer.key(record)?;
        let position = self.count(key.clone(), record.timestamp, context)?;
        let start = position - position % self.records;
        let fills = position - start == self.records - 1;
        let store = &self.kept.lane_store(context.stores).store;
        // Windows don't expire by time: the starts of all keys stay visible.
        let mut view = WindowView::new(store, context.epoch, -1)?;
        let gone = || Error::internal("a window of records expired");
        let internal = view.admit(&key, start).ok_or_else(gone)?;
        if fills && start >= self.records {
            let before = view.admit(&key, start - self.records).ok_or_else(gone)?;
            self.outdated.push(before);
        }
        Ok(WindowUpdate {
            record: self.batch.len(),
            window: self.cache.load(store, context.epoch, internal)?,
            start,
            fills,
        })
    }

    /// Number of records that the key had before this one.
    fn count(&mut self, key: Bytes, time: Timestamp, context: &mut Context<'_>) -> Result<i64> {
        let epoch = context.epoch;
        let store = &context.store(self.positions).store;
        let at = self.counted.load(store, epoch, key)?;
        let window = self.counted.get(at);
        let (position, timestamp) = match &window.current {
            None => (0, time),
            Some(Stored {
                value: Datum::Int(position),
                timestamp,
            }) => (*position, time.max(*timestamp)),
            Some(other) => {
                return Err(Error::incompatible(format!(
                    "the store {} holds a position of type {}",
                    store.name(),
                    other.value.type_name()
                ))
                .hint(
                    "delete the stores of this aggregation: they were written by something else",
                ));
            }
        };
        let next = position
            .checked_add(1)
            .ok_or_else(|| Error::user("a key had more records than 64 bits can count"))?;
        window.changed = true;
        window.current = Some(Stored {
            value: Datum::Int(next),
            timestamp,
        });
        Ok(position)
    }

    /// Returns `false` if a record was left out.
    fn compute(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<bool> {
        let Self {
            kept,
            folder,
            cache,
            batch,
            updates,
            ..
        } = self;
        let (records, on_close) = (self.records, self.on_close);
        let mut lost = false;
        folder.scope(&mut || {
            updates.drain(..).try_for_each(|update| {
                let record = &batch[update.record];
                let window = cache.get(update.window);
                let Some(folded) = window.fold(record, folder, kept, out, context)? else {
                    lost = true;
                    return Ok(());
                };
                let end = update.start.saturating_add(records);
                let key = Datum::windowed(record.key.clone(), update.start, end);
                if !on_close {
                    let outcome = folded.under(key);
                    window.passed_on = kept.forward(&window.key, record, outcome, out)?;
                } else if update.fills && !folded.new.is_null() {
                    out.push(Record {
                        key,
                        value: kept.writer.update(true, Datum::Null, folded.new),
                        timestamp: folded.timestamp,
                        headers: record.headers.clone(),
                        origin: record.origin,
                    });
                }
                Ok(())
            })
        })?;
        batch.clear();
        Ok(!lost)
    }

    fn write(&mut self, context: &mut Context<'_>) -> Result<()> {
        let epoch = context.epoch;
        self.counted.store(context.store(self.positions), epoch)?;
        let windows = self.kept.lane_store(context.stores);
        self.cache.store(windows, epoch)?;
        // After the writes: a batch may fill two windows of a key.
        self.outdated
            .drain(..)
            .try_for_each(|key| windows.store.put(epoch, &mut windows.dirty, &key, None))
    }
}

impl CountWindowAggregate {
    fn take(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.gather(input, context)?;
        if self.compute(out, context)? {
            return self.write(context).map_err(|e| self.kept.name(e));
        }
        self.counted.forget();
        self.cache.forget();
        self.outdated.clear();
        Ok(())
    }
}

impl Operator for CountWindowAggregate {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if self.kept.writer.node_context.is_lenient() && input.len() > 1 {
            // A record that is left out must not count for the windows of the records after it.
            let mut one = Vec::with_capacity(1);
            for record in input.drain(..) {
                one.push(record);
                self.take(&mut one, out, context)?;
            }
            return Ok(());
        }
        self.take(input, out, context)
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        self.kept.writer.barrier(out);
        Ok(())
    }
}
