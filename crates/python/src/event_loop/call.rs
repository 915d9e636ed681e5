//! One async call as the event loop sees it: its arguments, and the queue that receives its result.

use super::queue_id;
use crate::convert::{from_py, key_from_py, to_py};
use crate::errors::raised;
use crate::profile::{Profile, forks};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Datum, Error, Result};
use stoatflow_operators::{Answer, Call, CallQueue, check_results};
use stoatflow_plan::Form;

/// A call. Answered once, on the event loop; the next call of the key is returned and must be started.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct AsyncCall {
    call: Call,
    queue: Arc<CallQueue>,
    name: Arc<str>,
    profile: Arc<Profile>,
    forks: u32,
}

impl AsyncCall {
    pub fn new(
        call: Call,
        queue: &Arc<CallQueue>,
        name: &Arc<str>,
        profile: &Arc<Profile>,
    ) -> Self {
        Self {
            call,
            queue: Arc::clone(queue),
            name: Arc::clone(name),
            profile: Arc::clone(profile),
            forks: forks(),
        }
    }

    /// `took_s` includes the time waiting for a turn, which is `waited_s`.
    fn answer(
        &self,
        py: Python<'_>,
        result: Result<Answer>,
        took_s: f64,
        waited_s: f64,
    ) -> Option<Self> {
        let (took, waited) = (duration(took_s), duration(waited_s));
        let inside = took.saturating_sub(waited);
        self.profile.count(py, inside, waited, self.forks);
        // Stays attached: no thread waits for the interpreter while it holds the queue's lock, and
        // re-attaching would make this loop compete for the interpreter at every answer while functions
        // compute.
        let next = self.queue.answer(self.call.ticket, result, took)?;
        Some(Self::new(next, &self.queue, &self.name, &self.profile))
    }
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

#[pymethods]
impl AsyncCall {
    /// Identifies the queue of the call.
    #[getter]
    fn line(&self) -> usize {
        queue_id(&self.queue)
    }

    /// The arguments of the function.
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let arguments = self.call.arguments.iter();
        let arguments = arguments.map(|each| to_py(py, each));
        PyTuple::new(py, arguments.collect::<PyResult<Vec<_>>>()?)
    }

    /// The function returned `result`.
    fn done(
        &self,
        py: Python<'_>,
        result: &Bound<'_, PyAny>,
        took_s: f64,
        waited_s: f64,
    ) -> Option<Self> {
        let answer = answer(self.queue.form, result, &self.name)
            .map_err(|e| e.at(|at| at.function = Some(self.name.to_string())));
        self.answer(py, answer, took_s, waited_s)
    }

    /// The function raised `error`.
    fn failed(
        &self,
        py: Python<'_>,
        error: &Bound<'_, PyAny>,
        took_s: f64,
        waited_s: f64,
    ) -> Option<Self> {
        let error = PyErr::from_value(error.clone());
        let error = raised(py, &self.name, "the function", error);
        self.answer(py, Err(error), took_s, waited_s)
    }
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().qualname();
    name.map_or_else(|_| "?".to_owned(), |n| n.to_string())
}

/// Converts a result into the answer that the operator expects.
fn answer(form: Form, result: &Bound<'_, PyAny>, function: &str) -> Result<Answer> {
    match form {
        Form::Peek | Form::Foreach => Ok(Answer::Done),
        Form::Filter | Form::FilterNot => match result.is_truthy() {
            Ok(verdict) => Ok(Answer::Verdict(verdict)),
            Err(e) => Err(raised(result.py(), function, "the function", e)),
        },
        Form::MapValues => from_py(result).map(Answer::One),
        Form::SelectKey | Form::GroupBy => key_from_py(result).map(Answer::One),
        Form::Map => pair(result).map(|(key, value)| Answer::Pair(key, value)),
        Form::FlatMapValues => items(result, function, |item| from_py(&item)).map(Answer::Many),
        Form::FlatMap => items(result, function, |item| pair(&item)).map(Answer::Pairs),
    }
}

fn pair(result: &Bound<'_, PyAny>) -> Result<(Datum, Datum)> {
    if let Ok(pair) = result.cast::<PyTuple>()
        && let Ok((key, value)) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()
    {
        return Ok((key_from_py(&key)?, from_py(&value)?));
    }
    let kind = type_name(result);
    Err(Error::user(format!(
        "the function must return a (key, value) tuple, it returned {kind}"
    ))
    .hint("return a tuple of two, such as (key, value)"))
}

fn items<'py, T>(
    result: &Bound<'py, PyAny>,
    function: &str,
    take: impl Fn(Bound<'py, PyAny>) -> Result<T>,
) -> Result<Vec<T>> {
    if result.is_instance_of::<PyString>() || result.is_instance_of::<PyBytes>() {
        return Err(Error::user(
            "the function returned text or bytes where a sequence of values is expected",
        )
        .hint("return a list (a text would fall apart into its characters), such as [text]"));
    }
    let py = result.py();
    let items = result.try_iter().map_err(|_| {
        let kind = type_name(result);
        Error::user(format!(
            "the function returned {kind} where a sequence of values is expected"
        ))
        .hint("return a list; [] for no values")
    })?;
    let items = items.enumerate().map(|(given, item)| {
        check_results(given)?;
        take(item.map_err(|e| raised(py, function, "the function", e))?)
    });
    items.collect()
}
