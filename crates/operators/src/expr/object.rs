//! Functions of objects, on their undecoded text.
//!
//! Takes an object, returns another one in which all members that were not named are copied byte by
//! byte, or its names and values. Members keep their places, new ones come last, as in a Python dict.
//! Only names are decoded.

use super::{args, json};
use bytes::Bytes;
use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;
use std::borrow::Cow;
use std::ops::Range;
use stoatflow_core::serde::write_json;
use stoatflow_core::{Datum, Result, Text};

/// Gets the name of a member, the member's place in the text, and its value's place.
type Take<'a, 'o> = dyn FnMut(Cow<'o, str>, Range<usize>, Range<usize>) -> Result<()> + 'a;

/// The members of an object by name: the place of the member in the text, and that of its value.
type Members<'o> = IndexMap<Cow<'o, str>, (Range<usize>, Range<usize>), DefaultHashBuilder>;

/// Calls `take` with the name of each member, the member's place in the text, and its value's place.
fn each<'o>(object: &'o Bytes, take: &mut Take<'_, 'o>) -> Result<()> {
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
        take(name, start..end, value)?;
        // After the last member this is the end of the text, which is not used.
        start = behind(end, b',');
    }
    Ok(())
}

/// The members by name, because an object may have hundreds. If a name occurs twice, the first counts.
fn members(object: &Bytes) -> Result<Members<'_>> {
    let mut found = Members::default();
    each(object, &mut |name, member, value| {
        found.entry(name).or_insert((member, value));
        Ok(())
    })?;
    Ok(found)
}

/// The object with other values for some members; new members come last.
///
/// `find` returns the number of the change to a member, below `count`; `label` writes the name of a
/// changed member as JSON text, with the colon, and `value` its value.
fn changed(
    object: &Bytes,
    (count, weight): (usize, usize),
    find: impl Fn(&str) -> Option<usize>,
    label: impl Fn(usize, &mut Vec<u8>),
    value: impl Fn(usize, &mut Vec<u8>) -> Result<()>,
) -> Result<Datum> {
    let mut out = Vec::with_capacity(object.len() + weight);
    let mut done = vec![false; count];
    out.push(b'{');
    each(object, &mut |name, member, place| {
        let change = find(&name);
        if change.is_some_and(|at| done[at]) {
            return Ok(());
        }
        if out.len() > 1 {
            out.push(b',');
        }
        let Some(at) = change else {
            out.extend_from_slice(&object[member]);
            return Ok(());
        };
        done[at] = true;
        out.extend_from_slice(&object[member.start..place.start]);
        value(at, &mut out)
    })?;
    for at in (0..count).filter(|at| !done[*at]) {
        if out.len() > 1 {
            out.push(b',');
        }
        label(at, &mut out);
        value(at, &mut out)?;
    }
    out.push(b'}');
    Ok(Datum::Json(out.into()))
}

/// `changes`: name, name as JSON text with quotes, value.
pub(super) fn with_fields(of: &Datum, changes: &[(&str, &str, &Datum)]) -> Result<Datum> {
    let weight = |(_, name, value): &(&str, &str, &Datum)| name.len() + value.weight() + 8;
    changed(
        args::object(of)?,
        (changes.len(), changes.iter().map(weight).sum()),
        |name| changes.iter().position(|(known, ..)| *known == name),
        |at, out| {
            out.extend_from_slice(changes[at].1.as_bytes());
            out.push(b':');
        },
        |at, out| write_json(changes[at].2, out),
    )
}

/// All members of both; a member of both keeps the first one's place and has the second one's value.
/// Null counts as an object without members, unless both are null.
pub(super) fn merge(first: &Datum, second: &Datum) -> Result<Datum> {
    if first.is_null() || second.is_null() {
        let one = if first.is_null() { second } else { first };
        if !one.is_null() {
            args::object(one)?;
        }
        return Ok(one.clone());
    }
    let (object, other) = (args::object(first)?, args::object(second)?);
    let more = members(other)?;
    changed(
        object,
        (more.len(), other.len()),
        |name| more.get_index_of(name),
        |at, out| out.extend_from_slice(&other[more[at].0.start..more[at].1.start]),
        |at, out| {
            out.extend_from_slice(&other[more[at].1.clone()]);
            Ok(())
        },
    )
}

pub(super) fn without(of: &Datum, names: &[String]) -> Result<Datum> {
    let object = args::object(of)?;
    let mut out = Vec::with_capacity(object.len());
    let mut dropped = false;
    out.push(b'{');
    each(object, &mut |name, member, _| {
        if names.iter().any(|dropped| **dropped == *name) {
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

pub(super) fn keys(of: &Datum) -> Result<Datum> {
    let names = members(args::object(of)?)?.into_keys();
    let found: Vec<Datum> = names.map(|name| Datum::Str(Text::from(&*name))).collect();
    Ok(Datum::List(found.into()))
}

pub(super) fn values(of: &Datum) -> Result<Datum> {
    let object = args::object(of)?;
    let places = members(object)?.into_values();
    let found: Vec<Datum> = places
        .map(|(_, value)| json::settle(object.slice(value)))
        .collect::<Result<_>>()?;
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
