//! Updates that wait, one per key, in order.
//!
//! Takes updates; returns them by the time of the key's first update, then by the key's bytes. Knows
//! which of them the store doesn't have yet. Never reads or writes the store.

#[cfg(test)]
mod tests;

use crate::ops::tables::table_update;
use crate::support::time_index::TimeIndex;
use bytes::Bytes;
use std::collections::HashMap;
use stoatflow_core::{Datum, Record};

/// An update that waits.
#[derive(Debug)]
pub struct Waiting {
    /// Time by which it is ordered.
    pub time: i64,
    /// The newest update.
    pub record: Record,
    /// The key's value before its first update here.
    pub prior: Datum,
    /// True if the store has an update of this key.
    pub saved: bool,
    /// True if it is in the list of keys to be saved.
    listed: bool,
    bytes: usize,
}

impl Waiting {
    pub fn new(time: i64, record: Record, prior: Datum) -> Self {
        Self {
            time,
            record,
            prior,
            saved: false,
            listed: false,
            bytes: 0,
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Buffer {
    line: TimeIndex,
    waiting: HashMap<Bytes, Waiting>,
    unsaved: Vec<Bytes>,
    bytes: usize,
}

impl Buffer {
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Approximate size of the held updates, if sizes were passed.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn get(&self, key: &Bytes) -> Option<&Waiting> {
        self.waiting.get(key)
    }

    pub fn get_mut(&mut self, key: &Bytes) -> Option<&mut Waiting> {
        self.waiting.get_mut(key)
    }

    /// Adds an update; it replaces an earlier one of the key and keeps its position.
    pub fn put(&mut self, key: Bytes, time: i64, record: Record, bytes: usize) {
        self.bytes += bytes;
        if let Some(waiting) = self.waiting.get_mut(&key) {
            waiting.record = record;
            self.bytes -= std::mem::replace(&mut waiting.bytes, bytes);
            if !std::mem::replace(&mut waiting.listed, true) {
                self.unsaved.push(key);
            }
            return;
        }
        let prior = table_update::old(&record.value).clone();
        let mut waiting = Waiting::new(time, record, prior);
        (waiting.bytes, waiting.listed) = (bytes, true);
        self.line.insert(time, key.clone());
        self.unsaved.push(key.clone());
        self.waiting.insert(key, waiting);
    }

    /// Adds an update read from the store at the start.
    pub fn restore(&mut self, key: Bytes, time: i64, mut waiting: Waiting, bytes: usize) {
        self.bytes += bytes;
        (waiting.bytes, waiting.saved) = (bytes, true);
        self.line.insert(time, key.clone());
        self.waiting.insert(key, waiting);
    }

    /// Removes and returns the first entry.
    pub fn pop(&mut self) -> Option<(Bytes, Waiting)> {
        self.pop_due(i64::MAX)
    }

    /// Removes and returns the first entry, if it is due.
    pub fn pop_due(&mut self, until: i64) -> Option<(Bytes, Waiting)> {
        let (_, key) = self.line.pop_due(until)?;
        let waiting = self.waiting.remove(&key)?;
        self.bytes -= waiting.bytes;
        if self.waiting.is_empty() {
            // Removed entries need not be saved; otherwise only the barrier empties this list.
            self.unsaved.clear();
        }
        Some((key, waiting))
    }

    /// Keys whose newest update the store doesn't have; they count as saved from now on.
    pub fn unsaved(&mut self) -> Vec<Bytes> {
        let keys = std::mem::take(&mut self.unsaved);
        let Self { waiting, .. } = self;
        // A key that was removed and added again is listed twice.
        keys.into_iter()
            .filter(|key| {
                waiting
                    .get_mut(key)
                    .is_some_and(|w| std::mem::replace(&mut w.listed, false))
            })
            .collect()
    }

    /// Number of keys listed to be saved.
    #[cfg(test)]
    fn listed(&self) -> usize {
        self.unsaved.len()
    }
}
