//! Infers column types from JSON values.
//!
//! Takes JSON text, returns a type; merges types. Whole numbers of 64 bits are `int64`, other numbers
//! `float64`, texts stay texts (none is guessed to be a time). Never fails: text that is not JSON has no
//! type.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use stoatflow_plan::{Column, ColumnType};

/// The type of a JSON value; `None` if the text is not JSON.
pub(super) fn infer(json: &[u8]) -> Option<ColumnType> {
    let mut reader = sonic_rs::Deserializer::from_slice(json);
    let kind = Seed.deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(kind)
}

/// Merges a type into an inferred one. Parts that don't fit stay unchanged.
pub(super) fn merge(known: &mut ColumnType, more: ColumnType) {
    use ColumnType::{Float64, Int64, List, Null, Struct};
    match (known, more) {
        (_, Null) | (Float64, Int64) => {}
        (known @ Null, more) | (known @ Int64, more @ Float64) => *known = more,
        (List(known), List(more)) => merge(known, *more),
        (Struct(known), Struct(more)) => {
            for column in more {
                match known.iter_mut().find(|c| c.name == column.name) {
                    Some(own) => merge(&mut own.kind, column.kind),
                    None => known.push(column),
                }
            }
        }
        _ => {}
    }
}

/// Sets types that were still unknown, and changes nothing else.
pub(super) fn widen(known: &mut ColumnType, more: &ColumnType) {
    use ColumnType::{List, Null, Struct};
    match (known, more) {
        (known @ Null, more) => *known = more.clone(),
        (List(known), List(more)) => widen(known, more),
        (Struct(known), Struct(more)) => {
            for own in known {
                if let Some(column) = more.iter().find(|c| c.name == own.name) {
                    widen(&mut own.kind, &column.kind);
                }
            }
        }
        _ => {}
    }
}

#[derive(Clone, Copy)]
struct Seed;

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = ColumnType;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<ColumnType, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = ColumnType;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<ColumnType, E> {
        Ok(ColumnType::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<ColumnType, E> {
        Ok(ColumnType::Bool)
    }

    fn visit_i64<E>(self, _: i64) -> Result<ColumnType, E> {
        Ok(ColumnType::Int64)
    }

    fn visit_u64<E>(self, number: u64) -> Result<ColumnType, E> {
        Ok(match i64::try_from(number) {
            Ok(_) => ColumnType::Int64,
            Err(_) => ColumnType::Uint64,
        })
    }

    fn visit_f64<E>(self, _: f64) -> Result<ColumnType, E> {
        Ok(ColumnType::Float64)
    }

    fn visit_str<E>(self, _: &str) -> Result<ColumnType, E> {
        Ok(ColumnType::String)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ColumnType, A::Error> {
        let mut item = ColumnType::Null;
        while let Some(kind) = items.next_element_seed(Self)? {
            merge(&mut item, kind);
        }
        Ok(ColumnType::List(Box::new(item)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<ColumnType, A::Error> {
        let mut columns: Vec<Column> = Vec::new();
        while let Some(name) = members.next_key::<String>()? {
            let kind = members.next_value_seed(Self)?;
            match columns.iter_mut().find(|c| c.name == name) {
                // As everywhere else: the last of duplicate members counts.
                Some(known) => known.kind = kind,
                None => columns.push(Column { name, kind }),
            }
        }
        Ok(ColumnType::Struct(columns))
    }
}
