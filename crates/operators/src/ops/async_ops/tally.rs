//! Counts the calls of an async function, for metrics.
//!
//! Takes events of all lanes and of wherever calls run, gives numbers. Relaxed: nothing decides by them or
//! waits for them. A row that is parked counts for as long as it is held, however its lane ends.

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
    /// A call begins that its lane waits for, one at a time: it takes no room among the others.
    pub fn begin_awaited(&self) {
        self.awaited.fetch_add(1, Relaxed);
    }

    /// Such a call has ended.
    pub fn end_awaited(&self) {
        self.awaited.fetch_sub(1, Relaxed);
    }

    /// A call has failed: there is no other attempt, unless a handler says so.
    pub fn failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    /// An attempt did not end in its time.
    pub fn timed_out(&self) {
        self.timed_out.fetch_add(1, Relaxed);
    }

    /// An attempt failed, and there is another one.
    pub fn retried(&self) {
        self.retried.fetch_add(1, Relaxed);
    }

    /// The numbers now; with so many under way that lanes don't wait for one at a time.
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

/// What a [`Tally`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallCounts {
    /// Calls that run or stand in line, of all lanes.
    pub under_way: usize,
    /// Records that are written down because their calls have outlived an epoch.
    pub parked: usize,
    /// Calls that failed, after all attempts.
    pub failed: u64,
    /// Attempts that did not end in their time.
    pub timed_out: u64,
    /// Attempts that failed and were followed by another one.
    pub retried: u64,
}

impl CallCounts {
    /// Those of two functions.
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
    /// Where it is. Another lane may have written it, whose numbers were others.
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
