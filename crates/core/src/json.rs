//! Checks that JSON from outside is well-formed, and that each member occurs once.
//!
//! For a repeated member the last value counts, as in Jackson and Python's `json.loads`: such a text is
//! rewritten with that value in the place of the first. So all code after a source may look for the
//! first occurrence only. Other text is not changed.

use crate::{Error, Result};
use ::serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

mod find;
#[cfg(test)]
mod fuzz;
mod scan;
#[cfg(test)]
mod tests;

pub use find::{MemberPlace, find, pick};

/// The deepest nesting allowed in a text with a repeated member: a recursive function rewrites it.
const MAX_DEPTH: usize = 1_000;

/// The text, rewritten if a member occurs twice.
///
/// # Errors
/// `Serde` with the place where it is not well-formed.
pub fn read(bytes: Bytes) -> Result<Bytes> {
    let mut names = Names::new();
    if !is_utf8(&bytes) || !scan::is_well_formed(&bytes, &mut names) {
        // Finds the position for the error.
        return check_bytes(&bytes).map(|()| bytes);
    }
    if !names.perhaps_twice {
        return Ok(bytes);
    }
    unique(bytes)
}

#[cold]
fn unique(bytes: Bytes) -> Result<Bytes> {
    let text = text(&bytes)?;
    if depth(text) > MAX_DEPTH {
        return Err(malformed(
            text,
            &"a member occurs twice, too deep to be told apart",
        ));
    }
    let mut out = String::with_capacity(text.len());
    write_unique(text, &mut out).map_err(|e| malformed(text, &e))?;
    Ok(if out.len() == text.len() {
        bytes
    } else {
        out.into()
    })
}

/// Whether it is UTF-8. For short texts the check for ASCII is much cheaper, so it comes first.
#[must_use]
pub fn is_utf8(text: &[u8]) -> bool {
    const SHORT: usize = 64;
    text.len() < SHORT && text.is_ascii() || simdutf8::basic::from_utf8(text).is_ok()
}

/// The deepest nesting; brackets inside of strings count too.
fn depth(text: &str) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'{' | b'[' => now += 1,
            b'}' | b']' => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}

/// Checks that the whole text is JSON. Allocates no tree, and doesn't recurse however deep the text is.
///
/// # Errors
/// `Serde` with the place where it is not.
pub fn check_bytes(bytes: &[u8]) -> Result<()> {
    let text = text(bytes)?;
    let valid = serde_json::from_str::<IgnoredAny>(text);
    valid.map(drop).map_err(|e| malformed(text, &e))
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| malformed(&String::from_utf8_lossy(bytes), &e))
}

#[cold]
fn malformed(text: &str, why: &dyn fmt::Display) -> Error {
    let start: String = text.chars().take(40).collect();
    Error::serde(format!(
        "the bytes are not well-formed JSON ({why}): {start:?}"
    ))
    .hint("fix the producer, give the source a handler (on_error=), or read the topic with Serdes.bytes() or Serdes.string()")
}

/// Slots for the fingerprints of a text with few members; at most half of them are used.
const FEW: usize = 32;

/// Fingerprints of the members of all objects of a text.
struct Names {
    few: [u64; FEW],
    /// Replaces `few` once there are more.
    many: Vec<u64>,
    count: usize,
    objects: u64,
    /// Two fingerprints are equal: a member occurs twice (or, very rarely, there was a collision).
    perhaps_twice: bool,
}

impl Names {
    const fn new() -> Self {
        Self {
            few: [0; FEW],
            many: Vec::new(),
            count: 0,
            objects: 0,
            perhaps_twice: false,
        }
    }

    /// The number of the next object.
    const fn object(&mut self) -> u64 {
        self.objects += 1;
        self.objects
    }

    fn add(&mut self, object: u64, name: &[u8]) {
        let print = fingerprint(object, name);
        if self.count * 2 >= self.places().len() {
            let old = self.places().to_vec();
            self.many = vec![0; old.len() * 4];
            for print in old.into_iter().filter(|print| *print != 0) {
                put(&mut self.many, print);
            }
        }
        let new = put(self.places(), print);
        self.count += usize::from(new);
        self.perhaps_twice |= !new;
    }

    fn places(&mut self) -> &mut [u64] {
        if self.many.is_empty() {
            &mut self.few
        } else {
            &mut self.many
        }
    }
}

/// Inserts a fingerprint; false if it is already there. The number of slots is a power of two.
fn put(places: &mut [u64], print: u64) -> bool {
    let last = places.len() - 1;
    // The highest bits are mixed best.
    let mut at = usize::try_from(print >> 32).unwrap_or(0) & last;
    loop {
        match places[at] {
            0 => {
                places[at] = print;
                return true;
            }
            found if found == print => return false,
            _ => at = (at + 1) & last,
        }
    }
}

/// A hash of an object's number and a member's name. Never 0.
fn fingerprint(object: u64, name: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, part: u64| (hash ^ part).wrapping_mul(ODD).rotate_left(29);
    let mut hash = mix(object << 32, name.len() as u64);
    for part in name.chunks_exact(8) {
        hash = mix(hash, as_number(part));
    }
    // The last eight bytes, which may overlap those before; of a shorter name all. Nothing is copied.
    let last = &name[name.len().saturating_sub(8)..];
    mix(mix(hash, as_number(last)), ODD) | 1
}

/// Up to eight bytes as a number; different bytes of the same length give different numbers.
fn as_number(bytes: &[u8]) -> u64 {
    let (first4, last4) = (bytes.first_chunk(), bytes.last_chunk());
    if let Some(eight) = bytes.first_chunk() {
        u64::from_le_bytes(*eight)
    } else if let (Some(first), Some(last)) = (first4, last4) {
        // The two halves of four to seven bytes overlap in the middle.
        u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
    } else if let [first, .., last] = bytes {
        u64::from(*first) << 16 | u64::from(bytes[bytes.len() / 2]) << 8 | u64::from(*last)
    } else {
        bytes.first().map_or(0, |only| u64::from(*only))
    }
}

/// Members in order, each with its last value in the place of its first.
struct Unique<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> ::serde::Deserialize<'de> for Unique<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> std::result::Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Unique<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut given: A,
            ) -> std::result::Result<Self::Value, A::Error> {
                let mut found: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                let mut places: HashMap<String, usize> = HashMap::new();
                while let Some(name) = given.next_key::<String>()? {
                    let value = given.next_value()?;
                    if let Some(at) = places.get(&name) {
                        found[*at].1 = value;
                    } else {
                        places.insert(name.clone(), found.len());
                        found.push((name.into(), value));
                    }
                }
                Ok(Unique(found))
            }
        }
        reader.deserialize_map(Members)
    }
}

/// Writes each member once; values keep their spelling. Recursive, so only for text with limited
/// nesting.
fn write_unique(text: &str, out: &mut String) -> serde_json::Result<()> {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    let separate = |out: &mut String, at: usize| out.push_str(if at == 0 { "" } else { "," });
    match text.as_bytes().first() {
        Some(b'{') => {
            out.push('{');
            for (at, (name, value)) in serde_json::from_str::<Unique<'_>>(text)?
                .0
                .iter()
                .enumerate()
            {
                separate(out, at);
                out.push_str(&serde_json::to_string(name)?);
                out.push(':');
                write_unique(value.get(), out)?;
            }
            out.push('}');
        }
        Some(b'[') => {
            out.push('[');
            for (at, item) in serde_json::from_str::<Vec<&RawValue>>(text)?
                .iter()
                .enumerate()
            {
                separate(out, at);
                write_unique(item.get(), out)?;
            }
            out.push(']');
        }
        Some(_) => out.push_str(text),
        None => return Err(serde_json::Error::custom("nothing")),
    }
    Ok(())
}
