//! Serdes that the user wrote in Python, and JSON as real dicts.

use crate::convert::{from_py, to_py};
use crate::errors::PyCause;
use crate::schemas::PySchemas;
use crate::typed_json::TypedJsonSerde;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;
use stoatflow_core::serde::json_bytes;
use stoatflow_core::{Bytes, CustomSerde, Datum, Error, PlainJson, Result, SchemaRegistry};
use stoatflow_operators::current_call::{address, within};

/// An object with `serialize(value) -> bytes` and `deserialize(bytes) -> value`.
pub struct PySerde {
    name: String,
    object: Py<PyAny>,
    schemas: Option<Arc<PySchemas>>,
}

impl std::fmt::Debug for PySerde {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PySerde").field(&self.name).finish()
    }
}

impl PySerde {
    /// Creates a serde that is named by its class.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            name: object.get_type().qualname()?.to_string(),
            object: object.clone().unbind(),
            schemas: None,
        })
    }

    /// The same, with another name in messages.
    fn named(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    /// Adds the registry of the object, if it has one: only serdes of this package do.
    fn asking(mut self) -> PyResult<Self> {
        self.schemas = Python::attach(|py| PySchemas::of(self.object.bind(py)))?;
        Ok(self)
    }

    /// The object of these bytes.
    ///
    /// # Errors
    /// `Serde` if the deserializer raises.
    pub fn object<'py>(&self, py: Python<'py>, bytes: &Bytes) -> Result<Bound<'py, PyAny>> {
        let bytes = (PyBytes::new(py, bytes),);
        let value = self.object.bind(py).call_method1("deserialize", bytes);
        value.map_err(|e| self.failed("deserialize", e))
    }

    fn failed(&self, what: &str, exception: PyErr) -> Error {
        Error::serde(format!(
            "the serde {} can't {what} a value: {exception}",
            self.name
        ))
        .caused_by(PyCause::new(exception))
    }
}

impl CustomSerde for PySerde {
    fn name(&self) -> &str {
        &self.name
    }

    fn registry(&self) -> Option<Arc<dyn SchemaRegistry>> {
        let schemas = self.schemas.as_ref()?;
        Some(Arc::clone(schemas) as Arc<dyn SchemaRegistry>)
    }

    fn encode(&self, datum: &Datum) -> Result<Bytes> {
        let attached = |py: Python<'_>| {
            let encoded = to_py(py, datum)
                .and_then(|value| self.object.bind(py).call_method1("serialize", (value,)));
            let encoded = encoded.map_err(|e| self.failed("serialize", e))?;
            match encoded.cast::<PyBytes>() {
                Ok(bytes) => Ok(Bytes::copy_from_slice(bytes.as_bytes())),
                Err(_) => Err(Error::serde(format!(
                    "the serde {} must return bytes from serialize",
                    self.name
                ))),
            }
        };
        within(address(self), true, || Python::attach(attached))
    }

    fn decode(&self, bytes: &Bytes) -> Result<Datum> {
        within(address(self), true, || {
            Python::attach(|py| from_py(&self.object(py, bytes)?))
        })
    }
}

/// The name of [`PlainJsonSerde`].
pub const PLAIN_JSON: &str = "json(decode=dict)";

/// `Serdes.json(decode="dict")`: encodes like the JSON serde, but functions receive dicts and lists that
/// they may change. Never calls Python: the text is decoded when a function receives it.
#[derive(Debug)]
pub struct PlainJsonSerde;

impl CustomSerde for PlainJsonSerde {
    fn name(&self) -> &'static str {
        PLAIN_JSON
    }

    fn is_native(&self) -> bool {
        true
    }

    fn encode(&self, datum: &Datum) -> Result<Bytes> {
        json_bytes(datum)
    }

    fn decode(&self, bytes: &Bytes) -> Result<Datum> {
        Ok(PlainJson::datum(bytes.clone()))
    }
}

/// The serde for a user's object.
pub fn custom(object: &Bound<'_, PyAny>) -> PyResult<Arc<dyn CustomSerde>> {
    let class = object
        .py()
        .import("stoatflow.serdes.builtin")?
        .getattr("PlainJsonSerde")?;
    if object.is_exact_instance(&class) {
        return Ok(Arc::new(PlainJsonSerde));
    }
    let serde = PySerde::new(object)?;
    let typed = object
        .py()
        .import("stoatflow.serdes.typed")?
        .getattr("TypedJsonSerde")?;
    if object.is_exact_instance(&typed) {
        let name = object.getattr("name")?.extract()?;
        let validate = object.getattr("validate")?.extract()?;
        return Ok(Arc::new(TypedJsonSerde::new(serde.named(name), validate)));
    }
    let base = object
        .py()
        .import("stoatflow.serdes.registered")?
        .getattr("RegisteredSerde")?;
    if object.is_instance(&base)? {
        return Ok(Arc::new(serde.asking()?));
    }
    Ok(Arc::new(serde))
}
