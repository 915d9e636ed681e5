//! A store's overlay, with as many keys as a busy epoch writes.

use bytes::Bytes;
use std::hint::black_box;
use std::sync::Arc;
use stoatflow_core::{Datum, Epoch, Serde, StoreId, Timestamp};
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::{Dirty, KeyRange, KeyValueStore, Stored};

/// Number of keys.
pub const KEYS: usize = 10_000;
/// Rows of a scan.
const ROWS: usize = 100;

/// See the module.
pub struct Overlay {
    store: KeyValueStore,
    dirty: Dirty,
    keys: Vec<Bytes>,
}

fn keys() -> Vec<Bytes> {
    let key = |i| Bytes::from(format!("user-{i:08}"));
    (0..KEYS).map(key).collect()
}

impl Overlay {
    pub fn empty() -> Self {
        let backend = Arc::new(MemoryBackend::new(true));
        let serde = Serde::Int64;
        Self {
            store: KeyValueStore::new(StoreId(0), "counts".into(), serde, backend, 64 << 20),
            dirty: Dirty::default(),
            keys: keys(),
        }
    }

    pub fn filled() -> Self {
        let mut overlay = Self::empty();
        overlay.put();
        overlay
    }

    /// Writes every key.
    pub fn put(&mut self) {
        for key in &self.keys {
            let value = Stored {
                value: Datum::Int(1),
                timestamp: Timestamp(1),
            };
            let put = self.store.put(Epoch(1), &mut self.dirty, key, Some(value));
            put.expect("an open epoch");
        }
    }

    /// Adds one to every key.
    pub fn update(&mut self) {
        for key in &self.keys {
            let updated = self.store.update(Epoch(1), &mut self.dirty, key, |old| {
                let count = match old.map(|stored| &stored.value) {
                    Some(Datum::Int(count)) => *count,
                    _ => 0,
                };
                let value = Datum::Int(count + 1);
                let timestamp = Timestamp(1);
                Ok((Some(Stored { value, timestamp }), ()))
            });
            updated.expect("an open epoch");
        }
    }

    /// Reads every key.
    pub fn get(&self) {
        for key in &self.keys {
            black_box(self.store.get(Epoch(1), key).expect("a store that works"));
        }
    }

    /// Reads the first rows in the order of their keys.
    pub fn scan(&self) {
        let rows = self.store.scan(Epoch(1), &KeyRange::default(), ROWS);
        assert_eq!(rows.expect("a store that works").len(), ROWS);
    }
}
