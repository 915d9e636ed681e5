//! JSON with a schema for the test driver: `JsonSchemaFormat` reads and writes values as the engine does.

use crate::convert::{from_py, to_py};
use crate::errors::to_py_err;
use crate::lazy;
use crate::schemas::PySchemas;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{Bytes, CustomSerde, Datum, Result, SchemaPlace, Serde};
use stoatflow_formats::json_schema::{Checked, JsonSchemaSpec};

/// A schema, with the framing that precedes the text of each value.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct JsonSchemaFormat(Arc<Checked>);

impl JsonSchemaFormat {
    fn read(&self, data: &[u8]) -> Result<Datum> {
        let serde = Serde::Custom(Arc::clone(&self.0) as Arc<dyn CustomSerde>);
        serde.read(Some(Bytes::copy_from_slice(data)))
    }
}

#[pymethods]
impl JsonSchemaFormat {
    #[new]
    #[pyo3(signature = (schema, references=BTreeMap::new(), schema_id=None, schema_ids=Vec::new(), validate=true))]
    fn new(
        schema: String,
        references: BTreeMap<String, String>,
        schema_id: Option<u32>,
        schema_ids: Vec<u32>,
        validate: bool,
    ) -> PyResult<Self> {
        let spec = JsonSchemaSpec::new(schema, references, schema_id, schema_ids, validate);
        let made = spec.make().map_err(to_py_err)?;
        Ok(Self(Arc::new(made)))
    }

    /// The same format, with ids from a registry, for values written to `topic`. `topic` is `None` if it
    /// is only known per record.
    #[pyo3(signature = (schemas, topic=None, is_key=false))]
    fn registered(&self, schemas: Py<PyAny>, topic: Option<&str>, is_key: bool) -> Self {
        let place = SchemaPlace::of(topic, is_key);
        Self(Arc::new(self.0.registered(PySchemas::new(schemas), place)))
    }

    /// The bytes of a value.
    fn encode<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let encoded = from_py(value).and_then(|datum| self.0.encode(&datum));
        Ok(PyBytes::new(value.py(), &encoded.map_err(to_py_err)?))
    }

    /// The object that a function receives for these bytes.
    fn view<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        to_py(py, &self.read(data).map_err(to_py_err)?)
    }

    /// The decoded value as plain Python objects.
    fn decode<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        match self.read(data).map_err(to_py_err)? {
            Datum::Json(text) => lazy::plain_text(py, &text),
            other => to_py(py, &other),
        }
    }
}
