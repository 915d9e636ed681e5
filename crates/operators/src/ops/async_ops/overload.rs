//! Tells dispatch that more calls are in flight than may be, and lanes that a barrier waits for them.
//!
//! Takes from lanes whose calls they make, gives whether more of them are under way than may be: then
//! nothing more is to be read. Takes from dispatch that a barrier waits for lanes, gives it to lanes that
//! wait for room: they must stop waiting. Never waits.

use super::in_flight::CallsInFlight;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Overload {
    /// What lanes call, and how many calls may be under way.
    called: Mutex<Vec<(Arc<CallsInFlight>, usize)>>,
    /// Does anybody call anything?
    any: AtomicBool,
    hurried: AtomicBool,
}

impl Overload {
    /// A lane calls this function.
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

    /// Are more calls of a function under way than may be?
    pub fn is_over(&self) -> bool {
        self.any.load(Relaxed) && {
            let called = self.called.lock();
            called
                .iter()
                .any(|(in_flight, bound)| in_flight.count() > *bound)
        }
    }

    /// Is a barrier late?
    pub fn hurry(&self, late: bool) {
        self.hurried.store(late, Relaxed);
    }

    /// Was it said so?
    pub fn is_hurried(&self) -> bool {
        self.hurried.load(Relaxed)
    }
}
