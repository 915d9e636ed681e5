//! Records without a valid timestamp: the extractor failed, the value could not be decoded for it, or the result is
//! out of range.
//!
//! Takes from intake why a record has no time; gives it to the lane that the record comes to, which asks the
//! handler of its source: a dead letter belongs to an epoch, and dispatch makes those. Until then the record stands at
//! its partition's highest time, so that it moves none. Looking costs nothing while there is none. Never decides.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use stoatflow_core::{Error, Offset, Timestamp};
use stoatflow_log::ConsumerRecord;

/// Why a record has no time.
#[derive(Debug)]
pub struct InvalidTimestamp {
    error: Error,
    /// Has it one that is too far ahead of the clock?
    pub ahead: bool,
    /// The time that it came with.
    pub timestamp: Timestamp,
    /// The highest of its partition before it; -1: none.
    pub partition_time: i64,
}

impl InvalidTimestamp {
    /// With the coordinates of the record.
    #[must_use]
    pub const fn new(error: Error, ahead: bool, timestamp: Timestamp, partition_time: i64) -> Self {
        Self {
            error,
            ahead,
            timestamp,
            partition_time,
        }
    }

    /// The error: each source that reads the topic gets one. The first has its cause.
    pub fn error(&mut self) -> Error {
        let error = &self.error;
        let another = Error::new(error.kind(), error.message())
            .hint(error.next_step())
            .at(|at| at.clone_from(error.coordinates()));
        std::mem::replace(&mut self.error, another)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct InvalidTimestamps {
    count: AtomicUsize,
    all: Mutex<BTreeMap<(u32, Offset), InvalidTimestamp>>,
}

impl InvalidTimestamps {
    /// Before the record is admitted.
    pub fn put(&self, record: &ConsumerRecord, refusal: InvalidTimestamp) {
        let mut all = self.all.lock();
        all.insert((record.slot, record.offset), refusal);
        self.count.store(all.len(), Ordering::Release);
    }

    /// Those of a batch, by their places in it and in their order. They are the lane's now.
    pub fn take(&self, batch: &[ConsumerRecord]) -> Vec<(usize, InvalidTimestamp)> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut all = self.all.lock();
        let places = batch.iter().enumerate();
        let found = places
            .filter_map(|(at, record)| Some((at, all.remove(&(record.slot, record.offset))?)));
        let found = found.collect();
        self.count.store(all.len(), Ordering::Release);
        found
    }
}
