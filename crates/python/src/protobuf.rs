//! Protobuf for the test driver and the DSL: `ProtobufFormat` finds the descriptors in what the user
//! passed, and reads and writes messages as the engine does.

use crate::convert::{from_py, to_py};
use crate::errors::to_py_err;
use crate::lazy;
use crate::schemas::PySchemas;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use stoatflow_core::{Bytes, CustomSerde, Datum, SchemaPlace};
use stoatflow_formats::protobuf::{Format, Schema, files, needed, of_file, of_registered, of_text};

/// A message type, with the framing that precedes the bytes of each message.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct ProtobufFormat {
    format: Format,
    descriptors: Vec<u8>,
    message: String,
}

#[pymethods]
impl ProtobufFormat {
    #[new]
    #[pyo3(signature = (descriptors, message=None, schema_id=None, schema_ids=Vec::new()))]
    #[allow(clippy::needless_pass_by_value)] // what PyO3 hands over
    fn new(
        descriptors: &[u8],
        message: Option<&str>,
        schema_id: Option<u32>,
        schema_ids: Vec<u32>,
    ) -> PyResult<Self> {
        let (descriptors, message) = needed(descriptors, message).map_err(to_py_err)?;
        let format = Format::new(&descriptors, &message, schema_id, &schema_ids);
        Ok(Self {
            format: format.map_err(to_py_err)?,
            descriptors,
            message,
        })
    }

    /// The descriptors of a .proto file's text.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn of_text<'py>(
        py: Python<'py>,
        text: &str,
        folders: Vec<PathBuf>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let descriptors = of_text(text, &folders).map_err(to_py_err)?;
        Ok(PyBytes::new(py, &descriptors))
    }

    /// The descriptors of a .proto file.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn of_file<'py>(
        py: Python<'py>,
        path: PathBuf,
        folders: Vec<PathBuf>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let descriptors = of_file(&path, &folders).map_err(to_py_err)?;
        Ok(PyBytes::new(py, &descriptors))
    }

    /// The descriptors of a file from a registry and of its imports, by the names they have there.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)]
    fn of_registered<'py>(
        py: Python<'py>,
        content: &str,
        imports: BTreeMap<String, String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let descriptors = of_registered(content, &imports).map_err(to_py_err)?;
        Ok(PyBytes::new(py, &descriptors))
    }

    /// The same format, with ids and schemas from a registry, for values written to `topic`. `topic` is
    /// `None` if it is only known per record.
    #[pyo3(signature = (schemas, topic=None, is_key=false))]
    fn registered(&self, schemas: Py<PyAny>, topic: Option<&str>, is_key: bool) -> Self {
        let place = SchemaPlace::of(topic, is_key);
        Self {
            format: self.format.registered(PySchemas::new(schemas), place),
            descriptors: self.descriptors.clone(),
            message: self.message.clone(),
        }
    }

    /// Whether the message in `descriptors` has the encoding of this one, and the same position in its
    /// file.
    fn writes_as(&self, descriptors: &[u8]) -> PyResult<bool> {
        let (descriptors, _) = needed(descriptors, Some(&self.message)).map_err(to_py_err)?;
        let other = Schema::parse(&descriptors, &self.message).map_err(to_py_err)?;
        Ok(self.format.schema().writes_as(&other))
    }

    /// The name of the message's file, and all files with their names, the names of their imports, and
    /// their descriptors.
    #[allow(clippy::type_complexity)]
    fn files<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(String, Vec<(String, Vec<String>, Bound<'py, PyBytes>)>)> {
        let (own, files) = files(&self.descriptors, &self.message).map_err(to_py_err)?;
        let files = files.into_iter().map(|file| {
            let descriptor = PyBytes::new(py, &file.descriptor);
            (file.name, file.imports, descriptor)
        });
        Ok((own, files.collect()))
    }

    /// The descriptors of the message and everything it refers to.
    #[getter]
    fn descriptors<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.descriptors)
    }

    /// The full name of the message.
    #[getter]
    fn message(&self) -> &str {
        &self.message
    }

    /// The bytes of a value.
    fn encode<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let encoded = from_py(value).and_then(|datum| self.format.encode(&datum));
        Ok(PyBytes::new(value.py(), &encoded.map_err(to_py_err)?))
    }

    /// The object that a function receives for these bytes.
    fn view<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let decoded = self.format.decode(&Bytes::copy_from_slice(data));
        to_py(py, &decoded.map_err(to_py_err)?)
    }

    /// The decoded value as plain Python objects.
    fn decode<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let decoded = self.format.decode(&Bytes::copy_from_slice(data));
        match decoded.map_err(to_py_err)? {
            Datum::Opaque(value) => lazy::plain(py, &*value),
            Datum::Json(digits) => lazy::plain_text(py, &digits),
            scalar => to_py(py, &scalar),
        }
    }

    /// The message's own bytes, without the framing.
    fn body<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let body = self.format.body(&Bytes::copy_from_slice(data));
        Ok(PyBytes::new(py, &body.map_err(to_py_err)?))
    }
}
