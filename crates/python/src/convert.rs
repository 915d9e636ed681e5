//! Conversions between datums and Python objects.
//!
//! Scalars are converted (a copy of a few bytes). JSON text and values with a schema become views
//! ([`crate::lazy`]); an unchanged view converts back to its original bytes. Any other object stays a
//! Python object inside a [`Datum::Opaque`] until a store or a sink needs bytes.

pub mod json;
mod message;
pub mod objects;
pub mod schema;

use crate::errors::PyCause;
use crate::lazy;
use crate::typed_json::TypedJson;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::any::Any;
use std::sync::Arc;
use stoatflow_core::{Bytes, Datum, Error, Opaque, PlainJson, Result, Text, Windowed};

/// A Python object that the engine carries as a datum.
pub struct PyDatum(pub Py<PyAny>);

impl std::fmt::Debug for PyDatum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PyDatum")
    }
}

impl Opaque for PyDatum {
    fn to_json(&self) -> Result<Bytes> {
        Python::attach(|py| json::write(self.0.bind(py)))
    }

    fn parts(&self) -> Result<Option<Datum>> {
        Python::attach(|py| schema::parts(self.0.bind(py)).map(Some))
    }

    fn type_name(&self) -> String {
        Python::attach(|py| {
            self.0
                .bind(py)
                .get_type()
                .qualname()
                .map_or_else(|_| "object".to_owned(), |n| n.to_string())
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn scope(&self, body: &mut dyn FnMut()) {
        // Attaching again inside `body` only checks a counter, and objects dropped inside are released
        // immediately.
        Python::attach(|_| body());
    }
}

/// The Python object of a datum.
pub fn to_py<'py>(py: Python<'py>, datum: &Datum) -> PyResult<Bound<'py, PyAny>> {
    Ok(match datum {
        Datum::Null => py.None().into_bound(py),
        Datum::Bool(b) => PyBool::new(py, *b).to_owned().into_any(),
        Datum::Int(i) => i.into_pyobject(py)?.into_any(),
        Datum::Float(x) => PyFloat::new(py, *x).into_any(),
        Datum::Bytes(b) => PyBytes::new(py, b).into_any(),
        Datum::Str(t) => PyString::new(py, t.as_str()).into_any(),
        Datum::Json(b) => lazy::view(py, b)?,
        Datum::List(items) => {
            let items: Vec<_> = items
                .iter()
                .map(|d| to_py(py, d))
                .collect::<PyResult<_>>()?;
            PyList::new(py, items)?.into_any()
        }
        Datum::Change(change) => {
            PyTuple::new(py, [to_py(py, &change.old)?, to_py(py, &change.new)?])?.into_any()
        }
        Datum::Windowed(w) => windowed(py, w)?,
        Datum::Opaque(o) => {
            if let Some(object) = o.as_any().downcast_ref::<PyDatum>() {
                object.0.bind(py).clone()
            } else if let Some(PlainJson(text)) = o.as_any().downcast_ref() {
                lazy::plain_text(py, text)?
            } else if let Some(typed) = o.as_any().downcast_ref::<TypedJson>() {
                typed.object(py).map_err(crate::errors::to_py_err)?
            } else if let Some(message) = message::message(py, &**o)? {
                message
            } else if o.open().is_some() {
                lazy::of_open(py, o)?
            } else {
                // A native aggregate.
                lazy::view(py, &o.to_json().map_err(crate::errors::to_py_err)?)?
            }
        }
    })
}

static WINDOWED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static WINDOW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// `Windowed(key, Window(start, end))`.
fn windowed<'py>(py: Python<'py>, w: &Windowed) -> PyResult<Bound<'py, PyAny>> {
    let window = WINDOW
        .import(py, "stoatflow.windowed", "Window")?
        .call1((w.start, w.end))?;
    WINDOWED
        .import(py, "stoatflow.windowed", "Windowed")?
        .call1((to_py(py, &w.key)?, window))
}

/// The datum of a `Windowed`, if the object is one.
fn from_windowed(object: &Bound<'_, PyAny>) -> Option<PyResult<Datum>> {
    let py = object.py();
    let class = WINDOWED.import(py, "stoatflow.windowed", "Windowed");
    let read = || -> PyResult<(Bound<'_, PyAny>, i64, i64)> {
        let window = object.getattr("window")?;
        Ok((
            object.getattr("key")?,
            window.getattr("start")?.extract()?,
            window.getattr("end")?.extract()?,
        ))
    };
    match class.and_then(|class| object.is_instance(class)) {
        Ok(true) => Some(read().and_then(|(key, start, end)| {
            let key = key_from_py(&key).map_err(crate::errors::to_py_err)?;
            Ok(Datum::windowed(key, start, end))
        })),
        Ok(false) => None,
        Err(e) => Some(Err(e)),
    }
}

/// The datum of a Python object.
pub fn from_py(object: &Bound<'_, PyAny>) -> Result<Datum> {
    if object.is_none() {
        return Ok(Datum::Null);
    }
    if let Ok(text) = object.cast::<PyString>() {
        let text = text.to_cow().map_err(|_| {
            Error::serde("a text holds a lone surrogate, which has no UTF-8 form")
                .hint("encode it yourself, or clean it with errors='replace'")
        })?;
        return Ok(Datum::Str(Text::from(text.as_ref())));
    }
    if let Ok(b) = object.cast::<PyBool>() {
        return Ok(Datum::Bool(b.is_true()));
    }
    if object.cast::<PyInt>().is_ok()
        && let Ok(i) = object.extract::<i64>()
    {
        return Ok(Datum::Int(i));
    }
    if let Ok(x) = object.cast::<PyFloat>() {
        return Ok(Datum::Float(x.value()));
    }
    if let Ok(b) = object.cast::<PyBytes>() {
        return Ok(Datum::Bytes(Bytes::copy_from_slice(b.as_bytes())));
    }
    // Only a tuple can be a `Windowed`, so dicts skip the class check.
    if object.is_instance_of::<PyTuple>()
        && let Some(found) = from_windowed(object)
    {
        return found
            .map_err(|e| Error::serde("a windowed key can't be read").caused_by(PyCause::new(e)));
    }
    if let Some(text) = lazy::datum(object) {
        return Ok(text);
    }
    Ok(Datum::Opaque(Arc::new(PyDatum(object.clone().unbind()))))
}

/// The datum of a Python object that becomes a key. Equal keys must have equal bytes, so a view of a
/// part of a record is re-encoded without the blanks and escapes that its producer chose. A whole key
/// that was read keeps its bytes.
pub fn key_from_py(object: &Bound<'_, PyAny>) -> Result<Datum> {
    if lazy::is_part_or_changed(object) {
        let plain = lazy::to_python(object)
            .map_err(|e| Error::serde("a key can't be read").caused_by(PyCause::new(e)))?;
        return if lazy::is_json(object) {
            json::write(&plain).map(Datum::Json)
        } else {
            from_py(&plain)
        };
    }
    from_py(object)
}
