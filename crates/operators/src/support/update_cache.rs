//! The record cache of one lane: holds updates of a table until the barrier.
//!
//! Takes every update of a cached table, gives at the barrier one per key with the newest value, in the
//! order of these newest updates (as Kafka Streams' cache: what closes a window below must not come before
//! what went into it). Where children need what was before, that is what was before the first of them. Owns
//! references to those values for one epoch. Never reads a store: what it gives is what the operator wrote
//! last.

use crate::key_hash;
use crate::ops::tables::table_update;
use bytes::Bytes;
use hashbrown::HashTable;
use parking_lot::Mutex;
use std::sync::Arc;
use stoatflow_core::{Datum, Record, Short};

#[cfg(test)]
mod tests;

#[derive(Debug)]
struct Entry {
    hash: u64,
    /// Counts updates: when it was last touched.
    touched: u64,
    key: Key,
    existed: bool,
    record: Record,
}

impl Entry {
    /// Neither before the epoch nor now.
    fn was_never(&self) -> bool {
        !self.existed && table_update::new(&self.record.value).is_null()
    }
}

/// The key's bytes: where they are few, here.
#[derive(Debug, PartialEq, Eq)]
enum Key {
    Short(Short),
    Long(Bytes),
}

/// Of all operators of a lane that write one store, as those of a cogroup do: what one holds and another
/// has overtaken must not come out beside it.
pub(crate) type SharedUpdateCache = Arc<Mutex<UpdateCache>>;

/// One update per key.
#[derive(Debug, Default)]
pub(crate) struct UpdateCache {
    index: HashTable<usize>,
    entries: Vec<Entry>,
    updates: u64,
}

impl UpdateCache {
    /// Holds `record` instead of an earlier update of the same key. `existed`: had the store a value before
    /// this update? What is created and deleted within the epoch isn't kept: no node below sees it (as
    /// Kafka Streams), and a session that grows leaves one such key per record behind.
    pub fn hold(&mut self, key: &Bytes, existed: bool, mut record: Record) {
        let hash = key_hash(key);
        self.updates += 1;
        let key = Short::of(0, key).map_or_else(|| Key::Long(key.clone()), Key::Short);
        let same = |&at: &usize| self.entries[at].hash == hash && self.entries[at].key == key;
        if let Some(&at) = self.index.find(hash, same) {
            self.entries[at].touched = self.updates;
            let held = &mut self.entries[at].record;
            if let (Datum::Change(first), Datum::Change(last)) =
                (&mut held.value, &mut record.value)
            {
                std::mem::swap(&mut first.old, &mut last.old);
            }
            // The new one's key is at hand; to let go of the one before is a look at another place in memory.
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

    /// The last entry takes its place.
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

    /// Gives everything held.
    pub fn release(&mut self, out: &mut Vec<Record>) {
        self.index.clear();
        self.updates = 0;
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by_key(|entry| entry.touched);
        let records = entries.into_iter().map(|entry| entry.record);
        if out.is_empty() {
            // In the room of the entries: a large epoch is not held twice.
            *out = records.collect();
        } else {
            out.extend(records);
        }
    }
}
