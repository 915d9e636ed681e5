//! Implements the engine's interface for async functions.
//!
//! Submits batches of calls from lanes to the event loop's thread, with one attach per batch, and
//! receives results there. The loop itself, its limits and retries are in Python
//! (`stoatflow._runtime.event_loop`). Results are converted to datums on the event loop's thread, so
//! lanes never need the interpreter for them.

mod call;
mod tally;

use crate::profile::Profile;
use call::AsyncCall;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::Error;
use stoatflow_operators::{AsyncUdf, Call, CallQueue, CallsInFlight, Cost};
use tally::CallTally;

/// The Python class that runs a function on an event loop. Recognized by class, because a mock has every
/// attribute.
static CALLER: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// An async function of the user, with the `Caller` of its event loop.
#[derive(Debug)]
pub struct PyAsyncUdf {
    name: Arc<str>,
    caller: Py<PyAny>,
    in_flight: Arc<CallsInFlight>,
    profile: Arc<Profile>,
}

/// All async functions among `functions`, by function number.
///
/// # Errors
/// Exceptions from Python while it registers the counters.
pub fn calls(
    py: Python<'_>,
    functions: &[Py<PyAny>],
    names: &[String],
) -> PyResult<BTreeMap<u32, Arc<dyn AsyncUdf>>> {
    let mut calls: BTreeMap<u32, Arc<dyn AsyncUdf>> = BTreeMap::new();
    // Without async functions, neither the event loop nor asyncio is imported.
    let loaded = py.import("sys")?.getattr("modules")?;
    if !loaded.contains("stoatflow._runtime.event_loop")? {
        return Ok(calls);
    }
    let caller = CALLER.import(py, "stoatflow._runtime.event_loop", "Caller")?;
    for (number, (function, name)) in (0..).zip(functions.iter().zip(names)) {
        // An object that only claims the class (a mock with a `__class__`) doesn't count.
        if !function.bind(py).get_type().is_subclass(caller)? {
            continue;
        }
        let in_flight: Arc<CallsInFlight> = Arc::default();
        let tally = CallTally::new(Arc::clone(&in_flight.tally));
        function.call_method1(py, intern!(py, "count_in"), (tally,))?;
        let made = PyAsyncUdf {
            name: name.as_str().into(),
            caller: function.clone_ref(py),
            in_flight,
            profile: Arc::default(),
        };
        calls.insert(number, Arc::new(made));
    }
    Ok(calls)
}

/// Identifies a queue in Python.
fn queue_id(queue: &CallQueue) -> usize {
    std::ptr::from_ref(queue) as usize
}

impl PyAsyncUdf {
    fn submit(&self, calls: Vec<Call>, queue: &Arc<CallQueue>, pause: Duration) {
        let tickets: Vec<u64> = calls.iter().map(|call| call.ticket).collect();
        let begun = Python::attach(|py| {
            let calls = calls.into_iter();
            let (name, profile) = (&self.name, &self.profile);
            let calls: Vec<AsyncCall> = calls
                .map(|call| AsyncCall::new(call, queue, name, profile))
                .collect();
            self.caller
                .call_method1(py, intern!(py, "submit"), (calls, pause.as_secs_f64()))
                .map(drop)
        });
        if let Err(error) = begun {
            for ticket in tickets {
                // Not the record's fault: the next record would fail too, so error handlers are not
                // called.
                let error = Error::user(format!("an async call could not begin: {error}"))
                    .hint("look in the log for what has ended the event loop; functions are called by a running application or test driver only")
                    .bypass_handlers();
                // After a failed call, no further call of its key begins, so none is returned.
                let _none = queue.answer(ticket, Err(error), Duration::ZERO);
            }
        }
    }
}

impl AsyncUdf for PyAsyncUdf {
    fn name(&self) -> &str {
        &self.name
    }

    fn in_flight(&self) -> &Arc<CallsInFlight> {
        &self.in_flight
    }

    fn cost(&self) -> Option<Cost> {
        Some(self.profile.cost())
    }

    fn begin(&self, calls: Vec<Call>, queue: &Arc<CallQueue>) {
        self.submit(calls, queue, Duration::ZERO);
    }

    fn begin_later(&self, pause: Duration, calls: Vec<Call>, queue: &Arc<CallQueue>) {
        self.submit(calls, queue, pause);
    }

    fn cancel(&self, queue: &CallQueue) {
        Python::attach(|py| {
            // A loop that has ended has no calls to cancel.
            let _ended = self
                .caller
                .call_method1(py, intern!(py, "cancel"), (queue_id(queue),));
        });
    }
}
