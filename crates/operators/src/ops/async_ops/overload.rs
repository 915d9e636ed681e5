//! Tells dispatch that more calls are in flight than allowed, and lanes that a barrier waits for them.
//!
//! Lanes register the functions that they call; dispatch asks whether one has more calls in flight than
//! allowed, and reads nothing more then. Dispatch reports that a barrier waits for lanes; lanes that
//! wait for room ask for it, and stop waiting. Never waits.

use super::in_flight::CallsInFlight;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Overload {
    /// Functions that lanes call, with the maximum number of calls in flight.
    called: Mutex<Vec<(Arc<CallsInFlight>, usize)>>,
    /// True if there is such a function.
    any: AtomicBool,
    barrier_late: AtomicBool,
}

impl Overload {
    /// Registers a function that a lane calls.
    pub fn join(&self, in_flight: &Arc<CallsInFlight>, bound: usize) {
        let mut called = self.called.lock();
        if called
            .iter()
            .all(|(known, _)| !Arc::ptr_eq(known, in_flight))
        {
            called.push((Arc::clone(in_flight), bound));
        }
        self.any.store(true, Relaxed);
    }

    /// Whether a function has more calls in flight than allowed.
    pub fn is_over(&self) -> bool {
        self.any.load(Relaxed) && {
            let called = self.called.lock();
            called
                .iter()
                .any(|(in_flight, bound)| in_flight.count() > *bound)
        }
    }

    /// Sets whether a barrier is late.
    pub fn set_barrier_late(&self, late: bool) {
        self.barrier_late.store(late, Relaxed);
    }

    /// Whether a barrier is late.
    pub fn is_barrier_late(&self) -> bool {
        self.barrier_late.load(Relaxed)
    }
}
