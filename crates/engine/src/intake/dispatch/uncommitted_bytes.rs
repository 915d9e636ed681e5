//! How many bytes of uncommitted epochs stores hold.
//!
//! Measured only at intervals, because each measurement visits every shard of every store.

use crate::admin::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_state::KeyValueStore;

#[derive(Debug)]
pub(super) struct UncommittedBytes {
    stores: Vec<Arc<KeyValueStore>>,
    /// Bytes at the start of the open epoch.
    before: u64,
    /// Bytes at the last measurement.
    bytes: u64,
    /// Admitted bytes at which it is measured again, and the distance between two measurements.
    next_measure: u64,
    every: u64,
}

impl UncommittedBytes {
    pub fn new(stores: Vec<Arc<KeyValueStore>>, every: u64) -> Self {
        Self {
            stores,
            before: 0,
            bytes: 0,
            next_measure: every,
            every,
        }
    }

    fn measure(&mut self, status: &Status) {
        let staged = self.stores.iter().map(|store| store.staged_bytes() as u64);
        self.bytes = staged.sum();
        status.staged_bytes.store(self.bytes, Relaxed);
    }

    /// Call when an epoch begins. Writes that are still in flight from the previous one count towards
    /// the new one; admission bounds them.
    pub fn begin(&mut self, status: &Status) {
        self.measure(status);
        self.before = self.bytes;
        self.next_measure = self.every;
    }

    /// How many bytes the open epoch has written; `admitted` is its input so far.
    pub fn written(&mut self, admitted: u64, status: &Status) -> u64 {
        if admitted >= self.next_measure {
            self.next_measure = admitted + self.every;
            self.measure(status);
        }
        self.bytes.saturating_sub(self.before)
    }
}
