//! Avro for the test driver: `AvroFormat` reads and writes values as the engine does.

use crate::convert::{from_py, to_py};
use crate::errors::to_py_err;
use crate::lazy;
use crate::schemas::PySchemas;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use stoatflow_core::{Bytes, CustomSerde, Datum, SchemaPlace};
use stoatflow_formats::avro::{Format, Schema, Spec};

/// A schema, with the framing that precedes the bytes of each value.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct AvroFormat(Format);

#[pymethods]
impl AvroFormat {
    #[new]
    #[pyo3(signature = (schema, schema_id=None, writer_schemas=BTreeMap::new()))]
    fn new(
        schema: String,
        schema_id: Option<u32>,
        writer_schemas: BTreeMap<u32, String>,
    ) -> PyResult<Self> {
        let writers = writer_schemas
            .into_iter()
            .map(|(id, text)| (id.to_string(), text));
        let spec = Spec::new(schema, schema_id, writers.collect());
        spec.make().map(Self).map_err(to_py_err)
    }

    /// The same format, with ids and schemas from a registry, for values written to `topic`. `topic` is
    /// `None` if it is only known per record.
    #[pyo3(signature = (schemas, topic=None, is_key=false))]
    fn registered(&self, schemas: Py<PyAny>, topic: Option<&str>, is_key: bool) -> Self {
        let place = SchemaPlace::of(topic, is_key);
        Self(self.0.registered(PySchemas::new(schemas), place))
    }

    /// Whether another schema encodes values to the same bytes.
    fn writes_as(&self, schema: &str) -> PyResult<bool> {
        let other = Schema::parse(schema).map_err(to_py_err)?;
        Ok(other.form() == self.0.schema().form())
    }

    /// The format's name in messages.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The full name of a record's schema, the type of any other.
    #[getter]
    fn title(&self) -> String {
        self.0.schema().title()
    }

    /// The bytes of a value.
    fn encode<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let encoded = from_py(value).and_then(|datum| self.0.encode(&datum));
        Ok(PyBytes::new(value.py(), &encoded.map_err(to_py_err)?))
    }

    /// The object that a function receives for these bytes.
    fn view<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let decoded = self.0.decode(&Bytes::copy_from_slice(data));
        to_py(py, &decoded.map_err(to_py_err)?)
    }

    /// The decoded value as plain Python objects.
    fn decode<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let decoded = self.0.decode(&Bytes::copy_from_slice(data));
        match decoded.map_err(to_py_err)? {
            Datum::Opaque(value) => lazy::plain(py, &*value),
            scalar => to_py(py, &scalar),
        }
    }
}
