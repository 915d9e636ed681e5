//! Messages of generated Protobuf classes.
//!
//! Never imports the package `protobuf`: if there are messages, the user has imported it.

use super::to_py;
use crate::errors::{PyCause, to_py_err};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes};
use stoatflow_core::{Bytes, Datum, Error, Opaque, Result};
use stoatflow_formats::protobuf::{ProtobufValue, Serialized};

/// A message of the user's class, if functions receive this value as one.
pub fn message<'py>(py: Python<'py>, value: &dyn Opaque) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(value) = value.as_any().downcast_ref::<ProtobufValue>() else {
        return Ok(None);
    };
    match value.shown().map_err(to_py_err)? {
        Some(shown) => to_py(py, &shown).map(Some),
        None => Ok(None),
    }
}

/// The serialized form of a message of a generated class; `None` for any other object.
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
    // Equal messages must have equal bytes, as far as Protobuf guarantees it.
    let written = [("deterministic", true)]
        .into_py_dict(py)
        .and_then(|options| write.call((), Some(&options)))
        .and_then(|bytes| Ok(Bytes::copy_from_slice(bytes.cast::<PyBytes>()?.as_bytes())));
    match written {
        Ok(bytes) => Ok(Some(Serialized { name, bytes }.datum())),
        Err(e) => Err(Error::serde(format!(
            "a message of the type {name} can't be written: {e}"
        ))
        .caused_by(PyCause::new(e))
        .hint("give it all of its required fields")),
    }
}
