//! Texts: cutting, changing, searching.
//!
//! Takes texts, returns texts that share their buffer where nothing changed. White space and cases are
//! Python's.

use super::{json, kind};
use stoatflow_core::{Datum, Error, Fields, Result, Text};
use stoatflow_formats::Value;

/// How to change a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Lower,
    Upper,
    Strip,
}

/// Where to look in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Contains,
    StartsWith,
    EndsWith,
}

pub(super) fn change(how: Change, text: Text) -> Text {
    let s = text.as_str();
    match how {
        Change::Lower if s.is_ascii() && !s.bytes().any(|b| b.is_ascii_uppercase()) => text,
        Change::Upper if s.is_ascii() && !s.bytes().any(|b| b.is_ascii_lowercase()) => text,
        Change::Lower => Text::from(s.to_lowercase()),
        Change::Upper => Text::from(s.to_uppercase()),
        Change::Strip => text.cut(s.trim_matches(is_space)),
    }
}

pub(super) fn matches(how: Match, text: &str, what: &str) -> bool {
    match how {
        Match::Contains => text.contains(what),
        Match::StartsWith => text.starts_with(what),
        Match::EndsWith => text.ends_with(what),
    }
}

/// Calls `take` with every part, as `str.split(by)` returns them.
pub(super) fn split(line: &Text, by: Option<&str>, take: &mut dyn FnMut(Text)) {
    let s = line.as_str();
    match by {
        Some(by) => s.split(by).for_each(|part| take(line.cut(part))),
        None if s.is_ascii() => s
            .as_bytes()
            .split(|&b| is_ascii_space(b))
            .filter(|part| !part.is_empty())
            .for_each(|part| {
                let start = part.as_ptr().addr() - s.as_ptr().addr();
                take(line.cut(&s[start..start + part.len()]));
            }),
        None => s
            .split(is_space)
            .filter(|part| !part.is_empty())
            .for_each(|part| take(line.cut(part))),
    }
}

/// The number of characters of a text, of elements of a list, of members of an object.
pub(super) fn length(datum: &Datum) -> Result<Datum> {
    let n = match datum {
        Datum::Null => return Ok(Datum::Null),
        Datum::Str(text) => text.as_str().chars().count(),
        Datum::Bytes(bytes) => bytes.len(),
        Datum::List(items) => items.len(),
        Datum::Json(bytes) => json::length(bytes)?,
        Datum::Opaque(_) => match (Value::of(datum), Fields::of(datum)) {
            (Some(value), _) => value.length()?,
            (_, Some(Fields(members))) => members.len(),
            _ => return length(&json::plain(datum.clone())?),
        },
        other => {
            return Err(Error::user(format!("{} has no length", kind(other)))
                .hint("take the length of a text, a list or an object"));
        }
    };
    Ok(Datum::Int(i64::try_from(n).unwrap_or(i64::MAX)))
}

// Python counts the four information separators as white space; Unicode (and Rust) don't.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

const fn is_ascii_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t'..=b'\r' | 0x1c..=0x1f)
}
