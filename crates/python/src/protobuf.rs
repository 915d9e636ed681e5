//! Protobuf between the engine and Python: descriptors of what the user gave, and messages of generated classes.
//!
//! Takes .proto files, texts and descriptors, gives `ProtobufFormat`, with which the test driver reads and writes as the
//! engine does. A message that a function returns goes on as what its class writes. Never imports the package `protobuf`:
//! whoever has messages has it.

use crate::datum::{from_py, to_py};
use crate::errors::{PyCause, to_py_err};
use crate::lazy;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes};
use std::path::PathBuf;
use stoatflow_core::{Bytes, CustomSerde, Datum, Error, Opaque, Result};
use stoatflow_formats::protobuf::{Format, ProtobufValue, Serialized, needed, of_file, of_text};

/// A message type with what stands before the bytes of its records.
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

    /// The descriptors of all that the message needs.
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

    /// What a function gets for bytes.
    fn view<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let decoded = self.format.decode(&Bytes::copy_from_slice(data));
        to_py(py, &decoded.map_err(to_py_err)?)
    }

    /// The value of bytes, plain.
    fn decode<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let decoded = self.format.decode(&Bytes::copy_from_slice(data));
        match decoded.map_err(to_py_err)? {
            Datum::Opaque(value) => lazy::plain(py, &*value),
            Datum::Json(digits) => lazy::plain_text(py, &digits),
            scalar => to_py(py, &scalar),
        }
    }

    /// The message's own bytes, without what stands before them.
    fn body<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let body = self.format.body(&Bytes::copy_from_slice(data));
        Ok(PyBytes::new(py, &body.map_err(to_py_err)?))
    }
}

/// A message of the user's class, if that is what functions get for this value.
pub fn message<'py>(py: Python<'py>, value: &dyn Opaque) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(value) = value.as_any().downcast_ref::<ProtobufValue>() else {
        return Ok(None);
    };
    match value.shown().map_err(to_py_err)? {
        Some(shown) => to_py(py, &shown).map(Some),
        None => Ok(None),
    }
}

/// What a message of a generated class is written as; `None`: it is something else.
pub fn serialized(object: &Bound<'_, PyAny>) -> Result<Option<Datum>> {
    let py = object.py();
    let class = object.get_type();
    let described = class
        .getattr(intern!(py, "DESCRIPTOR"))
        .and_then(|descriptor| descriptor.getattr(intern!(py, "full_name")))
        .and_then(|name| name.extract::<String>());
    let (Ok(name), Ok(write)) = (described, object.getattr(intern!(py, "SerializeToString")))
    else {
        return Ok(None);
    };
    // Equal messages shall be equal bytes, as far as Protobuf goes.
    let written = [("deterministic", true)]
        .into_py_dict(py)
        .and_then(|options| write.call((), Some(&options)))
        .and_then(|bytes| Ok(Bytes::copy_from_slice(bytes.cast::<PyBytes>()?.as_bytes())));
    match written {
        Ok(bytes) => Ok(Some(Serialized { name, bytes }.datum())),
        Err(e) => Err(Error::serde(format!(
            "a message of the type {name} can't be written: {e}"
        ))
        .caused_by(PyCause(e))
        .hint("give it all of its required fields")),
    }
}
