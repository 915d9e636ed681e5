//! Encodes Python objects as JSON text, without a Python-level encoder. [`crate::lazy`] decodes.

use crate::dict_items::snapshot_items;
use crate::errors::PyCause;
use crate::lazy;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use stoatflow_core::{Bytes, Error, Result};

/// Compact JSON text of a Python object.
pub fn write(object: &Bound<'_, PyAny>) -> Result<Bytes> {
    let mut out = Vec::with_capacity(128);
    write_into(object, &mut out, 0)?;
    Ok(out.into())
}

/// Deeper values are almost surely cycles; Python's own encoder also stops at its recursion limit.
const MAX_DEPTH: usize = 200;

/// The error for a value that JSON can't represent.
pub fn refused(what: &str) -> Error {
    Error::serde(format!("JSON has no form for {what}"))
        .hint("return dicts, lists, text, numbers, booleans and None, or use a serde of your own")
}

/// Writes a text with its quotes.
pub fn write_text(text: &str, out: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(out, text).map_err(|e| refused("a text").caused_by(e))
}

/// Like [`write`], but appends to `out`.
pub fn write_into(object: &Bound<'_, PyAny>, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(
            Error::serde("a value is nested too deeply for JSON").hint("does it contain itself?")
        );
    }
    if object.is_none() {
        out.extend_from_slice(b"null");
    } else if let Ok(text) = object.cast::<PyString>() {
        let text = text
            .to_cow()
            .map_err(|_| refused("a text with a lone surrogate"))?;
        write_text(&text, out)?;
    } else if let Ok(b) = object.cast::<PyBool>() {
        out.extend_from_slice(if b.is_true() { b"true" } else { b"false" });
    } else if object.cast::<PyInt>().is_ok() {
        // Python's own digits: JSON sets no bound on whole numbers.
        if let Ok(number) = object.extract::<i64>() {
            serde_json::to_writer(out, &number).map_err(|e| refused("a number").caused_by(e))?;
            return Ok(());
        }
        let digits = object
            .call_method0("__int__")
            .and_then(|i| i.str().map(|s| s.to_string()));
        out.extend_from_slice(digits.map_err(|_| refused("a number"))?.as_bytes());
    } else if let Ok(x) = object.cast::<PyFloat>() {
        if !x.value().is_finite() {
            return Err(refused(&format!("the number {}", x.value())));
        }
        serde_json::to_writer(out, &x.value()).map_err(|e| refused("a number").caused_by(e))?;
    } else if let Ok(dict) = object.cast::<PyDict>() {
        out.push(b'{');
        let dict =
            snapshot_items(dict).map_err(|e| refused("a dict").caused_by(PyCause::new(e)))?;
        for (i, (name, value)) in dict.into_iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            let Ok(name) = name.cast::<PyString>() else {
                return Err(refused("a dict whose key is not text"));
            };
            write_into(name.as_any(), out, depth + 1)?;
            out.push(b':');
            write_into(&value, out, depth + 1)?;
        }
        out.push(b'}');
    } else if let Ok(list) = object.cast::<PyList>() {
        write_items(list.iter(), out, depth)?;
    } else if let Ok(tuple) = object.cast::<PyTuple>() {
        write_items(tuple.iter(), out, depth)?;
    } else if let Some(done) = lazy::write(object, out, depth) {
        done?;
    } else if let Some(text) = typed(object)? {
        out.extend_from_slice(text.as_bytes());
    } else {
        let name = object.get_type().qualname().map_or_else(
            |_| "an object".to_owned(),
            |n| format!("an object of type {n}"),
        );
        return Err(refused(&name));
    }
    Ok(())
}

static TEXT_OF: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The text of an object whose type has known fields: a dataclass, a pydantic model.
fn typed<'py>(object: &Bound<'py, PyAny>) -> Result<Option<Bound<'py, PyBytes>>> {
    let text = TEXT_OF
        .import(object.py(), "stoatflow.serdes.typed", "text_of")
        .and_then(|text_of| text_of.call1((object,)))
        .and_then(|text| Ok(text.extract()?));
    text.map_err(|e| refused("an object").caused_by(PyCause::new(e)))
}

fn write_items<'py>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<()> {
    out.push(b'[');
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_into(&item, out, depth + 1)?;
    }
    out.push(b']');
    Ok(())
}
