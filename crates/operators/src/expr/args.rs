//! Type checks of function arguments.
//!
//! Takes evaluated arguments (never null), returns texts, numbers and elements, or an error that names
//! the type that was found instead. Never converts.

use super::number::Number;
use super::{json, kind};
use stoatflow_core::{Datum, Error, Result};

/// The text.
pub(super) fn text(datum: &Datum) -> Result<&stoatflow_core::Text> {
    match datum {
        Datum::Str(text) => Ok(text),
        other => Err(
            Error::user(format!("text was expected, but found {}", kind(other)))
                .hint("convert it with .cast(\"str\"), or read the topic with Serdes.string()"),
        ),
    }
}

/// The number.
pub(super) fn number(datum: &Datum) -> Result<Number> {
    Number::of(datum).ok_or_else(|| {
        Error::user(format!("a number was expected, but found {}", kind(datum)))
            .hint("convert it with .cast(\"int\") or .cast(\"float\")")
    })
}

/// The whole number.
pub(super) fn whole(datum: &Datum) -> Result<i64> {
    match number(datum)? {
        Number::Int(i) => Ok(i),
        Number::Float(_) => Err(Error::user("a whole number was expected, but found float")
            .hint("convert it with .cast(\"int\"), or use .floor()")),
    }
}

/// The elements.
pub(super) fn elements(datum: &Datum) -> Result<Vec<Datum>> {
    json::elements(datum)?.ok_or_else(|| {
        Error::user(format!("a list was expected, but found {}", kind(datum)))
            .hint("give a list: a JSON array, or a text split with .str.split()")
    })
}

/// The text of an object.
pub(super) fn object(datum: &Datum) -> Result<&bytes::Bytes> {
    match datum {
        Datum::Json(bytes) if json::kind(bytes) == "object" => Ok(bytes),
        other => Err(
            Error::user(format!("an object was expected, but found {}", kind(other)))
                .hint("take fields of JSON objects only, or build one with sf.obj(...)"),
        ),
    }
}
