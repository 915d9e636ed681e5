//! JSON in place: members and elements from undecoded bytes.
//!
//! Takes JSON text, returns slices of it; numbers, texts without escapes and constants become datums
//! without anything built in between. If a member occurs twice, the first one counts. A whole number
//! beyond 64 bits stays JSON text, so that it passes through unharmed. Text after the requested value
//! isn't read; what is read must be well-formed (else a `Serde` error), and a member of a number is a
//! `User` error. Never guesses.

use super::compare::equal;
use super::kind as kind_of;
use bytes::Bytes;
use sonic_rs::PointerNode;
use std::collections::HashMap;
use stoatflow_core::json::MemberPlace;
use stoatflow_core::serde::{needs_no_escape, write_json};
use stoatflow_core::{Datum, Error, Fields, Result, Text};
use stoatflow_formats::{PathStep, Value};

// Deeper nesting is refused when values are compared: recursion must not eat the stack of a lane.
const MAX_DEPTH: usize = 128;

/// JSON scalars become datums; everything else stays.
pub(super) fn settled(datum: Datum) -> Result<Datum> {
    match datum {
        Datum::Json(bytes) => settle(bytes),
        other => Ok(other),
    }
}

/// Foreign objects become JSON; a list with a schema becomes its elements.
pub(super) fn plain(datum: Datum) -> Result<Datum> {
    match &datum {
        Datum::Opaque(object) => match Value::of(&datum).map(Value::elements) {
            Some(Ok(Some(elements))) => Ok(Datum::List(elements.into())),
            Some(Err(e)) => Err(e),
            _ => settle(object.to_json()?),
        },
        _ => Ok(datum),
    }
}

/// Whether its parts can be read in place.
fn is_open(datum: &Datum) -> bool {
    Value::of(datum).is_some() || Fields::of(datum).is_some()
}

/// Foreign objects become JSON; a value with a schema stays.
pub(super) fn kept(datum: Datum) -> Result<Datum> {
    if is_open(&datum) {
        return Ok(datum);
    }
    plain(datum)
}

/// Foreign objects become JSON text, scalars too; a value with a schema stays.
pub(super) fn foreign_to_json(datum: Datum) -> Result<Datum> {
    match &datum {
        Datum::Opaque(object) if !is_open(&datum) => Ok(Datum::Json(object.to_json()?)),
        _ => Ok(datum),
    }
}

/// The datum of one JSON value.
pub(super) fn settle(bytes: Bytes) -> Result<Datum> {
    let text = bytes.trim_ascii();
    match text {
        [b'{' | b'[', ..] => Ok(Datum::Json(bytes.slice_ref(text))),
        [b'"', ..] => string(&bytes, text).map(Datum::Str),
        [b'-' | b'0'..=b'9', ..] => number(&bytes, text),
        b"true" => Ok(Datum::Bool(true)),
        b"false" => Ok(Datum::Bool(false)),
        b"null" => Ok(Datum::Null),
        _ => Err(malformed(text)),
    }
}

fn string(bytes: &Bytes, text: &[u8]) -> Result<Text> {
    if let [b'"', inner @ .., b'"'] = text {
        // Without escapes the text is a slice of the record; anything else is decoded strictly.
        if needs_no_escape(inner) {
            return Text::from_utf8(bytes.slice_ref(inner));
        }
    }
    serde_json::from_slice::<String>(text)
        .map(Text::from)
        .map_err(|e| malformed(text).caused_by(e))
}

fn number(bytes: &Bytes, text: &[u8]) -> Result<Datum> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits.iter().all(u8::is_ascii_digit);
    let plain = match digits {
        [b'0', b'0'..=b'9', ..] | [] => false,
        _ => whole || serde_json::from_slice::<serde_json::Number>(text).is_ok() || is_huge(digits),
    };
    let Some(spelled) = std::str::from_utf8(text).ok().filter(|_| plain) else {
        return Err(malformed(text));
    };
    if whole {
        return Ok(spelled
            .parse()
            .map_or_else(|_| Datum::Json(bytes.slice_ref(text)), Datum::Int));
    }
    spelled
        .parse()
        .map(Datum::Float)
        .map_err(|e| malformed(text).caused_by(e))
}

// 1e999: well-formed, but no finite double. Python reads it as infinity, and so do we.
fn is_huge(digits: &[u8]) -> bool {
    let Some(at) = digits.iter().position(|b| matches!(b, b'e' | b'E')) else {
        return false;
    };
    let (mantissa, exponent) = (&digits[..at], &digits[at + 1..]);
    let exponent = exponent.strip_prefix(b"+").unwrap_or(exponent);
    !exponent.is_empty()
        && exponent.iter().all(u8::is_ascii_digit)
        && serde_json::from_slice::<serde_json::Number>(mantissa).is_ok()
}

/// Follows a path from a value; null if nothing is there.
pub(super) fn walk(from: Datum, path: &[PointerNode]) -> Result<Datum> {
    match (from, path) {
        (from, []) => settled(kept(from)?),
        (Datum::Null, _) => Ok(Datum::Null),
        (Datum::Json(bytes), path) => match find(&bytes, path) {
            MemberPlace::At(place) => settle(bytes.slice(place)),
            MemberPlace::Nowhere => absent(&bytes),
            MemberPlace::Unknown => match sonic_rs::get(bytes.as_ref(), path) {
                Ok(found) => settle(bytes.slice_ref(found.as_raw_str().as_bytes())),
                Err(e) if e.is_not_found() => absent(&bytes),
                Err(_) => step_by_step(bytes.clone(), path),
            },
        },
        (Datum::List(items), [PointerNode::Index(at), rest @ ..]) => {
            items.get(*at).map_or(Ok(Datum::Null), |item| {
                walk(foreign_to_json(item.clone())?, rest)
            })
        }
        (Datum::Opaque(object), path) => walk_open(&Datum::Opaque(object), path),
        (other, [step, ..]) => Err(no_such(&kind_of(&other), step)),
    }
}

/// The value at the end of a path, as it was written; `None` if nothing is there, or something is wrong.
pub(super) fn raw(from: &Datum, path: &[PointerNode]) -> Option<Datum> {
    let Datum::Json(bytes) = from else {
        return None;
    };
    if let MemberPlace::At(place) = find(bytes, path) {
        return Some(Datum::Json(bytes.slice(place)));
    }
    let found = sonic_rs::get(bytes.as_ref(), path).ok()?;
    Some(Datum::Json(bytes.slice_ref(found.as_raw_str().as_bytes())))
}

/// The value at the end of a path of plain names; `Unknown` if the path has an index.
fn find(bytes: &[u8], path: &[PointerNode]) -> MemberPlace {
    fn name(step: &PointerNode) -> Option<&str> {
        match step {
            PointerNode::Key(name) => Some(name.as_str()),
            PointerNode::Index(_) => None,
        }
    }
    stoatflow_core::json::find(bytes, path.iter().map(name))
}

/// As `walk`, for a value that is not JSON.
fn walk_open(from: &Datum, path: &[PointerNode]) -> Result<Datum> {
    if let Some(value) = Value::of(from) {
        return value.walk(path.iter().map(|step| match step {
            PointerNode::Key(name) => PathStep::Member(name),
            PointerNode::Index(at) => PathStep::Element(*at),
        }));
    }
    match (Fields::of(from), path) {
        (Some(Fields(members)), [PointerNode::Key(wanted), rest @ ..]) => {
            let member = members.iter().find(|(name, _)| name.as_str() == *wanted);
            member.map_or(Ok(Datum::Null), |(_, value)| walk(value.clone(), rest))
        }
        (_, [step, ..]) => Err(no_such(&kind_of(from), step)),
        (_, []) => Ok(from.clone()),
    }
}

// The slow way, which knows the step that failed.
fn step_by_step(mut here: Bytes, path: &[PointerNode]) -> Result<Datum> {
    for step in path {
        match (here.trim_ascii().first(), step) {
            (Some(b'n'), _) if here.trim_ascii() == b"null" => return Ok(Datum::Null),
            (Some(b'{'), PointerNode::Key(_)) | (Some(b'['), PointerNode::Index(_)) => {}
            _ => {
                well_formed(&here)?;
                return Err(no_such(kind(&here), step));
            }
        }
        here = match sonic_rs::get(here.as_ref(), [step]) {
            Ok(found) => here.slice_ref(found.as_raw_str().as_bytes()),
            Err(e) if e.is_not_found() => return absent(&here),
            Err(e) => return Err(malformed(&here).caused_by(e)),
        };
    }
    settle(here)
}

// The search takes an object without a member after `{` for an empty one. A record must not be filtered
// out because it is broken, so a value in which nothing was found is read once from end to end.
fn absent(bytes: &Bytes) -> Result<Datum> {
    let no_path: [&str; 0] = [];
    match sonic_rs::get(bytes.as_ref(), no_path) {
        Ok(_) => Ok(Datum::Null),
        Err(e) => Err(malformed(bytes).caused_by(e)),
    }
}

/// Returns an error unless the bytes are JSON from beginning to end.
pub(super) fn well_formed(bytes: &[u8]) -> Result<()> {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes)
        .map(drop)
        .map_err(|e| malformed(bytes).caused_by(e))
}

/// The `back`-th element from the end; null if there are fewer.
pub(super) fn from_end(list: Datum, back: usize) -> Result<Datum> {
    match list.clone() {
        Datum::Null => Ok(Datum::Null),
        Datum::List(items) => items
            .len()
            .checked_sub(back)
            .map_or(Ok(Datum::Null), |at| settled(kept(items[at].clone())?)),
        Datum::Json(bytes) if is_array(&bytes) => match length(&bytes)?.checked_sub(back) {
            Some(at) => walk(Datum::Json(bytes), &[PointerNode::Index(at)]),
            None => Ok(Datum::Null),
        },
        Datum::Json(bytes) if bytes.trim_ascii() == b"null" => Ok(Datum::Null),
        Datum::Opaque(_) => match Value::of(&list) {
            Some(value) if !value.is_object()? => match value.length()?.checked_sub(back) {
                Some(at) => value.walk([PathStep::Element(at)]),
                None => Ok(Datum::Null),
            },
            _ => Err(no_such(&kind_of(&list), &PointerNode::Index(back))),
        },
        other => Err(no_such(&kind_of(&other), &PointerNode::Index(back))),
    }
}

pub(super) fn is_array(bytes: &Bytes) -> bool {
    bytes.trim_ascii().first() == Some(&b'[')
}

/// Names the type of a JSON value.
pub(super) fn kind(bytes: &Bytes) -> &'static str {
    match bytes.trim_ascii() {
        [b'{', ..] => "object",
        [b'[', ..] => "list",
        [b'"', ..] => "str",
        [b't' | b'f', ..] => "bool",
        [b'n', ..] => "null",
        digits if digits.iter().all(|b| b.is_ascii_digit() || *b == b'-') => "int",
        _ => "float",
    }
}

/// Calls `take` with every element of an array.
pub(super) fn items(bytes: &Bytes, take: &mut dyn FnMut(Datum)) -> Result<()> {
    for item in sonic_rs::to_array_iter(bytes.as_ref()) {
        let item = item.map_err(|e| malformed(bytes).caused_by(e))?;
        take(settle(bytes.slice_ref(item.as_raw_str().as_bytes()))?);
    }
    Ok(())
}

pub(super) fn members(bytes: &Bytes) -> Result<HashMap<String, Datum>> {
    let mut found = HashMap::new();
    for member in sonic_rs::to_object_iter(bytes.as_ref()) {
        let (name, value) = member.map_err(|e| malformed(bytes).caused_by(e))?;
        let value = settle(bytes.slice_ref(value.as_raw_str().as_bytes()))?;
        found.entry(name.to_string()).or_insert(value);
    }
    Ok(found)
}

/// Elements of an array, members of an object.
pub(super) fn length(bytes: &Bytes) -> Result<usize> {
    let mut n = 0;
    match bytes.trim_ascii().first() {
        Some(b'[') => {
            for item in sonic_rs::to_array_iter(bytes.as_ref()) {
                item.map_err(|e| malformed(bytes).caused_by(e))?;
                n += 1;
            }
        }
        Some(b'{') => n = members(bytes)?.len(),
        _ => {
            return Err(Error::user(format!("{} has no length", kind(bytes)))
                .hint("take the length of a text, a list or an object"));
        }
    }
    Ok(n)
}

/// Equality of lists and objects, by content.
pub(super) fn same(left: &Datum, right: &Datum, depth: usize) -> Result<bool> {
    if depth > MAX_DEPTH {
        return Err(Error::user(format!(
            "values nested deeper than {MAX_DEPTH} can't be compared"
        ))
        .hint("compare a member of them"));
    }
    match (left, right) {
        (Datum::Json(a), Datum::Json(b)) if a == b => return Ok(true),
        (Datum::Json(a), Datum::Json(b)) if kind(a) == "object" && kind(b) == "object" => {
            let (a, b) = (members(a)?, members(b)?);
            if a.len() != b.len() {
                return Ok(false);
            }
            for (name, value) in &a {
                let Some(other) = b.get(name) else {
                    return Ok(false);
                };
                if !equal(value, other, depth + 1)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        _ => {}
    }
    let (Some(a), Some(b)) = (elements(left)?, elements(right)?) else {
        return Ok(false);
    };
    if a.len() != b.len() {
        return Ok(false);
    }
    for (a, b) in a.iter().zip(&b) {
        if !equal(a, b, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn elements(datum: &Datum) -> Result<Option<Vec<Datum>>> {
    match datum {
        Datum::List(items) => items
            .iter()
            .map(|item| settled(plain(item.clone())?))
            .collect::<Result<_>>()
            .map(Some),
        Datum::Json(bytes) if is_array(bytes) => {
            let mut found = Vec::new();
            items(bytes, &mut |item| found.push(item))?;
            Ok(Some(found))
        }
        _ => Ok(None),
    }
}

/// True for bytes, and for a list or an object that holds some.
pub(super) fn has_no_text(datum: &Datum) -> bool {
    match datum {
        Datum::Bytes(_) => true,
        Datum::List(items) => items.iter().any(has_no_text),
        other => Fields::of(other).is_some(),
    }
}

/// Writes an object, member by member.
#[derive(Debug)]
pub(super) struct ObjectWriter(Vec<u8>);

impl ObjectWriter {
    /// With room for about this many bytes.
    pub fn with_room(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Adds a member. `name` is JSON text, with its quotes.
    pub fn member(&mut self, name: &str, value: &Datum) -> Result<()> {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(b':');
        write_json(value, &mut self.0)
    }

    pub fn finish(mut self) -> Datum {
        if self.0.is_empty() {
            self.0.push(b'{');
        }
        self.0.push(b'}');
        Datum::Json(self.0.into())
    }
}

fn no_such(found: &str, step: &PointerNode) -> Error {
    let (what, hint) = match step {
        PointerNode::Key(name) => (
            format!("member '{name}'"),
            "take members of JSON objects only",
        ),
        PointerNode::Index(_) => ("elements".to_owned(), "take elements of lists only"),
    };
    let hint = match found {
        "str" | "bytes" => "read the topic with Serdes.json(), or convert it with .cast(\"json\")",
        _ => hint,
    };
    Error::user(format!("a value of type {found} has no {what}")).hint(hint)
}

pub(super) fn malformed(text: &[u8]) -> Error {
    let start = String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
    Error::serde(format!("the value is not well-formed JSON: {start:?}"))
        .hint("fix the producer, or read the topic with Serdes.bytes() or Serdes.string()")
}
