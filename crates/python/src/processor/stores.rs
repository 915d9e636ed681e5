//! The stores of a processor, as Python objects.
//!
//! Converts Python arguments and results; the processor's host does the rest. A store works only while
//! its processor is called, and raises otherwise. Iterators read their entries when they are created.

mod iterator;
mod key_value;
mod session;
mod timers;
mod versioned;
mod window;

pub use iterator::StoreIterator;
pub use key_value::{KeyValueStore, TimestampedKeyValueStore};
pub use session::SessionStore;
pub use timers::{TimerStore, timer_to_py};
pub use versioned::VersionedKeyValueStore;
pub use window::WindowStore;

use super::call_scope::CallScope;
use super::records::{datum, headers_from_py, headers_to_py};
use crate::convert::to_py;
use crate::errors::to_py_err;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Timestamp, headers_from_bytes, headers_to_bytes};
use stoatflow_operators::ProcessorHost;
use stoatflow_plan::StoreKind;
use stoatflow_state::Stored;

use super::call_scope::CallContext;

/// A store of a processor.
pub struct StoreHandle {
    pub scope: Arc<CallScope>,
    pub at: usize,
    pub name: String,
    /// Whether values have timestamps.
    pub timestamped: bool,
    /// Whether values have headers.
    pub headers: bool,
    /// Duration of the windows of a window store.
    pub size_ms: i64,
}

static VALUE_AND_TIMESTAMP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static VALUE_TIMESTAMP_HEADERS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static AGGREGATION_WITH_HEADERS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Splits what a store with headers keeps into the value and its headers, as Python objects.
fn value_and_headers<'py>(
    py: Python<'py>,
    stored: &Datum,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let Datum::List(parts) = stored else {
        return Err(to_py_err(Error::internal("a value has no headers")));
    };
    let [Datum::Bytes(headers), value] = &parts[..] else {
        return Err(to_py_err(Error::internal("a value has no headers")));
    };
    let headers = headers_from_bytes(headers.clone()).map_err(to_py_err)?;
    let headers = headers_to_py(py, headers.as_deref().unwrap_or_default())?;
    Ok((to_py(py, value)?, headers))
}

impl StoreHandle {
    /// Calls `act` with the host.
    pub fn with<T>(
        &self,
        act: impl FnOnce(&mut dyn ProcessorHost, &CallContext, usize) -> stoatflow_core::Result<T>,
    ) -> PyResult<T> {
        self.scope
            .with("a store", |host, context| act(host, context, self.at))
    }

    /// The Python object for a stored value.
    pub fn to_object<'py>(&self, py: Python<'py>, stored: &Stored) -> PyResult<Bound<'py, PyAny>> {
        if self.headers {
            let (value, headers) = value_and_headers(py, &stored.value)?;
            return VALUE_TIMESTAMP_HEADERS
                .import(py, "stoatflow.stores", "ValueTimestampHeaders")?
                .call1((value, stored.timestamp.0, headers));
        }
        let value = to_py(py, &stored.value)?;
        if !self.timestamped {
            return Ok(value);
        }
        VALUE_AND_TIMESTAMP
            .import(py, "stoatflow.stores", "ValueAndTimestamp")?
            .call1((value, stored.timestamp.0))
    }

    /// Converts a value that the user writes, with its timestamp if the store has timestamps. `None`
    /// means the timestamp of the current record.
    pub fn convert_value(&self, value: &Bound<'_, PyAny>) -> PyResult<(Datum, Option<i64>)> {
        let py = value.py();
        if self.headers && !value.is_none() {
            return self.convert_with_headers(value);
        }
        if !self.timestamped || value.is_none() {
            return Ok((datum(value)?, None));
        }
        let class = VALUE_AND_TIMESTAMP.import(py, "stoatflow.stores", "ValueAndTimestamp")?;
        if !value.is_instance(class)? {
            return Err(PyTypeError::new_err(format!(
                "the store '{}' keeps a time beside each value, it can't take {}. \
                 Next: put ValueAndTimestamp(value, record.timestamp)",
                self.name,
                value.get_type().qualname()?
            )));
        }
        let time = value.get_item(1)?.extract()?;
        Ok((datum(&value.get_item(0)?)?, Some(time)))
    }

    fn convert_with_headers(&self, value: &Bound<'_, PyAny>) -> PyResult<(Datum, Option<i64>)> {
        let py = value.py();
        let class =
            VALUE_TIMESTAMP_HEADERS.import(py, "stoatflow.stores", "ValueTimestampHeaders")?;
        if !value.is_instance(class)? {
            return Err(PyTypeError::new_err(format!(
                "the store '{}' keeps a time and headers beside each value, it can't take {}. \
                 Next: put ValueTimestampHeaders(value, record.timestamp, record.headers)",
                self.name,
                value.get_type().qualname()?
            )));
        }
        let time = value.get_item(1)?.extract()?;
        let pair = with_headers(&value.get_item(0)?, &value.get_item(2)?)?;
        Ok((pair, Some(time)))
    }

    /// The Python object for the value of a session.
    pub fn to_aggregation<'py>(
        &self,
        py: Python<'py>,
        value: &Datum,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !self.headers {
            return to_py(py, value);
        }
        let pair = value_and_headers(py, value)?;
        AGGREGATION_WITH_HEADERS
            .import(py, "stoatflow.stores", "AggregationWithHeaders")?
            .call1(pair)
    }

    /// Converts the value of a session that the user writes.
    pub fn convert_aggregation(&self, value: &Bound<'_, PyAny>) -> PyResult<Datum> {
        if !self.headers || value.is_none() {
            return datum(value);
        }
        let class = AGGREGATION_WITH_HEADERS.import(
            value.py(),
            "stoatflow.stores",
            "AggregationWithHeaders",
        )?;
        if !value.is_instance(class)? {
            return Err(PyTypeError::new_err(format!(
                "the store '{}' keeps headers beside each value, it can't take {}. \
                 Next: put AggregationWithHeaders(value, record.headers)",
                self.name,
                value.get_type().qualname()?
            )));
        }
        with_headers(&value.get_item(0)?, &value.get_item(1)?)
    }
}

/// A value and its headers as a store keeps them; null if the value is null.
fn with_headers(value: &Bound<'_, PyAny>, headers: &Bound<'_, PyAny>) -> PyResult<Datum> {
    let plain = datum(value)?;
    if plain.is_null() {
        return Ok(plain);
    }
    let headers = if headers.is_none() {
        None
    } else {
        headers_from_py(headers)?
    };
    let headers = Datum::Bytes(headers_to_bytes(&headers));
    Ok(Datum::List([headers, plain].into()))
}

/// A value with its timestamp.
pub const fn stored(value: Datum, time: i64) -> Stored {
    Stored {
        value,
        timestamp: Timestamp(time),
    }
}

/// Creates the Python object of a store.
pub fn handle(
    py: Python<'_>,
    scope: Arc<CallScope>,
    name: &str,
    at: usize,
    (kind, headers): (StoreKind, bool),
) -> PyResult<Py<PyAny>> {
    let mut handle = StoreHandle {
        scope,
        at,
        name: name.to_owned(),
        timestamped: false,
        headers,
        size_ms: 0,
    };
    Ok(match kind {
        StoreKind::KeyValue | StoreKind::TimeOrdered => {
            Py::new(py, KeyValueStore { handle })?.into_any()
        }
        StoreKind::TimestampedKeyValue if headers => {
            Py::new(py, KeyValueStore { handle })?.into_any()
        }
        StoreKind::TimestampedKeyValue => {
            handle.timestamped = true;
            let base = PyClassInitializer::from(KeyValueStore { handle });
            Py::new(py, base.add_subclass(TimestampedKeyValueStore))?.into_any()
        }
        StoreKind::Window {
            size_ms,
            timestamped,
            ..
        } => {
            handle.timestamped = timestamped;
            handle.size_ms = size_ms;
            Py::new(py, WindowStore { handle })?.into_any()
        }
        StoreKind::Session { .. } => Py::new(py, SessionStore { handle })?.into_any(),
        StoreKind::Versioned { .. } => Py::new(py, VersionedKeyValueStore { handle })?.into_any(),
        StoreKind::Timers => Py::new(py, TimerStore { handle })?.into_any(),
    })
}
