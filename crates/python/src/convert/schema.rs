//! Python objects as values that a schema can write: lists, fields and scalars.
//!
//! Takes the result of a function, returns a datum whose parts a format with a schema (Avro, Protobuf)
//! encodes. For the way back see [`super::objects`] (plain dicts and lists) and [`crate::lazy`] (views).

use super::message::serialized;
use super::{PyDatum, from_py};
use crate::dict_items::snapshot_items;
use crate::errors::PyCause;
use crate::lazy;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyDict, PyInt, PyList, PyString, PyTuple};
use stoatflow_core::{Bytes, Datum, Error, Fields, Result, Text};

/// Deeper values are almost surely cycles.
const MAX_DEPTH: usize = 128;

/// A Python object as lists, fields and scalars.
pub fn parts(object: &Bound<'_, PyAny>) -> Result<Datum> {
    part(object, 0)
}

/// The error for a value that no schema can represent.
pub fn refused(what: &str) -> Error {
    Error::serde(format!("a schema has no form for {what}")).hint(
        "return dicts, lists, text, bytes, numbers, booleans and None; the keys of dicts are texts",
    )
}

/// Like [`parts`], at a given depth of a value.
pub fn part(object: &Bound<'_, PyAny>, depth: usize) -> Result<Datum> {
    if depth > MAX_DEPTH {
        return Err(Error::serde("a value is nested too deeply for a schema")
            .hint("does it contain itself?"));
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        let dict = snapshot_items(dict).map_err(unreadable)?;
        let mut members = Vec::with_capacity(dict.len());
        for (name, value) in dict {
            let Ok(name) = name.cast::<PyString>() else {
                return Err(
                    Error::serde("a schema has no form for a dict whose key is not text")
                        .hint("make the keys of the dict texts"),
                );
            };
            let name = name.to_cow().map_err(unreadable)?;
            members.push((Text::from(name.as_ref()), part(&value, depth + 1)?));
        }
        return Ok(Fields(members).datum());
    }
    if let Some(parts) = lazy::parts(object, depth) {
        return parts;
    }
    if let Ok(list) = object.cast::<PyList>() {
        return items(list.iter(), depth);
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return items(tuple.iter(), depth);
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(Datum::Bytes(Bytes::from(bytes.to_vec())));
    }
    if object.cast::<PyInt>().is_ok()
        && object.cast::<PyBool>().is_err()
        && object.extract::<i64>().is_err()
    {
        if let Ok(large) = object.extract::<u64>() {
            return Ok(Datum::Json(large.to_string().into()));
        }
        return Err(
            Error::serde(format!("the whole number {object} is longer than 64 bits"))
                .hint("give a decimal as decimal.Decimal or as text"),
        );
    }
    match from_py(object)? {
        Datum::Opaque(made) if made.as_any().is::<PyDatum>() => other(object),
        // A view yields what it was made from: JSON text, or a value with a schema.
        plain => Ok(plain),
    }
}

fn items<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>, depth: usize) -> Result<Datum> {
    let items = items.map(|item| part(&item, depth + 1));
    Ok(Datum::List(items.collect::<Result<_>>()?))
}

/// Converts an object of another type: a message, a view, or one with a text form that schemas accept.
fn other(object: &Bound<'_, PyAny>) -> Result<Datum> {
    if let Some(message) = serialized(object)? {
        return Ok(message);
    }
    let plain = lazy::to_python(object).map_err(unreadable)?;
    if !plain.is(object) {
        return part(&plain, 1);
    }
    let class = object.get_type();
    let name = class.fully_qualified_name().map_err(unreadable)?;
    match &*name.to_string_lossy() {
        "decimal.Decimal" | "uuid.UUID" => {
            let text = object.str().map_err(unreadable)?;
            Ok(Datum::text(text.to_string_lossy().as_ref()))
        }
        name @ ("datetime.datetime" | "datetime.date" | "datetime.time" | "datetime.timedelta") => {
            Err(Error::serde(format!("a schema writes dates and times as whole numbers, not as a {name}"))
                .hint("give the number that Avro's logical type counts, such as round(value.timestamp() * 1000) for timestamp-millis; for Protobuf's Timestamp, a dict of seconds and nanos"))
        }
        name => Err(Error::serde(format!("a schema has no form for an object of type {name}"))
            .hint("return dicts, lists, text, bytes, numbers, booleans and None")),
    }
}

#[allow(clippy::needless_pass_by_value)] // fits `map_err`
fn unreadable(exception: PyErr) -> Error {
    Error::serde("a value can't be read").caused_by(PyCause::new(exception))
}
