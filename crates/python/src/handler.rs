//! Calls the user's error handlers, and implements the engine's foreign runtime for Python.
//!
//! Takes a failed record, calls a callable, returns the resulting handler as data. `stoatflow.handlers`
//! holds the logic; this module only converts. Waits with the interpreter detached.

use crate::convert::to_py;
use crate::errors::{PyCause, as_py_err};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::time::Duration;
use stoatflow_core::{Bytes, Error, Handler, Record};
use stoatflow_operators::error_policy::Failure;
use stoatflow_operators::{NO_ORIGIN, Raised, Runtime, StackFrame, ThreadStack, current_call};

/// Python as the engine's foreign runtime.
#[derive(Debug)]
pub struct PyRuntime {
    /// Whether a pause takes real time. False in the test driver, which has a virtual clock.
    pub pauses: bool,
}

impl Runtime for PyRuntime {
    // Otherwise each batch would create and delete a thread state, and its `threading.local` data with
    // it.
    fn host(&self, work: &mut (dyn FnMut() + Send)) {
        Python::attach(|py| {
            let id = py
                .import("threading")
                .and_then(|threading| threading.call_method0("get_ident"))
                .and_then(|id| id.extract());
            // Used only to report the thread's stack.
            current_call::note_thread(id.unwrap_or_default());
            py.detach(work);
        });
    }

    fn pause(&self, time: Duration) -> bool {
        !self.pauses || Python::attach(|py| py.detach(|| current_call::pause(time)))
    }

    fn stacks(&self, named: &[(u64, String)]) -> Option<String> {
        Python::attach(|py| {
            let stacks = py.import("stoatflow._runtime.stacks")?.getattr("stacks")?;
            stacks.call1((named.to_vec(),))?.extract()
        })
        .ok()
    }

    fn thread_stacks(&self) -> Option<Vec<ThreadStack>> {
        type Frames = Vec<(String, u32, String, String)>;
        let frame = |(file, line, function, code)| StackFrame {
            file,
            line,
            function,
            code,
        };
        let read = |py: Python<'_>| -> PyResult<Vec<(u64, Option<String>, Frames)>> {
            let module = py.import("stoatflow._runtime.stacks")?;
            module.call_method0("frames")?.extract()
        };
        // `None` if the interpreter is shutting down.
        let threads = Python::try_attach(|py| read(py).ok())??;
        let threads = threads.into_iter().map(|(id, name, frames)| ThreadStack {
            id,
            name,
            frames: frames.into_iter().map(frame).collect(),
        });
        Some(threads.collect())
    }

    // In the test driver, barriers wait for async calls, however long they take.
    fn patient(&self) -> bool {
        !self.pauses
    }

    fn exception(&self, error: &Error) -> Option<Raised> {
        let cause = error.cause()?.downcast_ref::<PyCause>()?;
        Python::attach(|py| {
            let described = py
                .import("stoatflow.handlers")
                .and_then(|module| {
                    module.call_method1("describe", (with_traceback(py, &cause.exception)?,))
                })
                .and_then(|all| all.extract::<(String, String, String)>());
            match described {
                Ok((class, message, traceback)) => Some(Raised {
                    class,
                    message,
                    traceback: Some(traceback),
                }),
                // Its `__str__` may raise; then only its class is known.
                Err(_) => Some(Raised {
                    class: cause.exception.get_type(py).to_string(),
                    message: error.message().to_owned(),
                    traceback: None,
                }),
            }
        })
    }
}

/// The exception with its traceback set; `PyErr` keeps the two separately.
fn with_traceback<'py>(py: Python<'py>, exception: &PyErr) -> PyResult<Bound<'py, PyAny>> {
    let value = exception.value(py).clone().into_any();
    if let Some(traceback) = exception.traceback(py) {
        value.setattr(intern!(py, "__traceback__"), traceback)?;
    }
    Ok(value)
}

/// Calls the user's callable for a failure and returns the handler it chose.
pub fn decide(py: Python<'_>, callable: &Py<PyAny>, failure: &Failure<'_>) -> PyResult<Handler> {
    let cause = failure.error.cause();
    let exception = match cause.and_then(|c| c.downcast_ref::<PyCause>()) {
        Some(cause) => cause.exception.clone_ref(py),
        None => as_py_err(failure.error),
    };
    let record = record(py, failure.record)?;
    let at = failure.error.coordinates();
    let origin = &failure.record.origin;
    let of_record = *origin != NO_ORIGIN;
    let bytes = |bytes: Option<&Bytes>| bytes.map(|b| PyBytes::new(py, b));
    let context = PyDict::new(py);
    context.set_item("kind", failure.failing.name())?;
    context.set_item("node", failure.node)?;
    context.set_item("function", at.function.as_deref())?;
    context.set_item("topic", at.topic.as_deref().filter(|_| of_record))?;
    context.set_item("partition", of_record.then_some(origin.partition.0))?;
    context.set_item("offset", of_record.then_some(origin.offset.0))?;
    context.set_item("timestamp", failure.record.timestamp.0)?;
    context.set_item("headers", record.getattr(intern!(py, "headers"))?)?;
    context.set_item("lane", failure.lane.0)?;
    context.set_item("epoch", failure.epoch.0)?;
    context.set_item("attempt", failure.attempt)?;
    let raw = failure.raw;
    context.set_item("source_raw_key", bytes(raw.and_then(|raw| raw.key)))?;
    context.set_item("source_raw_value", bytes(raw.and_then(|raw| raw.value)))?;
    let decision: String = py
        .import("stoatflow.handlers")?
        .getattr("decide")?
        .call(
            (callable, record, with_traceback(py, &exception)?),
            Some(&context),
        )?
        .extract()?;
    serde_json::from_str(&decision).map_err(|e| PyTypeError::new_err(e.to_string()))
}

/// A `Record`, created without validation: a broken record may have a negative timestamp.
fn record<'py>(py: Python<'py>, record: &Record) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("stoatflow.record")?.getattr("Record")?;
    let object = py.import("builtins")?.getattr("object")?;
    let made = object.call_method1("__new__", (&class,))?;
    let headers = record.headers.iter().flat_map(|headers| headers.iter());
    let headers = headers.map(|h| (&*h.name, h.value.as_ref().map(|v| PyBytes::new(py, v))));
    let headers = PyTuple::new(py, headers.collect::<Vec<_>>())?;
    let set = object.getattr("__setattr__")?;
    set.call1((&made, "key", to_py(py, &record.key)?))?;
    set.call1((&made, "value", to_py(py, &record.value)?))?;
    set.call1((&made, "timestamp", record.timestamp.0))?;
    set.call1((&made, "headers", headers))?;
    Ok(made)
}
