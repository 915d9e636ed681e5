//! JSON objects and arrays as Python functions see them: views that decode only what is read.
//!
//! Takes the bytes of a record, or a value that has a schema; returns a `JsonObject`, a `JsonArray`, or
//! a Python scalar. The whole text is validated when the view is created (a value with a schema: when it
//! was read), so a broken record fails there and not in the middle of a function; members become Python
//! objects when they are read. Both view classes are immutable, so a view may be kept, shared and read
//! by any thread. Never copies text: a view and views of its parts share the record's bytes.

mod array;
mod decode;
mod nested_views;
mod object;
mod open;
mod scan;

pub use array::JsonArray;
pub use object::JsonObject;

use crate::convert::schema;
use crate::dict_items::snapshot_items;
use crate::errors::to_py_err;
use decode::DecodeFailure;
use open::OpenValue;
pub use open::plain;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use scan::{JsonSyntaxError, Top};
use std::sync::Arc;
use stoatflow_core::{Bytes, Datum, Error, Opaque};

/// Registers the views as a `Mapping` and a `Sequence`, for `isinstance` and for the patterns of
/// `match`.
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

/// The object that a function receives for JSON text.
pub fn view<'py>(py: Python<'py>, bytes: &Bytes) -> PyResult<Bound<'py, PyAny>> {
    let (top, span) = scan::scan(bytes).map_err(|fault| not_json(bytes, &fault))?;
    let text = || bytes.slice(span.range());
    match top {
        Top::Object(_) | Top::Array(_) if span.from > 0 => {
            // Spans count from the first byte of the text, so leading blanks (rare) are cut off first.
            view(py, &text())
        }
        Top::Object(members) => Ok(Bound::new(py, JsonObject::read(text(), members))?.into_any()),
        Top::Array(items) => Ok(Bound::new(py, JsonArray::read(text(), items))?.into_any()),
        Top::Scalar => decode::scalar(py, span.of(bytes)),
    }
}

/// The object that a function receives for a value with a schema: a view, or a plain dict or list that
/// it may change.
pub fn of_open<'py>(py: Python<'py>, value: &Arc<dyn Opaque>) -> PyResult<Bound<'py, PyAny>> {
    if is_view(&**value) {
        open_view(py, OpenValue::new(Arc::clone(value), true))
    } else {
        plain(py, &**value)
    }
}

/// Whether functions receive a view of this value.
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

/// A value inside a validated text.
fn part<'py>(py: Python<'py>, text: &Bytes, span: scan::Span) -> PyResult<Bound<'py, PyAny>> {
    let inner = span.of(text);
    match inner.first() {
        Some(b'{') => Ok(Bound::new(py, JsonObject::part(text.slice(span.range())))?.into_any()),
        Some(b'[') => Ok(Bound::new(py, JsonArray::part(text.slice(span.range())))?.into_any()),
        _ => decode::scalar(py, inner),
    }
}

/// The plain Python objects of a whole text.
pub fn plain_text<'py>(py: Python<'py>, text: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    decode::whole(py, text).map_err(|failure| match failure {
        DecodeFailure::Text(fault) => not_json(text, &fault),
        DecodeFailure::Python(error) => error,
    })
}

/// The name of a member as a Python string, cached because it repeats in many records.
pub fn member_name<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyString>> {
    // `decode::name` would read a backslash as a JSON escape.
    if name.contains('\\') {
        return Ok(PyString::new(py, name));
    }
    decode::name(py, name.as_bytes())
}

#[cold]
fn not_json(text: &[u8], fault: &JsonSyntaxError) -> PyErr {
    let shown: String = String::from_utf8_lossy(text).chars().take(60).collect();
    let JsonSyntaxError { at, what } = fault;
    to_py_err(
        Error::serde(format!(
            "the value is not JSON ({what}, at byte {at}): {shown}"
        ))
        .hint("fix the producer, or read the topic with Serdes.string() or Serdes.bytes()"),
    )
}

/// The bytes of a text that the user passed.
fn text_bytes(text: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(text) = text.cast::<PyString>() {
        return Ok(Bytes::copy_from_slice(text.to_cow()?.as_bytes()));
    }
    Ok(Bytes::copy_from_slice(text.cast::<PyBytes>()?.as_bytes()))
}

/// The datum of an unchanged view, which is the one it was made from. `None` for changed views and other
/// objects.
pub fn datum(object: &Bound<'_, PyAny>) -> Option<Datum> {
    if let Ok(object) = object.cast_exact::<JsonObject>() {
        object.get().datum()
    } else if let Ok(array) = object.cast_exact::<JsonArray>() {
        array.get().datum()
    } else {
        None
    }
}

/// Whether this is a view of a part of a record, or a changed view. As a key, such a view is encoded
/// again: equal keys must have equal bytes, whatever blanks their records had.
pub fn is_part_or_changed(object: &Bound<'_, PyAny>) -> bool {
    if let Ok(object) = object.cast_exact::<JsonObject>() {
        !object.get().is_whole()
    } else if let Ok(array) = object.cast_exact::<JsonArray>() {
        !array.get().is_whole()
    } else {
        false
    }
}

/// Whether this is a view, and not one of a value with a schema.
pub fn is_json(object: &Bound<'_, PyAny>) -> bool {
    if let Ok(object) = object.cast_exact::<JsonObject>() {
        object.get().is_json()
    } else if let Ok(array) = object.cast_exact::<JsonArray>() {
        array.get().is_json()
    } else {
        false
    }
}

/// The members or elements of a view that a function changed or made, for a format with a schema. `None`
/// if this is no view or its plain form is equivalent.
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

/// Writes a view as JSON; `None` if this is no view.
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

/// Wraps a dict or list that a function made in a view; other objects are returned as they are. This way
/// an aggregate is always seen as a view, whether it was read from the store or returned by the last
/// call.
pub fn wrap<'py>(object: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if let Ok(dict) = object.cast_exact::<PyDict>() {
        return Ok(Bound::new(py, JsonObject::wrap(dict))?.into_any());
    }
    if let Ok(list) = object.cast_exact::<PyList>() {
        return Ok(Bound::new(py, JsonArray::wrap(list))?.into_any());
    }
    Ok(object)
}

/// Converts a view to a dict or list that the caller may change; other objects are returned as they are.
pub fn to_mutable<'py>(object: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if object.cast_exact::<JsonObject>().is_ok() || object.cast_exact::<JsonArray>().is_ok() {
        return to_python(&object);
    }
    Ok(object)
}

/// Converts views to plain dicts and lists, also within dicts, lists and tuples. Other objects are
/// returned as they are.
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
        for (name, value) in snapshot_items(dict)? {
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
