//! Where an event loop counts what the engine doesn't see: attempts, and calls that a lane waits for.
//!
//! Takes events from the loop's thread and from lanes, adds to the counters of the function. Never blocks.

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
    /// A call begins that a lane waits for.
    fn began(&self) {
        self.0.begin_awaited();
    }

    /// It has ended.
    fn ended(&self, failed: bool) {
        self.0.end_awaited();
        if failed {
            self.0.failed();
        }
    }

    /// An attempt did not end in its time.
    fn timed_out(&self) {
        self.0.timed_out();
    }

    /// There is another attempt.
    fn retried(&self) {
        self.0.retried();
    }
}
