//! Conversions: `int`, `float`, `str`, `bool`, `json`.
//!
//! Takes a datum, gives one of the requested type, as Python's constructors do; null stays null. One
//! difference: text becomes a `bool` only if it is "true" or "false" in any case (Python takes any text
//! but the empty one for true). What can't be converted is an error.

use super::number::Number;
use super::{json, kind, text as texts};
use stoatflow_core::serde::json_bytes;
use stoatflow_core::{Datum, Error, Result, Text};

/// The requested type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Int,
    Float,
    Str,
    Bool,
    Json,
}

impl Target {
    pub fn new(name: &str) -> Result<Self> {
        Ok(match name {
            "int" => Self::Int,
            "float" => Self::Float,
            "str" => Self::Str,
            "bool" => Self::Bool,
            "json" => Self::Json,
            other => {
                return Err(
                    Error::topology(format!("there is no type '{other}' to cast to"))
                        .hint("use int, float, str, bool or json"),
                );
            }
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Float => "float",
            Self::Str => "str",
            Self::Bool => "bool",
            Self::Json => "json",
        }
    }
}

/// Converts a datum. `strict`: a value that can't be converted is an error; otherwise it becomes null.
pub(super) fn cast(to: Target, strict: bool, datum: Datum) -> Result<Datum> {
    match convert(to, datum) {
        Err(_) if !strict => Ok(Datum::Null),
        done => done,
    }
}

fn convert(to: Target, datum: Datum) -> Result<Datum> {
    if datum.is_null() {
        return Ok(Datum::Null);
    }
    let done = match to {
        Target::Int => int(&datum).map(Datum::Int),
        Target::Float => float(&datum).map(Datum::Float),
        Target::Str => return text(datum).map(Datum::Str),
        Target::Bool => bool(&datum).map(Datum::Bool),
        Target::Json => match datum {
            Datum::Str(text) => return checked_json(text.into_bytes()),
            Datum::Bytes(bytes) => return checked_json(bytes),
            other => return Ok(other),
        },
    };
    done.ok_or_else(|| {
        let shown = match &datum {
            Datum::Str(text) => format!(
                "the text {:?}",
                text.as_str().chars().take(40).collect::<String>()
            ),
            Datum::Float(x) => format!("the number {}", python_float(*x)),
            other => format!("a value of type {}", kind(other)),
        };
        Error::user(format!("can't convert {shown} to {}", to.name()))
            .hint("filter such records out before, or write strict=False to get null for them")
    })
}

#[allow(clippy::cast_possible_truncation)] // checked to be in range
fn int(datum: &Datum) -> Option<i64> {
    match Number::of(datum) {
        Some(Number::Int(i)) => Some(i),
        // 2^63 itself is out; -2^63 is in.
        Some(Number::Float(x)) => (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0)
            .contains(&x.trunc())
            .then(|| x.trunc() as i64),
        None => match datum {
            Datum::Str(text) => {
                let digits = digits_only(text.as_str())?;
                digits.parse().ok()
            }
            _ => None,
        },
    }
}

fn float(datum: &Datum) -> Option<f64> {
    match (Number::of(datum), datum) {
        (Some(number), _) => Some(number.float()),
        (None, Datum::Str(text)) => digits_only(text.as_str())?.parse().ok(),
        _ => None,
    }
}

/// Removes surrounding white space and the underscores that Python allows between digits; `None` if one
/// is misplaced.
fn digits_only(text: &str) -> Option<String> {
    let trimmed = text.trim_matches(texts::is_space);
    let bytes = trimmed.as_bytes();
    let digit = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_some_and(u8::is_ascii_digit)
    };
    let misplaced = |(at, byte): (usize, &u8)| {
        *byte == b'_' && !(digit(at.checked_sub(1)) && digit(at.checked_add(1)))
    };
    (!bytes.iter().enumerate().any(misplaced)).then(|| trimmed.replace('_', ""))
}

/// As `str()` in Python; objects and lists as their JSON text.
pub(super) fn text(datum: Datum) -> Result<Text> {
    Ok(match datum {
        Datum::Str(text) => text,
        Datum::Bytes(bytes) => Text::from_utf8(bytes)?,
        Datum::Bool(true) => Text::from("True"),
        Datum::Bool(false) => Text::from("False"),
        Datum::Int(i) => Text::from(i.to_string()),
        Datum::Float(x) => Text::from(python_float(x)),
        other => Text::from_utf8(json_bytes(&other)?)?,
    })
}

fn bool(datum: &Datum) -> Option<bool> {
    match (Number::of(datum), datum) {
        (Some(Number::Int(i)), _) => Some(i != 0),
        (Some(Number::Float(x)), _) => Some(x != 0.0),
        (None, Datum::Str(text)) => match text.as_str().trim_matches(texts::is_space) {
            t if t.eq_ignore_ascii_case("true") => Some(true),
            t if t.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn checked_json(bytes: bytes::Bytes) -> Result<Datum> {
    json::well_formed(&bytes)?;
    json::settle(bytes)
}

/// As `repr` in Python.
fn python_float(x: f64) -> String {
    let shortest = format!("{x:?}");
    match shortest.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = exponent
                .strip_prefix('-')
                .map_or(('+', exponent), |digits| ('-', digits));
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => shortest.to_lowercase(), // NaN
    }
}
