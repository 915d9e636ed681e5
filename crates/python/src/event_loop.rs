//! Async functions behind the engine's port for them.
//!
//! Takes calls from lanes, hands a batch of them to the event loop's thread with one attach, and
//! takes results there: the loop itself, its limits and retries are Python's
//! (`stoatflow._runtime.event_loop`). A result is turned into datums where it arises, so that a
//! lane never needs the interpreter for it.

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

/// What calls a function on an event loop. By its class: a mock has every attribute that is asked for.
static CALLER: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// An async function of the user, with the `Caller` of its event loop.
#[derive(Debug)]
pub struct PyCalls {
    name: Arc<str>,
    caller: Py<PyAny>,
    load: Arc<CallsInFlight>,
    profile: Arc<Profile>,
}

/// All async functions among these, by their numbers.
///
/// # Errors
/// What Python raises when it is told where to count.
pub fn calls(
    py: Python<'_>,
    functions: &[Py<PyAny>],
    names: &[String],
) -> PyResult<BTreeMap<u32, Arc<dyn AsyncUdf>>> {
    let mut calls: BTreeMap<u32, Arc<dyn AsyncUdf>> = BTreeMap::new();
    // Without an event loop, neither it nor asyncio is loaded.
    let loaded = py.import("sys")?.getattr("modules")?;
    if !loaded.contains("stoatflow._runtime.event_loop")? {
        return Ok(calls);
    }
    let caller = CALLER.import(py, "stoatflow._runtime.event_loop", "Caller")?;
    for (number, (function, name)) in (0..).zip(functions.iter().zip(names)) {
        // Whatever says of itself that it is one (a mock with a `__class__`) is none.
        if !function.bind(py).get_type().is_subclass(caller)? {
            continue;
        }
        let load: Arc<CallsInFlight> = Arc::default();
        let tally = CallTally::new(Arc::clone(&load.tally));
        function.call_method1(py, intern!(py, "count_in"), (tally,))?;
        let made = PyCalls {
            name: name.as_str().into(),
            caller: function.clone_ref(py),
            load,
            profile: Arc::default(),
        };
        calls.insert(number, Arc::new(made));
    }
    Ok(calls)
}

/// Tells lines apart in Python.
fn number(line: &CallQueue) -> usize {
    std::ptr::from_ref(line) as usize
}

impl PyCalls {
    fn submit(&self, calls: Vec<Call>, line: &Arc<CallQueue>, pause: Duration) {
        let tickets: Vec<u64> = calls.iter().map(|call| call.ticket).collect();
        let begun = Python::attach(|py| {
            let calls = calls.into_iter();
            let (name, profile) = (&self.name, &self.profile);
            let calls: Vec<AsyncCall> = calls
                .map(|call| AsyncCall::new(call, line, name, profile))
                .collect();
            self.caller
                .call_method1(py, intern!(py, "submit"), (calls, pause.as_secs_f64()))
                .map(drop)
        });
        if let Err(error) = begun {
            for ticket in tickets {
                // Never the record's fault: the next one would fare no better, so no handler is asked.
                let error = Error::user(format!("an async call could not begin: {error}"))
                    .hint("look in the log for what has ended the event loop; functions are called by a running application or test driver only")
                    .bypass_handlers();
                // A call that failed lets none of its key begin.
                let _none = line.answer(ticket, Err(error), Duration::ZERO);
            }
        }
    }
}

impl AsyncUdf for PyCalls {
    fn name(&self) -> &str {
        &self.name
    }

    fn in_flight(&self) -> &Arc<CallsInFlight> {
        &self.load
    }

    fn cost(&self) -> Option<Cost> {
        Some(self.profile.cost())
    }

    fn begin(&self, calls: Vec<Call>, line: &Arc<CallQueue>) {
        self.submit(calls, line, Duration::ZERO);
    }

    fn begin_later(&self, pause: Duration, calls: Vec<Call>, line: &Arc<CallQueue>) {
        self.submit(calls, line, pause);
    }

    fn cancel(&self, line: &CallQueue) {
        Python::attach(|py| {
            // A loop that has ended has no calls.
            let _ended = self
                .caller
                .call_method1(py, intern!(py, "cancel"), (number(line),));
        });
    }
}
