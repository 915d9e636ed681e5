//! Aggregates that Python code decodes: a serde in user code, or the class of a store's messages.
//!
//! Takes a function's result or the first value of a key, returns it in the form in which the store
//! would return it, so that a function receives the same kind of aggregate in each call. An object of
//! the type that the serde returns is used as it is; any other is encoded and decoded by the serde.

use crate::convert::{from_py, to_py};
use crate::errors::to_py_err;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyType;
use stoatflow_core::{Datum, Result, Serde};

/// See the module.
pub struct Decoded {
    serde: Serde,
    /// The type that the serde returned last. The lock is never held while Python code runs.
    kind: Mutex<Option<Py<PyType>>>,
}

/// Converts an object that Python code would decode; others are returned as they are.
pub fn seen<'py>(
    decoded: Option<&Decoded>,
    object: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    match decoded {
        Some(decoded) => decoded.seen(object),
        None => Ok(object),
    }
}

impl Decoded {
    pub const fn new(serde: Serde) -> Self {
        Self {
            serde,
            kind: Mutex::new(None),
        }
    }

    /// Converts an aggregate to a datum.
    pub fn datum(&self, object: &Bound<'_, PyAny>) -> Result<Datum> {
        let datum = from_py(object)?;
        if self.is_of_kind(object) {
            return Ok(datum);
        }
        let made = self.through(&datum)?;
        // If this conversion fails, it will fail again, with an error, when a function needs the value.
        if let Ok(seen) = to_py(object.py(), &made) {
            self.remember(&seen);
        }
        Ok(made)
    }

    /// An aggregate in the form that functions receive.
    pub fn seen<'py>(&self, object: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if self.is_of_kind(&object) {
            return Ok(object);
        }
        let datum = from_py(&object).and_then(|datum| self.through(&datum));
        let seen = to_py(object.py(), &datum.map_err(to_py_err)?)?;
        self.remember(&seen);
        Ok(seen)
    }

    /// Encodes and decodes with the serde. Null is no value and stays null.
    pub fn through(&self, datum: &Datum) -> Result<Datum> {
        if datum.is_null() {
            return Ok(Datum::Null);
        }
        self.serde.decode(self.serde.encode(datum)?)
    }

    fn is_of_kind(&self, object: &Bound<'_, PyAny>) -> bool {
        let kind = self.kind.lock();
        object.is_none() || kind.as_ref().is_some_and(|kind| object.get_type().is(kind))
    }

    fn remember(&self, seen: &Bound<'_, PyAny>) {
        let before = self.kind.lock().replace(seen.get_type().unbind());
        drop(before);
    }
}
