//! `TimerStore`.

use super::StoreHandle;
use crate::convert::to_py;
use crate::processor::call_scope::CallContext;
use crate::processor::context::{generic, timestamp_ms};
use crate::processor::records::key as record_key;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyType};
use stoatflow_core::{Datum, Error, Result};
use stoatflow_operators::ProcessorHost;
use stoatflow_state::TimerDomain;

/// Timers of a processor.
///
/// >>> context = MockProcessorContext(sf.Stores.timers("reminders", key=str))
/// >>> reminders = context.state_store("reminders")
/// >>> reminders.register(5000, key="ann")
/// >>> [timer.at for timer in reminders.pending("ann")]
/// [5000]
#[pyclass(frozen, module = "stoatflow._native")]
pub struct TimerStore {
    pub handle: StoreHandle,
}

static TIMER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// `Timer(store, key, at, domain)`.
pub fn timer_to_py<'py>(
    py: Python<'py>,
    store: &str,
    key: &Bound<'py, PyAny>,
    at: i64,
    domain: TimerDomain,
) -> PyResult<Bound<'py, PyAny>> {
    let class = TIMER.import(py, "stoatflow.timers", "Timer")?;
    class.call1((store, key, at, domain.name()))
}

fn domain_of(name: &str) -> PyResult<TimerDomain> {
    TimerDomain::of_name(name).ok_or_else(|| {
        PyValueError::new_err(format!(
            "domain= is \"event\" (the time of records) or \"processing\" (the machine's clock), not {name:?}"
        ))
    })
}

/// The given key, or else the key of the current record.
fn key_or_current(key: Option<Datum>, context: &CallContext, method: &str) -> Result<Datum> {
    key.or_else(|| context.current.as_ref().map(|c| c.record.key.clone()))
        .ok_or_else(|| {
            Error::user(format!(
                "{method}() needs a key here: no record is being processed"
            ))
            .hint(format!("write {method}(at, key=...)"))
        })
}

impl TimerStore {
    fn change(
        &self,
        method: &str,
        at: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        domain: &str,
        act: impl FnOnce(&mut dyn ProcessorHost, usize, &Datum, i64, TimerDomain) -> Result<()>,
    ) -> PyResult<()> {
        let (time, domain) = (timestamp_ms(at)?, domain_of(domain)?);
        let key = key.map(record_key).transpose()?;
        self.handle.with(|host, context, store| {
            let key = key_or_current(key, context, method)?;
            act(host, store, &key, time, domain)
        })
    }
}

#[pymethods]
impl TimerStore {
    /// The store's name.
    ///
    /// >>> context = MockProcessorContext(sf.Stores.timers("reminders", key=str))
    /// >>> context.state_store("reminders").name
    /// 'reminders'
    #[getter]
    fn name(&self) -> &str {
        &self.handle.name
    }

    /// Registers a timer: `on_timer` is called for the key at that time.
    ///
    /// >>> context = MockProcessorContext(sf.Stores.timers("reminders", key=str))
    /// >>> context.state_store("reminders").register(5000, key="ann")
    /// >>> [(timer.key, timer.at) for timer in context.timers]
    /// [('ann', 5000)]
    #[pyo3(signature = (at, *, key=None, domain="event"))]
    fn register(
        &self,
        at: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        domain: &str,
    ) -> PyResult<()> {
        self.change(
            "register",
            at,
            key,
            domain,
            |host, store, key, at, domain| host.timer_register(store, key, at, domain),
        )
    }

    /// Cancels a timer, if it is registered.
    ///
    /// >>> context = MockProcessorContext(sf.Stores.timers("reminders", key=str))
    /// >>> reminders = context.state_store("reminders")
    /// >>> reminders.register(5000, key="ann")
    /// >>> reminders.cancel(5000, key="ann")
    /// >>> reminders.pending("ann")
    /// []
    #[pyo3(signature = (at, *, key=None, domain="event"))]
    fn cancel(
        &self,
        at: &Bound<'_, PyAny>,
        key: Option<&Bound<'_, PyAny>>,
        domain: &str,
    ) -> PyResult<()> {
        self.change("cancel", at, key, domain, |host, store, key, at, domain| {
            host.timer_cancel(store, key, at, domain)
        })
    }

    /// The timers of a key: those of event time first, each kind sorted by time.
    ///
    /// >>> context = MockProcessorContext(sf.Stores.timers("reminders", key=str))
    /// >>> reminders = context.state_store("reminders")
    /// >>> reminders.register(5000, key="ann")
    /// >>> reminders.register(1000, key="ann")
    /// >>> [timer.at for timer in reminders.pending("ann")]
    /// [1000, 5000]
    #[pyo3(signature = (key=None))]
    fn pending<'py>(
        &self,
        py: Python<'py>,
        key: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let key = key.map(record_key).transpose()?;
        let (key, found) = self.handle.with(|host, context, store| {
            let key = key_or_current(key, context, "pending")?;
            let found = host.timers_of(store, &key)?;
            Ok((key, found))
        })?;
        let key = to_py(py, &key)?;
        let timers = found
            .into_iter()
            .map(|(domain, at)| timer_to_py(py, &self.handle.name, &key, at, domain));
        PyList::new(py, timers.collect::<PyResult<Vec<_>>>()?)
    }

    fn __repr__(&self) -> String {
        format!("<TimerStore '{}'>", self.handle.name)
    }

    #[classmethod]
    fn __class_getitem__<'py>(
        class: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        generic(class, item)
    }
}
