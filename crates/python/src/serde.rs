//! Serdes that the user wrote in Python, and JSON as real dicts.

use crate::convert::{PyDatum, from_py, to_py};
use crate::schemas::PySchemas;
use crate::typed_json::{PyCodec, TypedJson};
use pyo3::prelude::*;
use std::sync::Arc;
use stoatflow_core::serde::json_bytes;
use stoatflow_core::{Bytes, CustomSerde, Datum, PlainJson, Result, SchemaRegistry, json};
use stoatflow_operators::current_call::{address, within};

/// An object with `serialize(value) -> bytes` and `deserialize(bytes) -> value`.
#[derive(Debug)]
pub struct PySerde {
    codec: PyCodec,
    schemas: Option<Arc<PySchemas>>,
}

impl PySerde {
    /// Adds the registry of the object, if it has one: only serdes of this package do.
    fn with_registry(mut self) -> PyResult<Self> {
        self.schemas = Python::attach(|py| PySchemas::of(self.codec.bind(py)))?;
        Ok(self)
    }
}

/// The bytes of a datum, made by Python.
fn encoded(codec: &PyCodec, datum: &Datum) -> Result<Bytes> {
    Python::attach(|py| {
        let value = to_py(py, datum).map_err(|e| codec.failed("serialize", e))?;
        codec.bytes(&value)
    })
}

impl CustomSerde for PySerde {
    fn name(&self) -> &str {
        self.codec.name()
    }

    fn registry(&self) -> Option<Arc<dyn SchemaRegistry>> {
        let schemas = self.schemas.as_ref()?;
        Some(Arc::clone(schemas) as Arc<dyn SchemaRegistry>)
    }

    fn encode(&self, datum: &Datum) -> Result<Bytes> {
        within(address(self), true, || encoded(&self.codec, datum))
    }

    fn decode(&self, bytes: &Bytes) -> Result<Datum> {
        within(address(self), true, || {
            Python::attach(|py| from_py(&self.codec.object(py, bytes)?))
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

/// `Serdes.json(Order)`: JSON text, shown to functions as objects of a Python type.
#[derive(Debug)]
pub struct TypedJsonSerde {
    codec: Arc<PyCodec>,
    /// Text from outside becomes an object at once.
    validate: bool,
}

impl TypedJsonSerde {
    fn object(&self, text: &Bytes) -> Result<Py<PyAny>> {
        within(address(&*self.codec), true, || {
            Python::attach(|py| Ok(self.codec.object(py, text)?.unbind()))
        })
    }
}

impl CustomSerde for TypedJsonSerde {
    fn name(&self) -> &str {
        self.codec.name()
    }

    fn is_native(&self) -> bool {
        true
    }

    fn encode(&self, datum: &Datum) -> Result<Bytes> {
        if let Datum::Opaque(object) = datum {
            let object = object.as_any();
            if let Some(read) = object.downcast_ref::<TypedJson>()
                && read.is_of(&self.codec)
            {
                return Ok(read.text().clone());
            }
            if object.is::<PyDatum>() {
                return within(address(&*self.codec), true, || encoded(&self.codec, datum));
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
        Ok(TypedJson::datum(bytes.clone(), &self.codec, None))
    }

    fn read(&self, bytes: &Bytes) -> Result<Datum> {
        let text = json::read(bytes.clone())?;
        let object = self.validate.then(|| self.object(&text)).transpose()?;
        Ok(TypedJson::datum(text, &self.codec, object))
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
    let name = object.get_type().qualname()?.to_string();
    let codec = PyCodec::new(object, name);
    let typed = object
        .py()
        .import("stoatflow.serdes.typed")?
        .getattr("TypedJsonSerde")?;
    if object.is_exact_instance(&typed) {
        let codec = Arc::new(PyCodec::new(object, object.getattr("name")?.extract()?));
        let validate = object.getattr("validate")?.extract()?;
        return Ok(Arc::new(TypedJsonSerde { codec, validate }));
    }
    let serde = PySerde {
        codec,
        schemas: None,
    };
    let base = object
        .py()
        .import("stoatflow.serdes.registered")?
        .getattr("RegisteredSerde")?;
    if object.is_instance(&base)? {
        return Ok(Arc::new(serde.with_registry()?));
    }
    Ok(Arc::new(serde))
}
