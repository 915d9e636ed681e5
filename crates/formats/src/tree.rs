//! JSON text as lists, [`Fields`] and scalars, to be encoded by a schema.
//!
//! Takes text, returns datums. If a member occurs twice, the first one counts, as when fields are read
//! in place. An integer beyond 64 bits becomes its digits, which a decimal accepts.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use stoatflow_core::{Datum, Error, Fields, Result, Text};

/// The datum of JSON text.
pub(crate) fn tree(json: &[u8]) -> Result<Datum> {
    match serde_json::from_slice::<Tree>(json) {
        Ok(Tree(datum)) => Ok(datum),
        Err(e) => {
            let start = String::from_utf8_lossy(&json[..json.len().min(40)]).into_owned();
            Err(
                Error::serde(format!("the value is not well-formed JSON: {start:?}"))
                    .caused_by(e)
                    .hint("fix the producer, or read the topic with Serdes.bytes() or Serdes.string()"),
            )
        }
    }
}

struct Tree(Datum);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visit)
    }
}

struct Visit;

impl<'de> Visitor<'de> for Visit {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree(Datum::Null))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Tree, E> {
        Ok(Tree(Datum::Bool(truth)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree(Datum::Int(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree(i64::try_from(number).map_or_else(
            |_| Datum::text(number.to_string()),
            Datum::Int,
        )))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree(Datum::Float(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree(Datum::text(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut found = Vec::new();
        while let Some(Tree(item)) = items.next_element()? {
            found.push(item);
        }
        Ok(Tree(Datum::List(found.into())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut found: Vec<(Text, Datum)> = Vec::new();
        while let Some((name, Tree(value))) = members.next_entry::<String, Tree>()? {
            found.push((Text::from(name), value));
        }
        Ok(Tree(Fields(found).datum()))
    }
}
