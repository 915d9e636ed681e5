//! JSON text beside the Python object that it stands for, and the calls of a serde in Python.
//!
//! The text stays: expressions, indexes, stores and sinks work without Python. A function gets an object of
//! its own each time, which it may change.

use crate::errors::{PyCause, of_this_package};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use stoatflow_core::{Bytes, Datum, Error, ErrorKind, Opaque, Result};

/// An object with `serialize` and `deserialize`, and its name in messages.
pub struct PyCodec {
    name: String,
    object: Py<PyAny>,
}

impl fmt::Debug for PyCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PyCodec").field(&self.name).finish()
    }
}

impl PyCodec {
    /// Of this object.
    pub fn new(object: &Bound<'_, PyAny>, name: String) -> Self {
        Self {
            name,
            object: object.clone().unbind(),
        }
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The object itself.
    pub fn bind<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.object.bind(py)
    }

    /// The object of these bytes.
    ///
    /// # Errors
    /// `Serde` if the deserializer raises.
    pub fn object<'py>(&self, py: Python<'py>, bytes: &Bytes) -> Result<Bound<'py, PyAny>> {
        let bytes = (PyBytes::new(py, bytes),);
        let value = self.bind(py).call_method1("deserialize", bytes);
        value.map_err(|e| self.failed("deserialize", e))
    }

    /// The bytes of an object.
    ///
    /// # Errors
    /// `Serde` if the serializer raises, or returns something else.
    pub fn bytes(&self, value: &Bound<'_, PyAny>) -> Result<Bytes> {
        let encoded = self.bind(value.py()).call_method1("serialize", (value,));
        let encoded = encoded.map_err(|e| self.failed("serialize", e))?;
        match encoded.cast::<PyBytes>() {
            Ok(bytes) => Ok(Bytes::copy_from_slice(bytes.as_bytes())),
            Err(_) => Err(Error::serde(format!(
                "the serde {} must return bytes from serialize",
                self.name
            ))),
        }
    }

    /// The error of an exception. If a service that the serde needs doesn't answer, nothing is wrong with
    /// the record: no handler is asked.
    pub fn failed(&self, what: &str, exception: PyErr) -> Error {
        let away = Python::attach(|py| of_this_package(py, &exception))
            .filter(|error| error.kind() == ErrorKind::Unavailable);
        away.unwrap_or_else(|| {
            Error::serde(format!(
                "the serde {} can't {what} a value: {exception}",
                self.name
            ))
        })
        .caused_by(PyCause::new(exception))
    }
}

/// A value of a Python type: its text, and the object made by validating it, for the first function.
pub struct TypedJson {
    text: Bytes,
    codec: Arc<PyCodec>,
    validated: Mutex<Option<Py<PyAny>>>,
}

impl TypedJson {
    /// The datum of a text, and of the object that stands for it if it is known.
    pub fn datum(text: Bytes, codec: &Arc<PyCodec>, object: Option<Py<PyAny>>) -> Datum {
        Datum::Opaque(Arc::new(Self {
            text,
            codec: Arc::clone(codec),
            validated: Mutex::new(object),
        }))
    }

    /// Whether this serde has read it.
    pub fn is_of(&self, codec: &Arc<PyCodec>) -> bool {
        Arc::ptr_eq(&self.codec, codec)
    }

    /// The text.
    pub const fn text(&self) -> &Bytes {
        &self.text
    }

    /// An object that nobody else has.
    ///
    /// # Errors
    /// `Serde` if the text doesn't fit the type.
    pub fn object<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let validated = self.validated.lock().take();
        match validated {
            Some(object) => Ok(object.into_bound(py)),
            None => self.codec.object(py, &self.text),
        }
    }
}

impl fmt::Debug for TypedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedJson").field(&self.text).finish()
    }
}

impl Opaque for TypedJson {
    fn to_json(&self) -> Result<Bytes> {
        Ok(self.text.clone())
    }

    fn type_name(&self) -> String {
        self.codec.name().to_owned()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn weight(&self) -> usize {
        self.text.len()
    }
}
