//! Counters that the event loop keeps up to date: attempts, and calls that a lane waits for.
//!
//! Called by the loop's thread and by lanes; adds to the counters of the function. Never blocks.

use pyo3::prelude::*;
use std::sync::Arc;
use stoatflow_operators::Tally;

/// The counters of an async function.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct CallTally(Arc<Tally>);

impl CallTally {
    pub const fn new(tally: Arc<Tally>) -> Self {
        Self(tally)
    }
}

#[pymethods]
impl CallTally {
    /// A call that a lane waits for begins.
    fn began(&self) {
        self.0.begin_awaited();
    }

    /// That call has ended.
    fn ended(&self, failed: bool) {
        self.0.end_awaited();
        if failed {
            self.0.failed();
        }
    }

    /// An attempt exceeded its timeout.
    fn timed_out(&self) {
        self.0.timed_out();
    }

    /// Another attempt begins.
    fn retried(&self) {
        self.0.retried();
    }
}
