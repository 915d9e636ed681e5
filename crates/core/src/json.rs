//! JSON that comes from outside: is it well-formed, and does each member occur once?
//!
//! Takes text, gives it back as it came. Of a member that occurs twice the last one counts, as in Jackson and Python's
//! `json.loads`: such a text is written anew with that one, in the place of the first. So everything behind a source may
//! look for the first occurrence. Never changes anything else.

use crate::{Error, Result};
use ::serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

#[cfg(test)]
mod tests;

/// The text, in which no member occurs twice.
///
/// # Errors
/// `Serde` with the place where it is not well-formed.
pub fn read(bytes: &Bytes) -> Result<Bytes> {
    let text = text(bytes)?;
    let mut names = Names::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    let looked = Any(&mut names).deserialize(&mut reader);
    if looked.and_then(|()| reader.end()).is_err() {
        // Too deep or a number beyond all doubles, perhaps: then members are not looked at.
        return check_bytes(bytes).map(|()| bytes.clone());
    }
    if !names.perhaps_twice {
        return Ok(bytes.clone());
    }
    let mut out = String::with_capacity(text.len());
    let written = write_unique(text, &mut out);
    written.map_err(|e| malformed(text, &e))?;
    Ok(if out.len() == text.len() {
        bytes.clone()
    } else {
        out.into()
    })
}

/// Is it JSON, from the beginning to the end? Builds nothing, and however deep it is, it doesn't call itself.
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

/// Places for the fingerprints of a text with few members; half of them are used.
const FEW: usize = 32;

/// Fingerprints of the members of all objects of a text.
struct Names {
    few: [u64; FEW],
    /// In place of `few`, once there are more.
    many: Vec<u64>,
    count: usize,
    objects: u64,
    /// Two fingerprints are equal: a member occurs twice, or very seldom none does.
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

    fn add(&mut self, object: u64, name: &str) {
        let print = fingerprint(object, name.as_bytes());
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

/// Notes a fingerprint; false if it is there. The number of places is a power of two.
fn put(places: &mut [u64], print: u64) -> bool {
    let last = places.len() - 1;
    // The highest bits are the best mixed.
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

/// Never 0.
fn fingerprint(object: u64, name: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, part: u64| (hash ^ part).wrapping_mul(ODD).rotate_left(29);
    let mut hash = mix(object, name.len() as u64);
    let mut parts = name.chunks_exact(8);
    for part in &mut parts {
        hash = mix(
            hash,
            u64::from_le_bytes(part.try_into().unwrap_or_default()),
        );
    }
    let mut last = [0; 8];
    last[..parts.remainder().len()].copy_from_slice(parts.remainder());
    mix(mix(hash, u64::from_le_bytes(last)), ODD) | 1
}

/// A value whose members are noted.
struct Any<'a>(&'a mut Names);

impl<'de> DeserializeSeed<'de> for Any<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> std::result::Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> std::result::Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<(), A::Error> {
        while items.next_element_seed(Any(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> std::result::Result<(), A::Error> {
        self.0.objects += 1;
        let object = self.0.objects;
        while members.next_key_seed(Name(self.0, object))?.is_some() {
            members.next_value_seed(Any(self.0))?;
        }
        Ok(())
    }
}

/// A member's name.
struct Name<'a>(&'a mut Names, u64);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> std::result::Result<(), D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> std::result::Result<(), E> {
        self.0.add(self.1, name);
        Ok(())
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

/// Values keep their spelling. Only called for what [`Any`] has found shallow enough to call itself.
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
