//! What stores hold of epochs that are not committed.
//!
//! Takes the stores; gives how much they hold more than when the open epoch began. Looks at them now and then: each
//! look asks every part of every store.

use crate::admin::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_state::KeyValueStore;

#[derive(Debug)]
pub(super) struct UncommittedBytes {
    stores: Vec<Arc<KeyValueStore>>,
    /// When the epoch began.
    before: u64,
    /// At the last look.
    bytes: u64,
    /// What is admitted of the epoch when they are looked at again, and how much between two looks.
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

    /// A new epoch. What is on its way of the one before counts as the new one's: it is bounded by the admission.
    pub fn begin(&mut self, status: &Status) {
        self.measure(status);
        self.before = self.bytes;
        self.next_measure = self.every;
    }

    /// How much the epoch has written, of which so much is admitted.
    pub fn written(&mut self, admitted: u64, status: &Status) -> u64 {
        if admitted >= self.next_measure {
            self.next_measure = admitted + self.every;
            self.measure(status);
        }
        self.bytes.saturating_sub(self.before)
    }
}
