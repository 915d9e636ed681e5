//! Functions of objects, on their undecoded text.
//!
//! Takes an object, gives another one in which what was not named is copied byte by byte, or what can be told of it.
//! Members keep their places, new ones come last, as in a Python dict. Nothing is decoded but the names.

use super::{args, json};
use bytes::Bytes;
use std::ops::Range;
use stoatflow_core::serde::write_json;
use stoatflow_core::{Datum, Result, Text};

/// Gets the name of a member, its place, and that of its value.
type Take<'a> = dyn FnMut(&str, Range<usize>, Range<usize>) -> Result<()> + 'a;

/// Calls `take` with the name of each member, where the member lies in the text, and where its value does.
fn each(object: &Bytes, take: &mut Take<'_>) -> Result<()> {
    let place = |part: &str| {
        let start = part.as_ptr().addr() - object.as_ptr().addr();
        start..start + part.len()
    };
    let behind = |from: usize, what: u8| {
        let found = object[from..].iter().position(|b| *b == what);
        from + found.map_or(0, |at| at + 1)
    };
    let mut start = behind(0, b'{');
    for member in sonic_rs::to_object_iter(object.as_ref()) {
        let (name, value) = member.map_err(|e| json::malformed(object).caused_by(e))?;
        let value = place(value.as_raw_str());
        let end = value.end;
        take(&name, start..end, value)?;
        // Of the last member this is the end, and not used.
        start = behind(end, b',');
    }
    Ok(())
}

/// `changes`: name, name as JSON text with quotes, value.
pub(super) fn with_fields(of: &Datum, changes: &[(&str, &str, &Datum)]) -> Result<Datum> {
    let object = args::object(of)?;
    let more: usize = changes
        .iter()
        .map(|(_, name, value)| name.len() + value.weight() + 8)
        .sum();
    let mut out = Vec::with_capacity(object.len() + more);
    let mut done = vec![false; changes.len()];
    out.push(b'{');
    each(object, &mut |name, member, value| {
        let change = changes.iter().position(|(changed, ..)| *changed == name);
        if change.is_some_and(|at| done[at]) {
            return Ok(());
        }
        if out.len() > 1 {
            out.push(b',');
        }
        match change {
            Some(at) => {
                done[at] = true;
                out.extend_from_slice(&object[member.start..value.start]);
                write_json(changes[at].2, &mut out)?;
            }
            None => out.extend_from_slice(&object[member]),
        }
        Ok(())
    })?;
    for ((_, name, value), done) in changes.iter().zip(done) {
        if done {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        write_json(value, &mut out)?;
    }
    out.push(b'}');
    Ok(Datum::Json(out.into()))
}

/// A member of an object that is put into another one.
struct Added {
    /// Its name as it is written, without the quotes.
    name: Range<usize>,
    /// Is its name more than what is written?
    escaped: bool,
    member: Range<usize>,
    value: Range<usize>,
    done: bool,
}

impl Added {
    fn new(object: &Bytes, member: Range<usize>, value: Range<usize>) -> Self {
        let before = &object[member.start..value.start];
        let quote = |at: Option<usize>| member.start + at.unwrap_or(0);
        let first = quote(before.iter().position(|b| *b == b'"'));
        let last = quote(before.iter().rposition(|b| *b == b'"'));
        let name = (first + 1).min(last)..last;
        Self {
            escaped: object[name.clone()].contains(&b'\\'),
            name,
            member,
            value,
            done: false,
        }
    }

    fn is_called(&self, wanted: &str, object: &Bytes) -> bool {
        if !self.escaped {
            return object[self.name.clone()] == *wanted.as_bytes();
        }
        let quoted = &object[self.name.start - 1..=self.name.end];
        serde_json::from_slice::<String>(quoted).is_ok_and(|name| name == wanted)
    }
}

/// All members of both; where both have one, the second one's value in the first one's place. Null is an object without
/// members, unless both are.
pub(super) fn merge(first: &Datum, second: &Datum) -> Result<Datum> {
    let [object, other] = match (first.is_null(), second.is_null()) {
        (true, true) => return Ok(Datum::Null),
        (true, false) => return args::object(second).map(|_| second.clone()),
        (false, true) => return args::object(first).map(|_| first.clone()),
        (false, false) => [args::object(first)?, args::object(second)?],
    };
    let mut added: Vec<Added> = Vec::new();
    each(other, &mut |name, member, value| {
        if !added.iter().any(|known| known.is_called(name, other)) {
            added.push(Added::new(other, member, value));
        }
        Ok(())
    })?;
    let mut out = Vec::with_capacity(object.len() + other.len());
    out.push(b'{');
    each(object, &mut |name, member, value| {
        let by = (added.iter_mut()).find(|added| added.is_called(name, other));
        if by.as_ref().is_some_and(|by| by.done) {
            return Ok(());
        }
        if out.len() > 1 {
            out.push(b',');
        }
        match by {
            Some(by) => {
                by.done = true;
                out.extend_from_slice(&object[member.start..value.start]);
                out.extend_from_slice(&other[by.value.clone()]);
            }
            None => out.extend_from_slice(&object[member]),
        }
        Ok(())
    })?;
    for more in added.into_iter().filter(|added| !added.done) {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(&other[more.member]);
    }
    out.push(b'}');
    Ok(Datum::Json(out.into()))
}

pub(super) fn without(of: &Datum, names: &[String]) -> Result<Datum> {
    let object = args::object(of)?;
    let mut out = Vec::with_capacity(object.len());
    let mut dropped = false;
    out.push(b'{');
    each(object, &mut |name, member, _| {
        if names.iter().any(|dropped| dropped == name) {
            dropped = true;
            return Ok(());
        }
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(&object[member]);
        Ok(())
    })?;
    if !dropped {
        return Ok(of.clone());
    }
    out.push(b'}');
    Ok(Datum::Json(out.into()))
}

/// Of a name that occurs twice, the first counts.
pub(super) fn keys(of: &Datum) -> Result<Datum> {
    let mut found: Vec<Datum> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    each(args::object(of)?, &mut |name, _, _| {
        if seen.insert(name.to_owned()) {
            found.push(Datum::Str(Text::from(name)));
        }
        Ok(())
    })?;
    Ok(Datum::List(found.into()))
}

pub(super) fn values(of: &Datum) -> Result<Datum> {
    let object = args::object(of)?;
    let mut found = Vec::new();
    let mut seen = std::collections::HashSet::new();
    each(object, &mut |name, _, value| {
        if seen.insert(name.to_owned()) {
            found.push(json::settle(object.slice(value))?);
        }
        Ok(())
    })?;
    Ok(Datum::List(found.into()))
}

pub(super) fn has(of: &Datum, wanted: &str) -> Result<Datum> {
    let mut found = false;
    each(args::object(of)?, &mut |name, _, _| {
        found |= name == wanted;
        Ok(())
    })?;
    Ok(Datum::Bool(found))
}
