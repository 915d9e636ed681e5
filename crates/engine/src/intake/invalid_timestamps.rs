//! Records without a valid timestamp, on their way from intake to their lane.
//!
//! The extractor failed, its value couldn't be decoded, or the result is out of range. The lane calls
//! the source's error handler, because a dead letter belongs to an epoch and only dispatch starts
//! epochs. Until then the record has its partition's highest time, so that it doesn't advance time. A
//! lookup is cheap while there are no such records.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use stoatflow_core::{Error, Offset, Timestamp};
use stoatflow_log::ConsumerRecord;

/// Why a record has no valid timestamp.
#[derive(Debug)]
pub struct InvalidTimestamp {
    error: Error,
    /// True if its time is too far ahead of the clock.
    pub ahead: bool,
    /// The original timestamp of the record.
    pub timestamp: Timestamp,
    /// The highest time of its partition before it; -1: none.
    pub partition_time: i64,
}

impl InvalidTimestamp {
    /// `error` with the record's coordinates.
    #[must_use]
    pub const fn new(error: Error, ahead: bool, timestamp: Timestamp, partition_time: i64) -> Self {
        Self {
            error,
            ahead,
            timestamp,
            partition_time,
        }
    }

    /// Returns the error, once for each source of the topic. Only the first one carries the cause.
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
    /// Call before the record is admitted.
    pub fn put(&self, record: &ConsumerRecord, refusal: InvalidTimestamp) {
        let mut all = self.all.lock();
        all.insert((record.slot, record.offset), refusal);
        self.count.store(all.len(), Ordering::Release);
    }

    /// Removes and returns the entries of a batch: index in it and reason, in order.
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
