//! Reads JSON text directly into columns.
//!
//! Takes the text of one value and its columns. An error tells which field holds what; the caller
//! truncates what was pushed before it. The last of duplicate members counts.

use super::column_builder::{Cells, Column, Members};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::cell::RefCell;
use std::fmt;

/// Why a value doesn't fit its column.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// It is not JSON.
    Malformed(String),
    /// `the field 'a.b' holds text where int64 is expected`.
    Wrong(String),
    /// A member without a column.
    New(String),
    /// The column has no type yet.
    Untyped(String),
}

type FirstMisfit = RefCell<Option<Misfit>>;

/// Reads an object into its columns. `strict`: a member without a column is a misfit.
pub(super) fn object(json: &[u8], members: &mut Members, strict: bool) -> Result<(), Misfit> {
    let misfit = FirstMisfit::default();
    let seed = Object {
        members,
        path: None,
        strict,
        misfit: &misfit,
    };
    let mut reader = sonic_rs::Deserializer::from_slice(json);
    let read = seed.deserialize(&mut reader);
    said(read.and_then(|()| reader.end()), misfit)
}

/// Reads any value into one column.
pub(super) fn value(json: &[u8], column: &mut Column, strict: bool) -> Result<(), Misfit> {
    let misfit = FirstMisfit::default();
    let seed = Cell {
        column,
        strict,
        misfit: &misfit,
    };
    let mut reader = sonic_rs::Deserializer::from_slice(json);
    let read = seed.deserialize(&mut reader);
    said(read.and_then(|()| reader.end()), misfit)
}

fn said(read: Result<(), sonic_rs::Error>, misfit: FirstMisfit) -> Result<(), Misfit> {
    read.map_err(|e| {
        let malformed = || Misfit::Malformed(e.to_string().lines().next().unwrap_or("").into());
        misfit.into_inner().unwrap_or_else(malformed)
    })
}

/// `the field 'a' holds text where int64 is expected`.
pub(super) fn wrong(column: &Column, found: &str) -> Misfit {
    match &column.cells {
        Cells::Null(_) => Misfit::Untyped(column.path.to_string()),
        _ => Misfit::Wrong(format!(
            "the field '{}' holds {found} where {} is expected",
            column.path,
            column.words()
        )),
    }
}

struct Cell<'a> {
    column: &'a mut Column,
    strict: bool,
    misfit: &'a FirstMisfit,
}

impl Cell<'_> {
    fn held<E: serde::de::Error>(
        self,
        held: bool,
        found: impl FnOnce() -> String,
    ) -> Result<(), E> {
        if held {
            return Ok(());
        }
        *self.misfit.borrow_mut() = Some(wrong(self.column, &found()));
        Err(E::custom("a value doesn't fit"))
    }
}

impl<'de> DeserializeSeed<'de> for Cell<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Cell<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.column.push_null();
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        let held = self.column.push_bool(value);
        self.held(held, || value.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        let held = self.column.push_int(value);
        self.held(held, || format!("the number {value}"))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        let held = self.column.push_uint(value);
        self.held(held, || format!("the number {value}"))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        let held = self.column.push_float(value);
        self.held(held, || format!("the number {value:?}"))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        let held = self.column.push_text(value);
        self.held(held, || {
            let short: String = value.chars().take(40).collect();
            format!("the text {short:?}")
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let (strict, misfit) = (self.strict, self.misfit);
        let inner = match &mut self.column.cells {
            Cells::List(_, inner, _) | Cells::LargeList(_, inner, _) => inner,
            _ => return self.held(false, || "a list".into()),
        };
        loop {
            let item = Cell {
                column: &mut *inner,
                strict,
                misfit,
            };
            if items.next_element_seed(item)?.is_none() {
                break;
            }
        }
        let held = self.column.end_list();
        self.held(held, || "more elements than Arrow can count".into())
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<(), A::Error> {
        let path = std::sync::Arc::clone(&self.column.path);
        let Cells::Struct(own) = &mut self.column.cells else {
            return self.held(false, || "an object".into());
        };
        Object {
            members: own,
            path: Some(&path),
            strict: self.strict,
            misfit: self.misfit,
        }
        .visit_map(members)?;
        self.column.seen();
        Ok(())
    }
}

struct Object<'a> {
    members: &'a mut Members,
    path: Option<&'a str>,
    strict: bool,
    misfit: &'a FirstMisfit,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.members.end_row();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut given: A) -> Result<(), A::Error> {
        let (strict, misfit) = (self.strict, self.misfit);
        let row = self.members.rows();
        let mut likely = 0;
        loop {
            let name = Name {
                members: self.members,
                likely,
                path: self.path,
                strict,
                misfit,
            };
            let Some(found) = given.next_key_seed(name)? else {
                break;
            };
            let Some(at) = found else {
                given.next_value::<IgnoredAny>()?;
                continue;
            };
            likely = at + 1;
            let column = &mut self.members.columns[at];
            if column.len() > row {
                column.truncate(row);
            }
            given.next_value_seed(Cell {
                column,
                strict,
                misfit,
            })?;
        }
        self.members.end_row();
        Ok(())
    }
}

/// Deserializes the name of a member to its index.
struct Name<'a> {
    members: &'a Members,
    likely: usize,
    path: Option<&'a str>,
    strict: bool,
    misfit: &'a FirstMisfit,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        let found = self.members.find(name, self.likely);
        if found.is_none() && self.strict {
            *self.misfit.borrow_mut() = Some(Misfit::New(match self.path {
                None => name.into(),
                Some(path) => format!("{path}.{name}"),
            }));
            return Err(E::custom("a member is new"));
        }
        Ok(found)
    }
}
