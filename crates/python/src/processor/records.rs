//! Converts between the engine's records and the Python records of processors.
//!
//! Creates `Record` and `FixedKeyRecord` without calling `__init__` (a frozen dataclass sets its fields
//! one by one, slowly), and converts forwarded records back. A part that is still the same object as in
//! the input is not converted back, unless it may have been changed in place.

use super::call_scope::CallContext;
use crate::convert::{from_py, key_from_py, to_py};
use crate::errors::to_py_err;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyTuple, PyType};
use stoatflow_core::{Bytes, Datum, Header, Headers, Open, PlainJson, Record, Timestamp};
use stoatflow_operators::Role;

static RECORD: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static FIXED: PyOnceLock<Py<PyType>> = PyOnceLock::new();

fn class(py: Python<'_>, role: Role) -> PyResult<&Bound<'_, PyType>> {
    match role {
        Role::ProcessValues => FIXED.import(py, "stoatflow.record", "FixedKeyRecord"),
        _ => RECORD.import(py, "stoatflow.record", "Record"),
    }
}

/// A record's Python form, with its parts.
pub struct PyRecord<'py> {
    pub object: Bound<'py, PyAny>,
    pub key: Bound<'py, PyAny>,
    pub value: Bound<'py, PyAny>,
    pub headers: Bound<'py, PyAny>,
}

/// Creates records of one class.
pub struct RecordFactory<'py> {
    class: Bound<'py, PyType>,
    new: Bound<'py, PyAny>,
    no_headers: Bound<'py, PyAny>,
}

impl<'py> RecordFactory<'py> {
    pub fn new(py: Python<'py>, role: Role) -> PyResult<Self> {
        let object = py
            .import(intern!(py, "builtins"))?
            .getattr(intern!(py, "object"))?;
        Ok(Self {
            class: class(py, role)?.clone(),
            new: object.getattr(intern!(py, "__new__"))?,
            no_headers: PyTuple::empty(py).into_any(),
        })
    }

    pub fn record(&self, py: Python<'py>, record: &Record) -> PyResult<PyRecord<'py>> {
        let object = self.new.call1((&self.class,))?;
        let time = record.timestamp.0.into_pyobject(py)?;
        let key = to_py(py, &record.key)?;
        let value = to_py(py, &record.value)?;
        let headers = match &record.headers {
            None => self.no_headers.clone(),
            Some(all) => headers_to_py(py, all)?,
        };
        set(&object, intern!(py, "key"), &key)?;
        set(&object, intern!(py, "value"), &value)?;
        set(&object, intern!(py, "timestamp"), &time)?;
        set(&object, intern!(py, "headers"), &headers)?;
        Ok(PyRecord {
            object,
            key,
            value,
            headers,
        })
    }
}

/// `object.__setattr__(object, name, value)`, which works on a frozen dataclass.
fn set(
    object: &Bound<'_, PyAny>,
    name: &Bound<'_, PyString>,
    value: &Bound<'_, PyAny>,
) -> PyResult<()> {
    // SAFETY: the interpreter is attached; all three objects are held during the call, which takes over
    // none of their references.
    let done = unsafe {
        pyo3::ffi::PyObject_GenericSetAttr(object.as_ptr(), name.as_ptr(), value.as_ptr())
    };
    if done == 0 {
        return Ok(());
    }
    Err(PyErr::fetch(object.py()))
}

pub fn headers_to_py<'py>(py: Python<'py>, headers: &[Header]) -> PyResult<Bound<'py, PyAny>> {
    let pairs = headers
        .iter()
        .map(|h| {
            let value = h.value.as_ref().map(|b| PyBytes::new(py, b));
            (&*h.name, value).into_pyobject(py)
        })
        .collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(py, pairs)?.into_any())
}

pub fn headers_from_py(headers: &Bound<'_, PyAny>) -> PyResult<Headers> {
    if headers.len()? == 0 {
        return Ok(None);
    }
    let mut all = Vec::new();
    for pair in headers.try_iter()? {
        let (name, value): (String, Option<Vec<u8>>) = pair?.extract().map_err(|_| {
            PyTypeError::new_err("a header is a pair of a name and bytes (or None)")
        })?;
        all.push(Header {
            name: name.into(),
            value: value.map(Bytes::from),
        });
    }
    Ok(Some(all.into()))
}

/// Converts a forwarded record.
pub fn forwarded(object: &Bound<'_, PyAny>, role: Role, context: &CallContext) -> PyResult<Record> {
    let py = object.py();
    let expected = class(py, role)?;
    if !object.is_instance(expected)? {
        return Err(PyTypeError::new_err(format!(
            "forward() takes a {}, not {}. Next: give it record.replace(...){}",
            expected.name()?,
            object.get_type().qualname()?,
            match role {
                Role::ProcessValues => "; process_values keeps keys, use process to change them",
                _ => " or Record(key, value, timestamp)",
            }
        )));
    }
    let key = object.getattr(intern!(py, "key"))?;
    let value = object.getattr(intern!(py, "value"))?;
    let headers = object.getattr(intern!(py, "headers"))?;
    let timestamp: i64 = object.getattr(intern!(py, "timestamp"))?.extract()?;
    if timestamp < 0 {
        return Err(PyValueError::new_err(format!(
            "a record can't have the negative timestamp {timestamp}"
        )));
    }
    let current = context.current.as_ref();
    let same_key = current.filter(|c| c.key.is(&key));
    if role == Role::ProcessValues
        && same_key.is_none()
        && let Some(current) = current
        && !current.key.bind(py).eq(&key)?
    {
        return Err(PyValueError::new_err(
            "process_values keeps keys: this record has another key than the one that came in. \
             Next: use process() to change keys",
        ));
    }
    let datum = |object: &Bound<'_, PyAny>| from_py(object).map_err(to_py_err);
    let value = match current {
        Some(c) if c.value.is(&value) && is_fixed(&c.record.value) => c.record.value.clone(),
        _ => datum(&value)?,
    };
    let key = match (role, current, same_key) {
        // The input's key, whatever was done to its Python form: other nodes rely on it.
        (Role::ProcessValues, Some(c), _) => c.record.key.clone(),
        (_, _, Some(c)) if is_fixed(&c.record.key) => c.record.key.clone(),
        _ => key_from_py(&key).map_err(to_py_err)?,
    };
    Ok(Record {
        key,
        value,
        timestamp: Timestamp(timestamp),
        headers: match current {
            Some(c) if c.headers.is(&headers) => c.record.headers.clone(),
            _ => headers_from_py(&headers)?,
        },
        origin: context.origin,
    })
}

/// Whether the Python form of this datum can't have changed. A list or a dict was created for this call
/// and may have been changed in place since. (A view is immutable; an opaque datum is the object
/// itself.)
fn is_fixed(datum: &Datum) -> bool {
    match datum {
        Datum::List(_) | Datum::Change(_) => false,
        Datum::Opaque(object) => {
            let is_for_change = object.open().is_some_and(Open::is_for_change);
            !is_for_change && !object.as_any().is::<PlainJson>()
        }
        Datum::Windowed(windowed) => is_fixed(&windowed.key),
        _ => true,
    }
}

/// Converts a key or a value for the engine.
pub fn datum(object: &Bound<'_, PyAny>) -> PyResult<Datum> {
    from_py(object).map_err(to_py_err)
}

/// Converts a key for the engine.
pub fn key(object: &Bound<'_, PyAny>) -> PyResult<Datum> {
    key_from_py(object).map_err(to_py_err)
}

/// An optional text argument.
pub fn text<'a>(
    object: Option<&'a Bound<'_, PyString>>,
) -> PyResult<Option<std::borrow::Cow<'a, str>>> {
    object.map(|text| text.to_cow()).transpose()
}
