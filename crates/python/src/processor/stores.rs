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
use super::records::datum;
use crate::convert::to_py;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::sync::Arc;
use stoatflow_core::{Datum, Timestamp};
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
    /// Duration of the windows of a window store.
    pub size_ms: i64,
}

static VALUE_AND_TIMESTAMP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

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
        if !self.timestamped || value.is_none() {
            return Ok((datum(value)?, None));
        }
        let py = value.py();
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
    kind: StoreKind,
) -> PyResult<Py<PyAny>> {
    let mut handle = StoreHandle {
        scope,
        at,
        name: name.to_owned(),
        timestamped: false,
        size_ms: 0,
    };
    Ok(match kind {
        StoreKind::KeyValue | StoreKind::TimeOrdered => {
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
