//! Counts the calls of an async function, for metrics.
//!
//! Takes events of all lanes and of the threads that run calls, returns numbers. Relaxed atomics:
//! nothing decides by them or waits for them. A parked row counts for as long as it is held, however its
//! lane ends.

use bytes::Bytes;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// See the module.
#[derive(Debug, Default)]
pub struct Tally {
    awaited: AtomicUsize,
    parked: AtomicUsize,
    failed: AtomicU64,
    timed_out: AtomicU64,
    retried: AtomicU64,
}

impl Tally {
    /// A call begins that its lane waits for, one at a time: it takes no room from others.
    pub fn begin_awaited(&self) {
        self.awaited.fetch_add(1, Relaxed);
    }

    /// Such a call has ended.
    pub fn end_awaited(&self) {
        self.awaited.fetch_sub(1, Relaxed);
    }

    /// A call has failed: there is no other attempt, unless a handler asks for one.
    pub fn failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    /// An attempt has timed out.
    pub fn timed_out(&self) {
        self.timed_out.fetch_add(1, Relaxed);
    }

    /// An attempt has failed and is retried.
    pub fn retried(&self) {
        self.retried.fetch_add(1, Relaxed);
    }

    /// The current numbers. `under_way`: calls in flight, without those that lanes await one at a time.
    pub(super) fn counts(&self, under_way: usize) -> CallCounts {
        CallCounts {
            under_way: under_way + self.awaited.load(Relaxed),
            parked: self.parked.load(Relaxed),
            failed: self.failed.load(Relaxed),
            timed_out: self.timed_out.load(Relaxed),
            retried: self.retried.load(Relaxed),
        }
    }
}

/// Numbers of a [`Tally`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallCounts {
    /// Calls that run or are queued, of all lanes.
    pub under_way: usize,
    /// Records that are parked because their calls have outlived an epoch.
    pub parked: usize,
    /// Calls that failed, after all attempts.
    pub failed: u64,
    /// Attempts that timed out.
    pub timed_out: u64,
    /// Attempts that failed and were retried.
    pub retried: u64,
}

impl CallCounts {
    /// The sum for two functions.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            under_way: self.under_way + other.under_way,
            parked: self.parked + other.parked,
            failed: self.failed + other.failed,
            timed_out: self.timed_out + other.timed_out,
            retried: self.retried + other.retried,
        }
    }
}

/// A row of the store of parked records.
#[derive(Debug)]
pub(super) struct Row {
    /// Its key. It may have been written by another lane, with a ticket of that lane.
    pub key: Bytes,
    tally: Arc<Tally>,
}

impl Row {
    pub fn new(key: Bytes, tally: &Arc<Tally>) -> Self {
        tally.parked.fetch_add(1, Relaxed);
        Self {
            key,
            tally: Arc::clone(tally),
        }
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        self.tally.parked.fetch_sub(1, Relaxed);
    }
}
