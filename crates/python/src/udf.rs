//! Implements the engine's interface for user functions with Python callables.
//!
//! Takes a batch, attaches to the interpreter once, calls the function per record (vectorcall), returns
//! datums. A failure names the position of its record in the batch; the exception is kept as the cause.

mod aggregate_codec;
mod record_objects;
mod results;

use crate::convert::{from_py, to_py};
use crate::errors::{PyCause, raised};
use crate::profile::Profile;
use crate::roles::ResultRole;
use crate::vectorcall::call;
use aggregate_codec::AggregateCodec;
use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use record_objects::{consumed_record, headers, record_context};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Handler, Late, Origin, Record, Result, Serde, SourceId};
use stoatflow_operators::current_call::{
    address, forget_record, note_record, note_record_or_abort, within,
};
use stoatflow_operators::error_policy::Failure;
use stoatflow_operators::{Args, Cost, Failed, FailedBatch, Partitions, Udf, check_partitions};

/// A callable of the user.
pub struct PyUdf {
    name: String,
    callable: Py<PyAny>,
    role: ResultRole,
    /// How Python code decodes the function's aggregates, if it does.
    aggregates: Option<AggregateCodec>,
    profile: Profile,
}

impl std::fmt::Debug for PyUdf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PyUdf").field(&self.name).finish()
    }
}

impl PyUdf {
    /// `name` is the display name (`app.py:12 is_large`).
    pub fn new(name: String, callable: Py<PyAny>) -> Self {
        Self {
            name,
            callable,
            role: ResultRole::Value,
            aggregates: None,
            profile: Profile::default(),
        }
    }

    /// Sets how its results are used.
    pub const fn with_role(mut self, role: ResultRole) -> Self {
        self.role = role;
        self
    }

    /// Sets the serde of its aggregates, which Python code decodes.
    pub fn with_aggregate_serde(mut self, serde: Serde) -> Self {
        self.aggregates = Some(AggregateCodec::new(serde));
        self
    }

    fn raised(&self, py: Python<'_>, exception: PyErr) -> Error {
        raised(py, &self.name, "the function", exception)
    }

    fn wrong_result(&self, what: impl Into<String>, hint: &str) -> Error {
        Error::user(what)
            .hint(hint)
            .at(|at| at.function = Some(self.name.clone()))
    }

    /// Calls the function for every record and passes each result to `on_result`.
    fn call_each<'py>(
        &self,
        py: Python<'py>,
        args: Args,
        batch: &[Record],
        mut on_result: impl FnMut(Bound<'py, PyAny>) -> Result<()>,
    ) -> Result<(), Failed> {
        let callable = self.callable.bind(py);
        for (at, record) in batch.iter().enumerate() {
            note_record_or_abort(at, &record.origin)?;
            let called = || -> PyResult<Bound<'py, PyAny>> {
                let value = to_py(py, &record.value)?;
                match args {
                    Args::Value => call(callable, [value]),
                    Args::KeyValue => call(callable, [to_py(py, &record.key)?, value]),
                }
            };
            let result = called().map_err(|e| Failed {
                at,
                error: self.raised(py, e),
            })?;
            on_result(result).map_err(|error| Failed {
                at,
                error: error.at(|w| w.function = Some(self.name.clone())),
            })?;
        }
        Ok(())
    }
}

impl Udf for PyUdf {
    fn name(&self) -> &str {
        &self.name
    }

    fn cost(&self) -> Option<Cost> {
        Some(self.profile.cost())
    }

    fn test(&self, args: Args, batch: &[Record], out: &mut Vec<bool>) -> Result<(), Failed> {
        self.profile.batch(address(self), batch.len(), |py| {
            self.call_each(py, args, batch, |r| {
                out.push(r.is_truthy().map_err(|e| self.raised(py, e))?);
                Ok(())
            })
        })
    }

    fn one(&self, args: Args, batch: &[Record], out: &mut Vec<Datum>) -> Result<(), Failed> {
        self.profile.batch(address(self), batch.len(), |py| {
            self.call_each(py, args, batch, |r| {
                out.push(self.result(r)?);
                Ok(())
            })
        })
    }

    fn pair(
        &self,
        args: Args,
        batch: &[Record],
        out: &mut Vec<(Datum, Datum)>,
    ) -> Result<(), Failed> {
        self.profile.batch(address(self), batch.len(), |py| {
            self.call_each(py, args, batch, |r| {
                out.push(self.key_value(&r)?);
                Ok(())
            })
        })
    }

    fn many(
        &self,
        args: Args,
        batch: &[Record],
        out: &mut Vec<Datum>,
        ends: &mut Vec<usize>,
    ) -> Result<(), Failed> {
        self.profile.batch(address(self), batch.len(), |py| {
            self.call_each(py, args, batch, |r| {
                self.items(py, &r, |item| {
                    out.push(from_py(&item)?);
                    Ok(())
                })?;
                ends.push(out.len());
                Ok(())
            })
        })
    }

    fn many_pairs(
        &self,
        args: Args,
        batch: &[Record],
        out: &mut Vec<(Datum, Datum)>,
        ends: &mut Vec<usize>,
    ) -> Result<(), Failed> {
        self.profile.batch(address(self), batch.len(), |py| {
            self.call_each(py, args, batch, |r| {
                self.items(py, &r, |item| {
                    out.push(self.key_value(&item)?);
                    Ok(())
                })?;
                ends.push(out.len());
                Ok(())
            })
        })
    }

    fn effect(&self, args: Args, batch: &[Record]) -> Result<(), Failed> {
        self.profile.batch(address(self), batch.len(), |py| {
            self.call_each(py, args, batch, |_| Ok(()))
        })
    }

    fn columns(&self, batch: RecordBatch) -> Result<Vec<RecordBatch>, FailedBatch> {
        forget_record();
        self.profile.call(address(self), |py| {
            crate::arrow::call(self.callable.bind(py), batch, |e| self.raised(py, e))
        })
    }

    fn columns_effect(&self, batch: RecordBatch) -> Result<(), FailedBatch> {
        forget_record();
        self.profile.call(address(self), |py| {
            let done =
                crate::arrow::call_raw(self.callable.bind(py), batch, |e| self.raised(py, e));
            done.map(drop)
        })
    }

    fn call(&self, arguments: &[&Datum]) -> Result<Datum> {
        self.profile.call(address(self), |py| {
            let called = || -> PyResult<Bound<'_, PyAny>> {
                let callable = self.callable.bind(py);
                match arguments {
                    [] => callable.call0(),
                    [a] => call(callable, [to_py(py, a)?]),
                    // A reduction: the aggregate and the value.
                    [a, b] => call(callable, [self.stored_form(to_py(py, a)?)?, to_py(py, b)?]),
                    [a, b, c] => {
                        // An aggregation: key, value and the aggregate, which may come from an
                        // expression as initializer.
                        let c =
                            aggregate_codec::stored_form(self.aggregates.as_ref(), to_py(py, c)?)?;
                        call(callable, [to_py(py, a)?, to_py(py, b)?, c])
                    }
                    more => {
                        let all: Vec<_> =
                            more.iter().map(|d| to_py(py, d)).collect::<PyResult<_>>()?;
                        callable.call1(PyTuple::new(py, all)?)
                    }
                }
            };
            let result = called().map_err(|e| self.raised(py, e))?;
            match (&self.aggregates, arguments) {
                // An initializer's result may have the right type and still differ inside, so it always
                // passes through the serde.
                (Some(codec), []) => codec.round_trip(&from_py(&result)?),
                _ => self.result(result),
            }
        })
    }

    fn calls(
        &self,
        arity: usize,
        origins: &[Origin],
        arguments: &[Datum],
        out: &mut Vec<Datum>,
    ) -> Result<(), Failed> {
        self.profile
            .batch(address(self), arguments.len() / arity, |py| {
                let callable = self.callable.bind(py);
                let calls = arguments.chunks_exact(arity).zip(origins);
                for (at, (given, origin)) in calls.enumerate() {
                    note_record_or_abort(at, origin)?;
                    let called = || -> PyResult<Bound<'_, PyAny>> {
                        match given {
                            [a, b] => call(callable, [to_py(py, a)?, to_py(py, b)?]),
                            [a, b, c] => {
                                call(callable, [to_py(py, a)?, to_py(py, b)?, to_py(py, c)?])
                            }
                            other => {
                                let all: Vec<_> = other
                                    .iter()
                                    .map(|d| to_py(py, d))
                                    .collect::<PyResult<_>>()?;
                                callable.call1(PyTuple::new(py, all)?)
                            }
                        }
                    };
                    let result = called().map_err(|e| self.raised(py, e));
                    out.push(
                        result
                            .and_then(|r| self.result(r))
                            .map_err(|error| Failed { at, error })?,
                    );
                }
                Ok(())
            })
    }

    fn topics(
        &self,
        batch: &[Record],
        topic_of: &dyn Fn(&Origin) -> Option<String>,
        out: &mut Vec<Arc<str>>,
    ) -> Result<(), Failed> {
        self.profile.batch(address(self), batch.len(), |py| {
            let callable = self.callable.bind(py);
            // Adjacent records nearly always have the same topic, so its Python string is reused.
            let mut read: Option<(SourceId, u16, Bound<'_, PyAny>)> = None;
            for (at, record) in batch.iter().enumerate() {
                note_record_or_abort(at, &record.origin)?;
                let mut called = || -> PyResult<Bound<'_, PyAny>> {
                    let origin = &record.origin;
                    let topic = match &read {
                        Some((source, topic, name))
                            if (*source, *topic) == (origin.source, origin.topic) =>
                        {
                            name.clone()
                        }
                        _ => {
                            let name = topic_of(origin).into_pyobject(py)?;
                            read = Some((origin.source, origin.topic, name.clone()));
                            name
                        }
                    };
                    let key = to_py(py, &record.key)?;
                    callable.call1((
                        key,
                        to_py(py, &record.value)?,
                        record_context(record, topic)?,
                    ))
                };
                let topic = called()
                    .map_err(|e| self.raised(py, e))
                    .and_then(|chosen| self.topic(&chosen));
                out.push(topic.map_err(|error| Failed { at, error })?);
            }
            Ok(())
        })
    }

    fn partitions(
        &self,
        batch: &[Record],
        with_headers: bool,
        to: &[(Arc<str>, u32)],
        out: &mut Vec<Partitions>,
    ) -> Result<(), Failed> {
        self.profile.batch(address(self), batch.len(), |py| {
            let callable = self.callable.bind(py);
            for (at, (record, sized)) in batch.iter().zip(to).enumerate() {
                note_record_or_abort(at, &record.origin)?;
                let (topic, count) = sized;
                let called = || -> PyResult<Bound<'_, PyAny>> {
                    let (key, value) = (to_py(py, &record.key)?, to_py(py, &record.value)?);
                    if with_headers {
                        callable.call1((&**topic, headers(py, record)?, key, value, *count))
                    } else {
                        callable.call1((&**topic, key, value, *count))
                    }
                };
                let chosen = called()
                    .map_err(|e| self.raised(py, e))
                    .and_then(|chosen| self.chosen_partitions(&chosen))
                    .and_then(|chosen| check_partitions(&chosen, sized).map(|()| chosen));
                out.push(chosen.map_err(|error| Failed { at, error })?);
            }
            Ok(())
        })
    }

    fn timestamps(
        &self,
        batch: &[Record],
        topic: &str,
        (mut partition_time, latest): (i64, i64),
        out: &mut Vec<i64>,
    ) -> Result<(), Failed> {
        self.profile.batch(address(self), batch.len(), |py| {
            let callable = self.callable.bind(py);
            let topic = PyString::new(py, topic);
            for (at, record) in batch.iter().enumerate() {
                note_record_or_abort(at, &record.origin)?;
                let called = || -> PyResult<Bound<'_, PyAny>> {
                    callable.call1((consumed_record(record, &topic)?, partition_time))
                };
                let time = called()
                    .map_err(|e| self.raised(py, e))
                    .and_then(|time| self.time(&time))
                    .map_err(|error| Failed { at, error })?;
                partition_time = partition_time.max(if time <= latest { time } else { -1 });
                out.push(time);
            }
            Ok(())
        })
    }

    fn watermarks(
        &self,
        batch: &[Record],
        topic: &str,
        mut current: i64,
        out: &mut Vec<Option<i64>>,
    ) -> Result<(), Failed> {
        self.profile.batch(address(self), batch.len(), |py| {
            let callable = self.callable.bind(py);
            let topic = PyString::new(py, topic);
            for (at, record) in batch.iter().enumerate() {
                note_record_or_abort(at, &record.origin)?;
                let called = || -> PyResult<Bound<'_, PyAny>> {
                    callable.call1((consumed_record(record, &topic)?, current))
                };
                let watermark = called()
                    .map_err(|e| self.raised(py, e))
                    .and_then(|given| self.watermark(&given))
                    .map_err(|error| Failed { at, error })?;
                current = watermark.map_or(current, |w| w.max(current));
                out.push(watermark);
            }
            Ok(())
        })
    }

    fn late(
        &self,
        batch: &[Record],
        topic: &str,
        watermark: i64,
        out: &mut Vec<Late>,
    ) -> Result<(), Failed> {
        self.profile.batch(address(self), batch.len(), |py| {
            let callable = self.callable.bind(py);
            let topic = PyString::new(py, topic);
            for (at, record) in batch.iter().enumerate() {
                note_record_or_abort(at, &record.origin)?;
                let called = || callable.call1((consumed_record(record, &topic)?, watermark));
                let returned = called().map_err(|e| self.raised(py, e));
                let late = returned.and_then(|returned| self.late_policy(&returned));
                out.push(late.map_err(|error| Failed { at, error })?);
            }
            Ok(())
        })
    }

    fn decide(&self, failure: &Failure<'_>) -> Result<Handler> {
        note_record(&failure.record.origin);
        let attached = |py: Python<'_>| {
            crate::handler::decide(py, &self.callable, failure).map_err(|e| {
                let text = e.value(py).to_string();
                Error::user(format!("an error handler failed itself: {text}"))
                    .hint("let it give log_and_continue(), DLQ(...), Retry(...) or log_and_fail()")
                    .at(|at| at.function = Some(self.name.clone()))
                    .caused_by(PyCause::new(e))
            })
        };
        within(address(self), true, || Python::attach(attached))
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        // Attaching again inside only checks a counter and takes no lock.
        self.profile.scope(body);
    }
}
