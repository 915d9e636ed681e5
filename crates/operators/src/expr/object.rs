//! Functions of objects, on their undecoded text.
//!
//! Takes an object, gives another one in which what was not named is copied byte by byte, or what can be
//! told of it. Members keep their places, new ones come last, as in a Python dict. Nothing is decoded but
//! the names.

use super::{args, json};
use bytes::Bytes;
use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;
use std::borrow::Cow;
use std::ops::Range;
use stoatflow_core::serde::write_json;
use stoatflow_core::{Datum, Result, Text};

/// Gets the name of a member, its place, and that of its value.
type Take<'a, 'o> = dyn FnMut(Cow<'o, str>, Range<usize>, Range<usize>) -> Result<()> + 'a;

/// The members of an object by their names: where each lies, and where its value does.
type Members<'o> = IndexMap<Cow<'o, str>, (Range<usize>, Range<usize>), DefaultHashBuilder>;

/// Calls `take` with the name of each member, where the member lies in the text, and where its value does.
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
        // Of the last member this is the end, and not used.
        start = behind(end, b',');
    }
    Ok(())
}

/// Of a name that occurs twice, the first counts. By name, because an object may have hundreds.
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
/// `find` gives the number of the change to a member, of `count`; `label` writes the name of one as JSON
/// text, with the colon, `value` its value.
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

/// All members of both; where both have one, the second one's value in the first one's place. Null is an
/// object without members, unless both are.
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
