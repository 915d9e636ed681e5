//! The entries by which the indexes of a store find its rows.
//!
//! If the indexes read only members of JSON objects, these are picked from a row in one pass, and all
//! fields are computed from the picked part instead of searching the whole row once for each field.
//!
//! Takes the bytes of a row, returns for each index the bytes of its fields in their order
//! ([`stoatflow_core::ordered`]), and what a covering index keeps with them. A field that can't be
//! computed is placed among values without an order, and the caller learns about it. Never touches a
//! store.

#[cfg(test)]
mod tests;

use crate::ForeignCode;
use crate::expr::Compiled;
use std::collections::{BTreeMap, BTreeSet};
use stoatflow_core::json::{check_bytes, pick};
use stoatflow_core::serde::write_json;
use stoatflow_core::{Bytes, Datum, PlainJson, Record, Result, Serde, Timestamp, ordered};
use stoatflow_plan::{Expression, IndexField, IndexSpec, Store};

/// Shorter values are searched as they are.
const MIN_PICK_BYTES: usize = 256;

/// Decodes rows for the expressions of indexes.
#[derive(Debug)]
pub struct RowReader {
    key: Serde,
    value: Serde,
    /// The members of a value that the indexes read; empty if they read more than members.
    members: Vec<String>,
}

impl RowReader {
    /// A reader for the rows of a store and its indexes.
    ///
    /// # Errors
    /// `Topology` for an unknown serde.
    pub fn new(store: &Store, foreign: &ForeignCode) -> Result<Self> {
        let value = foreign.serde(&store.value)?;
        let fields = store.indexes.iter();
        let fields = fields.flat_map(|index| index.fields.iter().chain(&index.storing));
        let mut members = BTreeSet::new();
        let only_members = fields
            .map(|field| &field.expr)
            .all(|expr| add_members(expr, &mut members));
        if !only_members || !matches!(value, Serde::Json) {
            members.clear();
        }
        Ok(Self {
            key: foreign.serde(&store.key)?,
            value,
            members: members.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Appends what indexes read of the bytes of a value, or all of it.
    pub fn append_part(&self, value: &[u8], out: &mut Vec<u8>) {
        if self.members.is_empty() || !pick(value, &self.members, out) {
            out.extend_from_slice(value);
        }
    }

    /// What indexes read of the bytes of a value, or all of it.
    fn part(&self, value: Bytes) -> Bytes {
        let mut part = Vec::new();
        if self.members.is_empty()
            || value.len() < MIN_PICK_BYTES
            || !pick(&value, &self.members, &mut part)
        {
            return value;
        }
        part.into()
    }

    /// The serde of the keys.
    #[must_use]
    pub const fn key(&self) -> &Serde {
        &self.key
    }

    /// The record of a row, from the bytes of key and value. Its value may lack what indexes don't read.
    ///
    /// # Errors
    /// `Serde` if they can't be read.
    pub fn record(&self, key: &Bytes, value: Bytes, timestamp: Timestamp) -> Result<Record> {
        Ok(Record {
            key: self.key.decode(Some(key.clone()))?,
            value: self.value.decode(Some(self.part(value)))?,
            timestamp,
            ..Record::default()
        })
    }

    /// The record of a value in memory. A foreign value is encoded and decoded, to look like a stored
    /// one. The value may lack what indexes don't read.
    ///
    /// # Errors
    /// `Serde` if it can't be written or read.
    pub fn held(&self, key: &Bytes, value: &Datum, timestamp: Timestamp) -> Result<Record> {
        let value = match value {
            Datum::Opaque(_) => self.value.decode(self.value.encode(value)?)?,
            plain => plain.clone(),
        };
        let value = match value {
            Datum::Json(text) => Datum::Json(self.part(text)),
            other => other,
        };
        Ok(Record {
            key: self.key.decode(Some(key.clone()))?,
            value,
            timestamp,
            ..Record::default()
        })
    }
}

/// Adds the members of the value that an expression reads; false if it reads more of the value than members.
fn add_members<'e>(expr: &'e Expression, members: &mut BTreeSet<&'e str>) -> bool {
    match expr {
        Expression::Get { args, name } if matches!(args[0].bare(), Expression::Value) => {
            members.insert(name);
            true
        }
        Expression::Value
        | Expression::Old
        | Expression::New
        | Expression::Left
        | Expression::Right => false,
        other => other.args().iter().all(|arg| add_members(arg, members)),
    }
}

/// The entries of one row in one index, without the row's key, and their values.
pub type Entries = BTreeMap<Vec<u8>, Bytes>;

/// The fields that an index reads from a row.
#[derive(Debug)]
pub struct IndexFields {
    fields: Vec<Compiled>,
    each: bool,
    /// What a covering index keeps, in the order of [`IndexSpec::covered`].
    covered: Vec<Compiled>,
}

impl IndexFields {
    /// The fields of an index.
    ///
    /// # Errors
    /// `Topology` for an expression that can never work.
    pub fn new(index: &IndexSpec) -> Result<Self> {
        let fields = index.fields.iter();
        let fields = fields.map(|field| Compiled::new(&field.expr));
        Ok(Self {
            fields: fields.collect::<Result<_>>()?,
            each: index.each,
            covered: index.covered().map(Compiled::new).collect::<Result<_>>()?,
        })
    }

    /// The number of values that an entry begins with.
    #[must_use]
    pub fn width(&self) -> usize {
        self.fields.len()
    }

    /// The entries that lead to a row, and whether all of its fields could be computed.
    #[must_use]
    pub fn entries(&self, row: &Result<Record>) -> (Entries, bool) {
        let mut found = Entries::new();
        let whole = self.each_entry(row, &mut Vec::new(), |entry, kept| {
            found.insert(entry.to_vec(), kept.clone());
        });
        (found, whole)
    }

    /// Passes the entries that lead to a row to `take`, in no order, and one of them perhaps repeatedly.
    /// Returns whether all of its fields could be computed. `bytes` is used for the entries.
    pub fn each_entry(
        &self,
        row: &Result<Record>,
        bytes: &mut Vec<u8>,
        mut take: impl FnMut(&[u8], &Bytes),
    ) -> bool {
        let kept = self.kept(row);
        let row = row.as_ref().ok();
        if self.each {
            let elements = row.map(|row| self.fields[0].elements(row));
            let Some(Ok(elements)) = elements else {
                return false;
            };
            for element in elements.unwrap_or_default() {
                bytes.clear();
                // A value without an order is found by no query.
                if ordered::write(bytes, &element) {
                    take(bytes, &kept);
                }
            }
            return true;
        }
        let mut whole = true;
        bytes.clear();
        for field in &self.fields {
            match row.map(|row| field.compared(row)) {
                Some(Ok(value)) => {
                    ordered::write(bytes, &value);
                }
                Some(Err(_)) | None => {
                    bytes.push(ordered::OTHER);
                    whole = false;
                }
            }
        }
        take(bytes, &kept);
        whole
    }

    /// The value of an entry: a JSON array of what a covering index keeps. Empty if the index keeps
    /// nothing, or if a value has no exact JSON form or can't be computed; then queries read the row.
    fn kept(&self, row: &Result<Record>) -> Bytes {
        if self.covered.is_empty() {
            return Bytes::new();
        }
        row.as_ref()
            .ok()
            .and_then(|row| {
                let mut json = vec![b'['];
                for (at, expression) in self.covered.iter().enumerate() {
                    if at > 0 {
                        json.push(b',');
                    }
                    let value = expression.eval(row).ok().filter(is_exact_in_json)?;
                    write_json(&value, &mut json).ok()?;
                }
                json.push(b']');
                Some(json.into())
            })
            .unwrap_or_default()
    }
}

/// True if the JSON text of a value holds all of it.
fn is_exact_in_json(value: &Datum) -> bool {
    match value {
        Datum::Null | Datum::Bool(_) | Datum::Int(_) | Datum::Str(_) => true,
        Datum::Float(number) => number.is_finite(),
        Datum::Json(text) => check_bytes(text).is_ok(),
        Datum::List(items) => items.iter().all(is_exact_in_json),
        other => other
            .opaque::<PlainJson>()
            .is_some_and(|json| check_bytes(&json.0).is_ok()),
    }
}

/// True if a unique index keeps these values apart. Null, and values without an order, may occur often.
#[must_use]
pub fn is_kept_apart(entry: &[u8]) -> bool {
    let mut rest = entry;
    while let Some(first) = rest.first() {
        if matches!(*first, ordered::NULL | ordered::OTHER) {
            return false;
        }
        let Some(end) = ordered::end(rest) else {
            return false;
        };
        rest = &rest[end..];
    }
    true
}

/// Splits an entry of an index into the bytes of its fields and the row's key.
#[must_use]
pub fn split_entry(entry: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    for _ in 0..width {
        at += ordered::end(entry.get(at..)?)?;
    }
    Some(entry.split_at(at))
}

/// A number that changes with the definition of an index.
#[must_use]
pub fn fingerprint(index: &IndexSpec, store: &Store) -> u64 {
    let bare = |fields: &[IndexField]| -> Vec<Expression> {
        let fields = fields.iter();
        fields.map(|field| field.expr.without_places()).collect()
    };
    let serdes = (&store.key, &store.value);
    let fields = bare(&index.fields);
    let mut made = serde_json::to_vec(&(1, &fields, index.each, index.unique, serdes));
    if let (Ok(made), false) = (&mut made, index.storing.is_empty()) {
        made.extend(serde_json::to_vec(&bare(&index.storing)).unwrap_or_default());
    }
    // FNV-1a: it must be the same in every version.
    made.unwrap_or_default()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
