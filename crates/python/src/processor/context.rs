//! The context of a processor: forwarding, stores, schedules and clocks.

use super::PyPunctuator;
use super::call_scope::CallScope;
use super::key_locks::{KeyLocks, LOCK_TIMEOUT};
use super::records;
use super::stores::handle;
use crate::errors::to_py_err;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple, PyType};
use std::sync::Arc;
use stoatflow_core::Error;
use stoatflow_operators::{Punctuation, ScheduleId};

/// What a processor uses to forward records, to reach its stores and clocks, and to schedule
/// punctuations. Works only during `init`, `process`, `on_timer` and punctuations of its processor.
///
/// >>> class Where(sf.ContextualProcessor[str, int, str, int]):
/// ...     def process(self, record):
/// ...         at = self.context
/// ...         print(at.application_id, at.lane, at.stream_time_ms, at.system_time_ms, at.watermark_ms)
/// >>> builder = sf.StreamsBuilder()
/// >>> _ = builder.stream("orders", key=str, value=int).process(Where)
/// >>> with TopologyTestDriver(builder.build()) as driver:
/// ...     driver.input("orders", str, int).pipe("ann", 30, timestamp=1000)
/// test 0 1000 0 -1
#[pyclass(frozen, module = "stoatflow._native")]
pub struct ProcessorContext {
    scope: Arc<CallScope>,
    name: Arc<str>,
    /// Address of the processor's supplier.
    callee: usize,
    metrics: Option<Py<PyAny>>,
}

impl ProcessorContext {
    pub const fn new(
        scope: Arc<CallScope>,
        name: Arc<str>,
        callee: usize,
        metrics: Option<Py<PyAny>>,
    ) -> Self {
        Self {
            scope,
            name,
            callee,
            metrics,
        }
    }
}

static DURATION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static TIMESTAMP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static CHECK_CALLBACK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static PUNCTUATION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static METADATA: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Milliseconds of a timestamp (an integer or a `datetime`).
pub fn timestamp_ms(object: &Bound<'_, PyAny>) -> PyResult<i64> {
    if let Ok(ms) = object.extract::<i64>() {
        return Ok(ms);
    }
    TIMESTAMP
        .import(object.py(), "stoatflow.durations", "timestamp_ms")?
        .call1((object,))?
        .extract()
}

#[pymethods]
impl ProcessorContext {
    /// Forwards a record to all children, or to the one of this name.
    ///
    /// >>> class Double(sf.ContextualProcessor[str, int, str, int]):
    /// ...     def process(self, record):
    /// ...         self.context.forward(record.replace(value=record.value * 2))
    /// >>> builder = sf.StreamsBuilder()
    /// >>> builder.stream("orders", key=str, value=int).process(Double, name="double").print()
    /// >>> with TopologyTestDriver(builder.build()) as driver:
    /// ...     driver.input("orders", str, int).pipe("ann", 30)
    /// [double]: ann, 60
    #[pyo3(signature = (record, child=None))]
    fn forward(
        &self,
        record: &Bound<'_, PyAny>,
        child: Option<&Bound<'_, PyString>>,
    ) -> PyResult<()> {
        let child = records::text(child)?;
        let role = self.scope.role();
        let mut wrong = None;
        let done = self.scope.with("the context", |host, context| {
            match records::forwarded(record, role, context) {
                Ok(forwarded) => context
                    .count_forwarded()
                    .and_then(|()| host.forward(forwarded, child.as_deref())),
                Err(e) => {
                    wrong = Some(e);
                    Ok(())
                }
            }
        });
        wrong.map_or(done, Err)
    }

    /// A store that the processor is connected to.
    ///
    /// >>> class Total(sf.ContextualProcessor[str, int, str, int]):
    /// ...     def process(self, record):
    /// ...         totals = self.context.state_store("totals")
    /// ...         totals.put(record.key, totals.get(record.key, 0) + record.value)
    /// >>> builder = sf.StreamsBuilder()
    /// >>> _ = builder.add_state_store(sf.Stores.in_memory_key_value("totals", key=str, value=int))
    /// >>> _ = builder.stream("orders", key=str, value=int).process(Total, stores=["totals"])
    /// >>> with TopologyTestDriver(builder.build()) as driver:
    /// ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("ann", 20)])
    /// ...     print(driver.store("totals").get("ann"))
    /// 50
    fn state_store(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let found = self.scope.with("the context", |host, _| {
            host.store(name)
                .map(|at| (at, host.store_kind(at), host.has_headers(at)))
                .ok_or_else(|| {
                    let names = host.store_names();
                    let error = Error::user(format!("the processor is not connected to a store '{name}'"));
                    if names.is_empty() {
                        error.hint(format!("name it where the processor is added: process(..., stores=[\"{name}\"])"))
                    } else {
                        error.hint(format!(
                            "it is connected to: {}; name others in stores=[...]",
                            names.join(", ")
                        ))
                    }
                })
        })?;
        let kept = (found.1, found.2);
        handle(py, Arc::clone(&self.scope), name, found.0, kept)
    }

    /// A context manager that locks names and keys of stores for a section of code.
    ///
    /// >>> class Move(sf.ContextualProcessor[str, str, str, str]):
    /// ...     def process(self, record):
    /// ...         with self.context.locks(record.key, record.value):
    /// ...             print("from", record.key, "to", record.value)
    /// >>> builder = sf.StreamsBuilder()
    /// >>> _ = builder.stream("moves", key=str, value=str).process(Move)
    /// >>> with TopologyTestDriver(builder.build()) as driver:
    /// ...     driver.input("moves", str, str).pipe("ann", "bob")
    /// from ann to bob
    #[pyo3(signature = (*what, timeout=None))]
    fn locks(
        &self,
        what: &Bound<'_, PyTuple>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<KeyLocks> {
        let timeout = match timeout {
            None => LOCK_TIMEOUT,
            Some(given) => {
                let ms: u64 = DURATION
                    .import(given.py(), "stoatflow.durations", "duration_ms")?
                    .call1((given,))?
                    .extract()?;
                std::time::Duration::from_millis(ms)
            }
        };
        KeyLocks::new(&self.scope, what, timeout)
    }

    /// Calls `callback(time)` whenever `interval` has passed on a clock.
    ///
    /// >>> class Clock(sf.ContextualProcessor[str, int, str, int]):
    /// ...     def init(self, context):
    /// ...         context.schedule("1m", sf.PunctuationType.WALL_CLOCK_TIME, print)
    /// ...     def process(self, record): ...
    /// >>> builder = sf.StreamsBuilder()
    /// >>> _ = builder.stream("orders", key=str, value=int).process(Clock)
    /// >>> with TopologyTestDriver(builder.build()) as driver:
    /// ...     driver.advance("1m")
    /// 60000
    #[pyo3(signature = (interval, r#type, callback, *, start=None))]
    fn schedule(
        &self,
        interval: &Bound<'_, PyAny>,
        r#type: &Bound<'_, PyAny>,
        callback: &Bound<'_, PyAny>,
        start: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Cancellable> {
        let py = interval.py();
        let class = PUNCTUATION.import(py, "stoatflow.punctuation", "PunctuationType")?;
        if !r#type.is_instance(class)? {
            return Err(PyTypeError::new_err(format!(
                "schedule() needs a PunctuationType, not {}",
                r#type.repr()?
            )));
        }
        let kind = match r#type.getattr("name")?.extract::<String>()?.as_str() {
            "STREAM_TIME" => Punctuation::StreamTime,
            _ => Punctuation::WallClock,
        };
        // An async callback would never be awaited, so it is rejected here.
        CHECK_CALLBACK
            .import(py, "stoatflow.plan.functions", "check_callback")?
            .call1((callback,))?;
        let interval_ms: i64 = DURATION
            .import(py, "stoatflow.durations", "duration_ms")?
            .call1((interval,))?
            .extract()?;
        let start_ms = start.map(timestamp_ms).transpose()?;
        let punctuator = Arc::new(PyPunctuator {
            name: Arc::clone(&self.name),
            callback: callback.clone().unbind(),
            scope: Arc::clone(&self.scope),
            callee: self.callee,
        });
        let id = self.scope.with("the context", |host, _| {
            host.schedule(interval_ms, kind, start_ms, punctuator)
        })?;
        Ok(Cancellable {
            scope: Arc::clone(&self.scope),
            id,
        })
    }

    /// Requests a commit soon; doesn't wait for it.
    ///
    /// >>> class Commits(sf.ContextualProcessor[str, int, str, int]):
    /// ...     def process(self, record):
    /// ...         print(self.context.commit())
    /// >>> builder = sf.StreamsBuilder()
    /// >>> _ = builder.stream("orders", key=str, value=int).process(Commits)
    /// >>> with TopologyTestDriver(builder.build()) as driver:
    /// ...     driver.input("orders", str, int).pipe("ann", 30)
    /// None
    fn commit(&self) -> PyResult<()> {
        self.scope.ask("the context", |host, _| host.commit())
    }

    /// Advances the application's watermark to at least this time, from the next commit on. It never
    /// goes back.
    ///
    /// >>> class Ends(sf.ContextualProcessor[str, int, str, int]):
    /// ...     def process(self, record):
    /// ...         self.context.advance_watermark(record.timestamp + 5000)
    /// >>> builder = sf.StreamsBuilder()
    /// >>> _ = builder.stream("orders", key=str, value=int).process(Ends)
    /// >>> with TopologyTestDriver(builder.build(), {"time.semantics": "watermark"}) as driver:
    /// ...     driver.input("orders", str, int).pipe("ann", 30, timestamp=1000)
    /// ...     print(driver.watermark)
    /// 6000
    fn advance_watermark(&self, timestamp: &Bound<'_, PyAny>) -> PyResult<()> {
        let to = timestamp_ms(timestamp)?;
        self.scope
            .ask("the context", |host, _| host.advance_watermark(to))
    }

    /// The application's watermark as of the last commit; -1 if there is none yet.
    #[getter]
    fn watermark_ms(&self) -> PyResult<i64> {
        self.scope.ask("the context", |host, _| host.watermark())
    }

    /// Topic, partition and offset of the record that is being processed; `None` in `init` and
    /// punctuations.
    ///
    /// >>> class Where(sf.ContextualProcessor[str, int, str, int]):
    /// ...     def process(self, record):
    /// ...         print(self.context.record_metadata, self.context.stream_time_ms)
    /// >>> builder = sf.StreamsBuilder()
    /// >>> _ = builder.stream("orders", key=str, value=int).process(Where)
    /// >>> with TopologyTestDriver(builder.build()) as driver:
    /// ...     driver.input("orders", str, int).pipe("ann", 30, timestamp=1000)
    /// RecordMetadata(topic='orders', partition=0, offset=0) 1000
    #[getter]
    fn record_metadata(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let found = self.scope.ask("the context", |host, context| {
            host.topic(&context.origin).map(|t| (t, context.origin))
        })?;
        let Some((topic, origin)) = found else {
            return Ok(None);
        };
        let class = METADATA.import(py, "stoatflow.record", "RecordMetadata")?;
        let made = class.call1((topic, origin.partition.0, origin.offset.0))?;
        Ok(Some(made.unbind()))
    }

    /// The highest timestamp of the record's task so far, or the watermark (depends on
    /// `time.semantics`); -1 if there is none yet.
    #[getter]
    fn stream_time_ms(&self) -> PyResult<i64> {
        self.scope.ask("the context", |host, _| host.stream_time())
    }

    /// The wall clock time in milliseconds.
    #[getter]
    fn system_time_ms(&self) -> PyResult<i64> {
        self.scope.ask("the context", |host, _| host.wall_time())
    }

    /// The setting `application.id`.
    #[getter]
    fn application_id(&self) -> PyResult<String> {
        self.scope
            .ask("the context", |host, _| host.application_id())
    }

    /// The metrics of the topology.
    #[getter]
    fn metrics(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.metrics {
            Some(metrics) => Ok(metrics.clone_ref(py)),
            None => Err(to_py_err(
                Error::config("this topology was compiled without metrics")
                    .hint("build it with StreamsBuilder or Topology"),
            )),
        }
    }

    /// The lane that the processor belongs to, for logs.
    #[getter]
    fn lane(&self) -> PyResult<u32> {
        self.scope.ask("the context", |host, _| host.lane())
    }

    #[classmethod]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        generic(class, item)
    }
}

/// `types.GenericAlias`: makes classes of this module generic for type checkers.
pub fn generic<'py>(
    class: &Bound<'py, PyType>,
    item: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let alias = class.py().import("types")?.getattr("GenericAlias")?;
    alias.call1((class, item))
}

/// A schedule that can be cancelled.
///
/// >>> class Once(sf.ContextualProcessor[str, int, str, int]):
/// ...     def init(self, context):
/// ...         clock = sf.PunctuationType.WALL_CLOCK_TIME
/// ...         self.schedule = context.schedule("1m", clock, self.tick)
/// ...     def process(self, record): ...
/// ...     def tick(self, time): print(time, self.schedule.cancel())
/// >>> builder = sf.StreamsBuilder()
/// >>> _ = builder.stream("orders", key=str, value=int).process(Once)
/// >>> with TopologyTestDriver(builder.build()) as driver:
/// ...     driver.advance("3m")
/// 180000 None
#[pyclass(frozen, module = "stoatflow._native")]
pub struct Cancellable {
    scope: Arc<CallScope>,
    id: ScheduleId,
}

#[pymethods]
impl Cancellable {
    /// Cancels the schedule, for all lanes. Calling it again has no effect.
    fn cancel(&self) -> PyResult<()> {
        self.scope
            .ask("the schedule", |host, _| host.cancel(self.id))
    }
}
