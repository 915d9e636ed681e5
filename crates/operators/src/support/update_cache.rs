//! The record cache of one lane: holds updates of a table until the barrier.
//!
//! Takes every update of a cached table; at the barrier emits one per key with the newest value, in
//! the order of these newest updates (as Kafka Streams' cache: the record that closes a window below
//! must not come before those that belong to it). If children need the old value, it is the one before
//! the first of the updates. Owns references to those values for one epoch. Never reads a store: it
//! emits what the operator wrote last.

use crate::key_hash;
use crate::ops::tables::table_update;
use bytes::Bytes;
use hashbrown::HashTable;
use parking_lot::Mutex;
use std::sync::Arc;
use stoatflow_core::{Datum, InlineBytes, Record};

#[cfg(test)]
mod tests;

#[derive(Debug)]
struct Entry {
    hash: u64,
    /// The number of the update that touched it last.
    touched: u64,
    key: Key,
    existed: bool,
    record: Record,
}

impl Entry {
    /// True if the key had no value before the epoch and has none now.
    fn was_never(&self) -> bool {
        !self.existed && table_update::new(&self.record.value).is_null()
    }
}

/// The key's bytes; short ones are stored inline.
#[derive(Debug, PartialEq, Eq)]
enum Key {
    Inline(InlineBytes),
    Long(Bytes),
}

/// Shared by all operators of a lane that write one store, as those of a cogroup do: an update that one
/// of them holds must not be forwarded beside a newer one of another.
pub(crate) type SharedUpdateCache = Arc<Mutex<UpdateCache>>;

/// One update per key.
#[derive(Debug, Default)]
pub(crate) struct UpdateCache {
    index: HashTable<usize>,
    entries: Vec<Entry>,
    updates: u64,
}

impl UpdateCache {
    /// Holds `record` in place of an earlier update of the same key. `existed`: whether the store had a
    /// value before this update. A key created and deleted within the epoch isn't kept: no node below
    /// sees it (as in Kafka Streams), and a session that grows leaves one such key per record behind.
    pub fn hold(&mut self, key: &Bytes, existed: bool, mut record: Record) {
        let hash = key_hash(key);
        self.updates += 1;
        let key = InlineBytes::of(0, key).map_or_else(|| Key::Long(key.clone()), Key::Inline);
        let same = |&at: &usize| self.entries[at].hash == hash && self.entries[at].key == key;
        if let Some(&at) = self.index.find(hash, same) {
            self.entries[at].touched = self.updates;
            let held = &mut self.entries[at].record;
            if let (Datum::Change(first), Datum::Change(last)) =
                (&mut held.value, &mut record.value)
            {
                std::mem::swap(&mut first.old, &mut last.old);
            }
            // Drops the new record's key, which is at hand; dropping the held one would touch other
            // memory.
            std::mem::swap(&mut held.key, &mut record.key);
            *held = record;
            if self.entries[at].was_never() {
                self.forget(at);
            }
            return;
        }
        let Self {
            index,
            entries,
            updates,
        } = self;
        let entry = Entry {
            hash,
            touched: *updates,
            key,
            existed,
            record,
        };
        if entry.was_never() {
            return;
        }
        index.insert_unique(hash, entries.len(), |&at| entries[at].hash);
        entries.push(entry);
    }

    /// Removes an entry; the last entry takes its place.
    fn forget(&mut self, at: usize) {
        let entry = self.entries.swap_remove(at);
        if let Ok(found) = self.index.find_entry(entry.hash, |&i| i == at) {
            found.remove();
        }
        let from = self.entries.len();
        if let Some(moved) = self.entries.get(at)
            && let Some(place) = self.index.find_mut(moved.hash, |&i| i == from)
        {
            *place = at;
        }
    }

    /// Moves everything held to `out`.
    pub fn release(&mut self, out: &mut Vec<Record>) {
        self.index.clear();
        self.updates = 0;
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by_key(|entry| entry.touched);
        let records = entries.into_iter().map(|entry| entry.record);
        if out.is_empty() {
            // In the memory of the entries: a large epoch is not held twice.
            *out = records.collect();
        } else {
            out.extend(records);
        }
    }
}
