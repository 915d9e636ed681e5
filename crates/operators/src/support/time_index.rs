//! Keys of one lane that wait for a time, in the order in which they are due.
//!
//! Takes keys with the times they are due at; returns the due ones, by time, then by key. Owns no data
//! of its own: what waits is in a store, which survives restarts; the index is filled from the store in
//! [`crate::Operator::open`] and follows every write of its lane. Without it each search for due keys
//! would scan the store. Never reads a store or a clock.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use std::collections::BTreeSet;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TimeIndex {
    entries: BTreeSet<(i64, Bytes)>,
}

impl TimeIndex {
    /// Adds a key; `false` if it waits for this time already.
    pub fn insert(&mut self, time: i64, key: Bytes) -> bool {
        self.entries.insert((time, key))
    }

    /// Removes a key; `false` if it didn't wait for this time.
    pub fn remove(&mut self, time: i64, key: &Bytes) -> bool {
        self.entries.remove(&(time, key.clone()))
    }

    /// The entry that is due first.
    pub fn oldest(&self) -> Option<(i64, &Bytes)> {
        self.entries.first().map(|(time, key)| (*time, key))
    }

    /// Whether something is due at `until` or before.
    pub fn is_due(&self, until: i64) -> bool {
        self.oldest().is_some_and(|(time, _)| time <= until)
    }

    /// Removes the entry that is due first, if it is due at `until` or before.
    pub fn pop_due(&mut self, until: i64) -> Option<(i64, Bytes)> {
        if self.is_due(until) {
            self.entries.pop_first()
        } else {
            None
        }
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = (i64, &Bytes)> {
        self.entries.iter().map(|(time, key)| (*time, key))
    }

    /// The entry that is due last.
    pub fn newest(&self) -> Option<(i64, &Bytes)> {
        self.entries.last().map(|(time, key)| (*time, key))
    }

    /// The keys that wait for `time`, beginning with `from`.
    pub fn at(&self, time: i64, from: Bytes) -> impl Iterator<Item = &Bytes> {
        let line = self.entries.range((time, from)..);
        line.take_while(move |(at, _)| *at == time)
            .map(|(_, key)| key)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
