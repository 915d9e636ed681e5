//! Aggregates that Python code decodes: a serde of the user's, or the class of a store's messages.
//!
//! Takes what a function made, or what a key begins with; gives it as the store would give it back, so that a
//! function sees one kind of aggregate in each of its calls. An object of the type that the serde gives is
//! taken as it is: only what has another type makes the round through the serde.

use crate::convert::{from_py, to_py};
use crate::errors::to_py_err;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyType;
use stoatflow_core::{Datum, Result, Serde};

/// See the module.
pub struct Decoded {
    serde: Serde,
    /// The type that the serde gave last. Its lock is never held while Python runs.
    kind: Mutex<Option<Py<PyType>>>,
}

/// What Python code would decode, as that does; anything else stays.
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

    /// The datum of an aggregate.
    pub fn datum(&self, object: &Bound<'_, PyAny>) -> Result<Datum> {
        let datum = from_py(object)?;
        if self.is_of_kind(object) {
            return Ok(datum);
        }
        let made = self.through(&datum)?;
        // What can't be shown fails where it is shown.
        if let Ok(seen) = to_py(object.py(), &made) {
            self.remember(&seen);
        }
        Ok(made)
    }

    /// An aggregate, as functions see it.
    pub fn seen<'py>(&self, object: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if self.is_of_kind(&object) {
            return Ok(object);
        }
        let datum = from_py(&object).and_then(|datum| self.through(&datum));
        let seen = to_py(object.py(), &datum.map_err(to_py_err)?)?;
        self.remember(&seen);
        Ok(seen)
    }

    /// The round through the serde. Null stays: it is no value.
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
