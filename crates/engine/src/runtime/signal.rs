//! How threads of a run wait for each other: a signal, a flag that is set once, and how the run is to
//! end.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Wakes threads, which then check their condition again. A notification may be missed by a thread
/// that is about to wait, so waits are short.
#[derive(Debug, Default)]
pub(super) struct Signal {
    lock: Mutex<()>,
    wake: Condvar,
}

impl Signal {
    /// Wakes all waiting threads.
    pub fn notify(&self) {
        self.wake.notify_all();
    }

    /// Waits for [`Self::notify`], at most this long.
    pub fn wait(&self, at_most: Duration) {
        self.wait_unless(|| false, at_most);
    }

    /// Likewise, unless `done` is already true.
    pub fn wait_unless(&self, done: impl FnOnce() -> bool, at_most: Duration) {
        let mut guard = self.lock.lock();
        if !done() {
            self.wake.wait_for(&mut guard, at_most);
        }
    }
}

/// A flag that is set once.
#[derive(Debug, Default)]
pub(super) struct Latch {
    set: AtomicBool,
    signal: Signal,
}

impl Latch {
    /// Sets the flag; [`Self::wake`] wakes waiting threads.
    pub fn set(&self) {
        self.set.store(true, Ordering::Release);
    }

    /// True if it is set.
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Wakes all waiting threads.
    pub fn wake(&self) {
        self.signal.notify();
    }

    /// Waits until it is set, at most this long, unless `give_up` is true.
    pub fn wait_unless(&self, give_up: impl FnOnce() -> bool, at_most: Duration) {
        self.signal
            .wait_unless(|| self.is_set() || give_up(), at_most);
    }
}

/// How the run is to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// When a clean stop must be done (monotonic).
    pub stop_by: Option<Duration>,
    /// When the run was aborted.
    pub aborted: Option<Duration>,
    /// True if it has ended.
    pub over: bool,
}

impl Ending {
    /// True if the run was aborted because a stop took too long.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.stop_by.is_some() && self.aborted >= self.stop_by
    }
}

/// An [`Ending`] that can be waited for.
#[derive(Debug, Default)]
pub(super) struct EndingState {
    ending: Mutex<Ending>,
    changed: Condvar,
}

impl EndingState {
    /// The current one.
    pub fn get(&self) -> Ending {
        *self.ending.lock()
    }

    /// Changes it, and wakes waiting threads.
    pub fn update(&self, change: impl FnOnce(&mut Ending)) {
        change(&mut self.ending.lock());
        self.changed.notify_all();
    }

    /// Waits until it differs from `known`, at most this long.
    pub fn wait_for_change(&self, known: Ending, at_most: Duration) -> Ending {
        let mut ending = self.ending.lock();
        if *ending == known {
            self.changed.wait_for(&mut ending, at_most);
        }
        *ending
    }
}
