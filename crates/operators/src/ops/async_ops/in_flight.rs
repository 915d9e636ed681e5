//! The number of calls of an async function in flight, over all lanes.
//!
//! Lanes take room before they make calls, and release it with each answer. Waits only in `wait_below`.

use super::oldest_call::{OldestCall, RunningCalls};
use super::tally::{CallCounts, Tally};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Number of calls of all lanes, running or queued.
#[derive(Debug, Default)]
pub struct CallsInFlight {
    /// Counters for metrics.
    pub tally: Arc<Tally>,
    count: AtomicUsize,
    waiting: AtomicUsize,
    lock: Mutex<()>,
    freed: Condvar,
    /// Queues of all lanes.
    queues: Mutex<Vec<Weak<dyn RunningCalls>>>,
}

impl CallsInFlight {
    /// Calls that are not answered yet.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The counters of the calls.
    #[must_use]
    pub fn counts(&self) -> CallCounts {
        self.tally.counts(self.count())
    }

    pub(super) fn join(&self, queue: &Arc<dyn RunningCalls>) {
        let mut queues = self.queues.lock();
        queues.retain(|known| known.strong_count() > 0);
        queues.push(Arc::downgrade(queue));
    }

    /// The call that has run the longest, of all lanes.
    #[must_use]
    pub fn oldest(&self) -> Option<OldestCall> {
        // Without the lock: dropping a queue here may drop Python values.
        let queues: Vec<_> = (self.queues.lock().iter())
            .filter_map(Weak::upgrade)
            .collect();
        let calls = queues.iter().filter_map(|queue| queue.oldest());
        calls.max_by_key(|call| call.age)
    }

    /// Takes room for up to `wanted` calls below `bound`; returns for how many.
    pub(crate) fn take(&self, wanted: usize, bound: usize) -> usize {
        let mut taken = 0;
        let _ = self
            .count
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
                taken = bound.saturating_sub(count).min(wanted);
                (taken > 0).then_some(count + taken)
            });
        taken
    }

    /// Takes room even above the bound.
    pub(super) fn force(&self, calls: usize) {
        self.count.fetch_add(calls, Ordering::AcqRel);
    }

    pub(super) fn give(&self, calls: usize) {
        self.count.fetch_sub(calls, Ordering::AcqRel);
        if self.waiting.load(Ordering::Acquire) > 0 {
            // A waiter that read the count before it fell holds the lock until it waits.
            drop(self.lock.lock());
            self.freed.notify_all();
        }
    }

    /// Waits until there are fewer than `bound`, at most this long.
    pub fn wait_below(&self, bound: usize, most: Duration) {
        let mut guard = self.lock.lock();
        self.waiting.fetch_add(1, Ordering::AcqRel);
        if self.count() >= bound {
            self.freed.wait_for(&mut guard, most);
        }
        self.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
