//! `Serdes.json(Order)`: JSON text, shown to functions as objects of a Python type.
//!
//! The text stays beside the object. So expressions, indexes, stores and sinks work without Python; a function
//! gets an object of its own each time, which it may change.

use crate::convert::PyDatum;
use crate::serde::PySerde;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use stoatflow_core::serde::json_bytes;
use stoatflow_core::{Bytes, CustomSerde, Datum, Opaque, Result, json};
use stoatflow_operators::current_call::{address, within};

/// The serde of a type.
#[derive(Debug)]
pub struct TypedJsonSerde {
    serde: Arc<PySerde>,
    validate: bool,
}

impl TypedJsonSerde {
    /// Of a serde in Python. With `validate` text from outside becomes an object at once.
    pub fn new(serde: PySerde, validate: bool) -> Self {
        let serde = Arc::new(serde);
        Self { serde, validate }
    }

    fn datum(&self, text: Bytes, object: Option<Py<PyAny>>) -> Datum {
        Datum::Opaque(Arc::new(TypedJson {
            text,
            serde: Arc::clone(&self.serde),
            validated: Mutex::new(object),
        }))
    }

    fn object(&self, text: &Bytes) -> Result<Py<PyAny>> {
        within(address(&*self.serde), true, || {
            Python::attach(|py| Ok(self.serde.object(py, text)?.unbind()))
        })
    }
}

impl CustomSerde for TypedJsonSerde {
    fn name(&self) -> &str {
        self.serde.name()
    }

    fn is_native(&self) -> bool {
        true
    }

    fn encode(&self, datum: &Datum) -> Result<Bytes> {
        if let Datum::Opaque(object) = datum {
            let object = object.as_any();
            if let Some(read) = object.downcast_ref::<TypedJson>()
                && Arc::ptr_eq(&read.serde, &self.serde)
            {
                return Ok(read.text.clone());
            }
            if object.is::<PyDatum>() {
                return self.serde.encode(datum);
            }
        }
        // Made by an expression or an aggregation, or read as something else.
        let text = json_bytes(datum)?;
        if self.validate {
            self.object(&text)?;
        }
        Ok(text)
    }

    fn decode(&self, bytes: &Bytes) -> Result<Datum> {
        Ok(self.datum(bytes.clone(), None))
    }

    fn read(&self, bytes: &Bytes) -> Result<Datum> {
        let text = json::read(bytes.clone())?;
        let object = self.validate.then(|| self.object(&text)).transpose()?;
        Ok(self.datum(text, object))
    }
}

/// A value of the type: its text, and the object that validating it has made, for whoever asks first.
pub struct TypedJson {
    text: Bytes,
    serde: Arc<PySerde>,
    validated: Mutex<Option<Py<PyAny>>>,
}

impl TypedJson {
    /// An object that nobody else has.
    pub fn object<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let validated = self.validated.lock().take();
        match validated {
            Some(object) => Ok(object.into_bound(py)),
            None => self.serde.object(py, &self.text),
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
        self.serde.name().to_owned()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn weight(&self) -> usize {
        self.text.len()
    }
}
