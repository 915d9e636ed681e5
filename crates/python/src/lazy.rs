//! Objects and lists as Python functions see them: views that decode what is read.
//!
//! Takes the bytes of a record, or a value that has a schema; gives a `JsonObject`, a `JsonArray`, or the
//! Python scalar that they stand for. The whole text is checked when the view is made (a value with a schema:
//! when it was read), so a broken record fails there and not in the middle of a function; members become
//! Python objects when they are read. Owns both classes: they never change, so a view may be kept, shared and
//! read by any thread. Never copies text: a view, and what is cut out of it, shares the record's bytes.

mod array;
mod decode;
mod object;
mod open;
mod parts;
mod scan;

pub use array::JsonArray;
pub use object::JsonObject;

use crate::convert::schema;
use crate::errors::to_py_err;
use crate::steady::steady;
use decode::DecodeFailure;
use open::OpenValue;
pub use open::plain;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use scan::{JsonFault, Top};
use std::sync::Arc;
use stoatflow_core::{Bytes, Datum, Error, Opaque};

/// Makes the views a `Mapping` and a `Sequence`, for `isinstance` and for the patterns of `match`.
pub fn register(py: Python<'_>) -> PyResult<()> {
    let abc = py.import("collections.abc")?;
    let classes = [
        ("Mapping", py.get_type::<JsonObject>()),
        ("Sequence", py.get_type::<JsonArray>()),
    ];
    for (kind, class) in classes {
        abc.getattr(kind)?.call_method1("register", (class,))?;
    }
    Ok(())
}

/// What a function gets for JSON text.
pub fn view<'py>(py: Python<'py>, bytes: &Bytes) -> PyResult<Bound<'py, PyAny>> {
    let (top, span) = scan::scan(bytes).map_err(|fault| not_json(bytes, &fault))?;
    let text = || bytes.slice(span.range());
    match top {
        Top::Object(_) | Top::Array(_) if span.from > 0 => {
            // Places count from the first byte of the text: blanks before it are rare.
            view(py, &text())
        }
        Top::Object(members) => Ok(Bound::new(py, JsonObject::read(text(), members))?.into_any()),
        Top::Array(items) => Ok(Bound::new(py, JsonArray::read(text(), items))?.into_any()),
        Top::Scalar => decode::scalar(py, span.of(bytes)),
    }
}

/// What a function gets for what is open: a view, or a dict or a list of its own.
pub fn of_open<'py>(py: Python<'py>, value: &Arc<dyn Opaque>) -> PyResult<Bound<'py, PyAny>> {
    if is_view(&**value) {
        open_view(py, OpenValue::new(Arc::clone(value), true))
    } else {
        plain(py, &**value)
    }
}

/// Do functions get a view of this?
fn is_view(value: &dyn Opaque) -> bool {
    value.open().is_some_and(|open| !open.is_for_change())
}

fn open_view(py: Python<'_>, source: OpenValue) -> PyResult<Bound<'_, PyAny>> {
    if source.is_list() {
        Ok(Bound::new(py, JsonArray::open(source))?.into_any())
    } else {
        Ok(Bound::new(py, JsonObject::open(source))?.into_any())
    }
}

/// A value within a text that has been checked.
fn part<'py>(py: Python<'py>, text: &Bytes, span: scan::Span) -> PyResult<Bound<'py, PyAny>> {
    let inner = span.of(text);
    match inner.first() {
        Some(b'{') => Ok(Bound::new(py, JsonObject::cut(text.slice(span.range())))?.into_any()),
        Some(b'[') => Ok(Bound::new(py, JsonArray::cut(text.slice(span.range())))?.into_any()),
        _ => decode::scalar(py, inner),
    }
}

/// Plain Python objects of a whole text.
pub fn plain_text<'py>(py: Python<'py>, text: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    decode::whole(py, text).map_err(|failure| match failure {
        DecodeFailure::Text(fault) => not_json(text, &fault),
        DecodeFailure::Python(error) => error,
    })
}

/// The name of a member, which is in many records.
pub fn member_name<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyString>> {
    // A backslash would be read as JSON's.
    if name.contains('\\') {
        return Ok(PyString::new(py, name));
    }
    decode::name(py, name.as_bytes())
}

#[cold]
fn not_json(text: &[u8], fault: &JsonFault) -> PyErr {
    let shown: String = String::from_utf8_lossy(text).chars().take(60).collect();
    let JsonFault { at, what } = fault;
    to_py_err(
        Error::serde(format!(
            "the value is not JSON ({what}, at byte {at}): {shown}"
        ))
        .hint("fix the producer, or read the topic with Serdes.string() or Serdes.bytes()"),
    )
}

/// The bytes of a text that a user gives.
fn given(text: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(text) = text.cast::<PyString>() {
        return Ok(Bytes::copy_from_slice(text.to_cow()?.as_bytes()));
    }
    Ok(Bytes::copy_from_slice(text.cast::<PyBytes>()?.as_bytes()))
}

/// The datum of a view, if it is one; what was read and not changed is what it was made of again.
pub fn datum(object: &Bound<'_, PyAny>) -> Option<Datum> {
    if let Ok(object) = object.cast_exact::<JsonObject>() {
        object.get().datum()
    } else if let Ok(array) = object.cast_exact::<JsonArray>() {
        array.get().datum()
    } else {
        None
    }
}

/// Is this a view of a part of a record, or has it been changed? As a key, such a one is written again: equal
/// keys must have equal bytes, whatever blanks their records had.
pub fn is_made(object: &Bound<'_, PyAny>) -> bool {
    if let Ok(object) = object.cast_exact::<JsonObject>() {
        !object.get().is_whole()
    } else if let Ok(array) = object.cast_exact::<JsonArray>() {
        !array.get().is_whole()
    } else {
        false
    }
}

/// Is it a view of JSON text, and of nothing else?
pub fn is_json(object: &Bound<'_, PyAny>) -> bool {
    if let Ok(object) = object.cast_exact::<JsonObject>() {
        object.get().is_json()
    } else if let Ok(array) = object.cast_exact::<JsonArray>() {
        array.get().is_json()
    } else {
        false
    }
}

/// The members or elements of a view that a function changed or that is of its making, for a format
/// with a schema. `None`: it is none, or its plain form says all of it.
pub fn parts(object: &Bound<'_, PyAny>, depth: usize) -> Option<stoatflow_core::Result<Datum>> {
    let py = object.py();
    if let Ok(object) = object.cast_exact::<JsonObject>() {
        object.get().parts(py, depth)
    } else if let Ok(array) = object.cast_exact::<JsonArray>() {
        let list = array.get().list(py)?;
        Some(schema::part(list.as_any(), depth))
    } else {
        None
    }
}

/// Writes a view; `None` if it is none.
pub fn write(
    object: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Option<stoatflow_core::Result<()>> {
    if let Ok(object) = object.cast_exact::<JsonObject>() {
        Some(object.get().write(object.py(), out, depth))
    } else if let Ok(array) = object.cast_exact::<JsonArray>() {
        Some(array.get().write(array.py(), out, depth))
    } else {
        None
    }
}

/// A view of a dict or a list that a function made; others stay what they are. An aggregate is seen as a view
/// whether it comes from the store or from the call before.
pub fn over<'py>(object: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if let Ok(dict) = object.cast_exact::<PyDict>() {
        return Ok(Bound::new(py, JsonObject::over(dict))?.into_any());
    }
    if let Ok(list) = object.cast_exact::<PyList>() {
        return Ok(Bound::new(py, JsonArray::over(list))?.into_any());
    }
    Ok(object)
}

/// A dict or a list of its own for a view; others stay what they are.
pub fn own<'py>(object: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if object.cast_exact::<JsonObject>().is_ok() || object.cast_exact::<JsonArray>().is_ok() {
        return to_python(&object);
    }
    Ok(object)
}

/// Gives plain dicts and lists for views, also within dicts, lists and tuples. Everything else
/// stays as it is.
///
/// >>> sf.to_python(sf.JsonObject.parse('{"tags": ["tea"]}'))
/// {'tags': ['tea']}
#[pyfunction]
pub fn to_python<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if let Ok(object) = value.cast_exact::<JsonObject>() {
        return Ok(object.get().to_dict(py)?.into_any());
    }
    if let Ok(array) = value.cast_exact::<JsonArray>() {
        return Ok(array.get().to_list(py)?.into_any());
    }
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        let plain = PyDict::new(py);
        for (name, value) in steady(dict)? {
            plain.set_item(name, to_python(&value)?)?;
        }
        return Ok(plain.into_any());
    }
    if let Ok(list) = value.cast_exact::<PyList>() {
        let plain = list.iter().map(|item| to_python(&item));
        return Ok(PyList::new(py, plain.collect::<PyResult<Vec<_>>>()?)?.into_any());
    }
    if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        let plain = tuple.iter().map(|item| to_python(&item));
        return Ok(PyTuple::new(py, plain.collect::<PyResult<Vec<_>>>()?)?.into_any());
    }
    Ok(value.clone())
}
