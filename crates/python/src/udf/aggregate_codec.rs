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
pub struct AggregateCodec {
    serde: Serde,
    /// The type that the serde returned last. The lock is never held while Python code runs.
    known_type: Mutex<Option<Py<PyType>>>,
}

/// Converts an object that Python code would decode; others are returned as they are.
pub fn stored_form<'py>(
    codec: Option<&AggregateCodec>,
    object: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    match codec {
        Some(codec) => codec.stored_form(object),
        None => Ok(object),
    }
}

impl AggregateCodec {
    pub const fn new(serde: Serde) -> Self {
        Self {
            serde,
            known_type: Mutex::new(None),
        }
    }

    /// Converts an aggregate to a datum.
    pub fn datum(&self, object: &Bound<'_, PyAny>) -> Result<Datum> {
        let datum = from_py(object)?;
        if self.has_known_type(object) {
            return Ok(datum);
        }
        let converted = self.round_trip(&datum)?;
        // If this conversion fails, it will fail again, with an error, when a function needs the value.
        if let Ok(form) = to_py(object.py(), &converted) {
            self.remember_type(&form);
        }
        Ok(converted)
    }

    /// An aggregate in the form that functions receive.
    pub fn stored_form<'py>(&self, object: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if self.has_known_type(&object) {
            return Ok(object);
        }
        let datum = from_py(&object).and_then(|datum| self.round_trip(&datum));
        let form = to_py(object.py(), &datum.map_err(to_py_err)?)?;
        self.remember_type(&form);
        Ok(form)
    }

    /// Encodes and decodes with the serde. Null is no value and stays null.
    pub fn round_trip(&self, datum: &Datum) -> Result<Datum> {
        if datum.is_null() {
            return Ok(Datum::Null);
        }
        self.serde.decode(self.serde.encode(datum)?)
    }

    fn has_known_type(&self, object: &Bound<'_, PyAny>) -> bool {
        let known_type = self.known_type.lock();
        object.is_none()
            || known_type
                .as_ref()
                .is_some_and(|known_type| object.get_type().is(known_type))
    }

    fn remember_type(&self, object: &Bound<'_, PyAny>) {
        let before = self.known_type.lock().replace(object.get_type().unbind());
        drop(before);
    }
}
