//! Schema registries, implemented in Python and called only for ids that are not cached yet.
//!
//! Takes the object `schemas` of a serde (`schema(id)`, `id(place, name, is_key)`), implements the
//! registry interface of the formats. Exceptions of this package convert to their own error kinds; any
//! other exception says nothing about the record, so error handlers are not called.

use crate::errors::{PyCause, of_this_package};
use pyo3::prelude::*;
use std::sync::Arc;
use stoatflow_core::{Error, Result, SchemaPlace, SchemaRegistry};
use stoatflow_operators::current_call::{address, within};

/// See the module.
pub struct PySchemas(Py<PyAny>);

impl std::fmt::Debug for PySchemas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PySchemas")
    }
}

impl PySchemas {
    /// The registry of a serde, if it has one.
    pub fn of(serde: &Bound<'_, PyAny>) -> PyResult<Option<Arc<Self>>> {
        let schemas = serde.getattr_opt("schemas")?;
        Ok(schemas
            .filter(|schemas| !schemas.is_none())
            .map(|schemas| Self::new(schemas.unbind())))
    }

    /// Wraps the object itself.
    pub fn new(schemas: Py<PyAny>) -> Arc<Self> {
        Arc::new(Self(schemas))
    }

    fn call_registry<T>(&self, call: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        within(address(self), true, || {
            Python::attach(|py| call(self.0.bind(py)).map_err(|e| registry_error(py, e)))
        })
    }
}

impl SchemaRegistry for PySchemas {
    fn schema(&self, id: u32) -> Result<String> {
        self.call_registry(|schemas| schemas.call_method1("schema", (id,))?.extract())
    }

    fn id(&self, place: &SchemaPlace) -> Result<u32> {
        let (place, name, is_key) = match place {
            SchemaPlace::Topic { topic, is_key } => ("topic", Some(&**topic), *is_key),
            SchemaPlace::AnyTopic { is_key } => ("any", None, *is_key),
            SchemaPlace::Internal { application } => ("internal", application.as_deref(), false),
        };
        self.call_registry(|schemas| schemas.call_method1("id", (place, name, is_key))?.extract())
    }
}

/// The error for an exception of a registry.
fn registry_error(py: Python<'_>, exception: PyErr) -> Error {
    of_this_package(py, &exception).unwrap_or_else(|| {
        Error::user("asking the schema registry failed")
            .bypass_handlers()
            .caused_by(PyCause::new(exception))
    })
}
