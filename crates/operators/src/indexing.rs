//! The entries by which the indexes of a store find its rows.
//!
//! Takes the bytes of a row, returns for each index the bytes of its fields in their order
//! ([`stoatflow_core::ordered`]), and what a covering index keeps with them. A field that can't be
//! computed is placed among values without an order, and the caller learns about it. Never touches a
//! store.

#[cfg(test)]
mod tests;

use crate::ForeignCode;
use crate::expr::Compiled;
use std::collections::BTreeMap;
use stoatflow_core::json::check_bytes;
use stoatflow_core::serde::write_json;
use stoatflow_core::{Bytes, Datum, PlainJson, Record, Result, Serde, Timestamp, ordered};
use stoatflow_plan::{Expression, IndexField, IndexSpec, Store};

/// Decodes rows for expressions.
#[derive(Debug)]
pub struct RowReader {
    key: Serde,
    value: Serde,
}

impl RowReader {
    /// A reader for the rows of a store.
    ///
    /// # Errors
    /// `Topology` for an unknown serde.
    pub fn new(store: &Store, foreign: &ForeignCode) -> Result<Self> {
        Ok(Self {
            key: foreign.serde(&store.key)?,
            value: foreign.serde(&store.value)?,
        })
    }

    /// The serde of the keys.
    #[must_use]
    pub const fn key(&self) -> &Serde {
        &self.key
    }

    /// The record of a row, from the bytes of key and value.
    ///
    /// # Errors
    /// `Serde` if they can't be read.
    pub fn record(&self, key: &Bytes, value: Bytes, timestamp: Timestamp) -> Result<Record> {
        Ok(Record {
            key: self.key.decode(Some(key.clone()))?,
            value: self.value.decode(Some(value))?,
            timestamp,
            ..Record::default()
        })
    }

    /// The record of a value in memory. A foreign value is encoded and decoded, to look like a stored
    /// one.
    ///
    /// # Errors
    /// `Serde` if it can't be written or read.
    pub fn held(&self, key: &Bytes, value: &Datum, timestamp: Timestamp) -> Result<Record> {
        let value = match value {
            Datum::Opaque(_) => self.value.decode(self.value.encode(value)?)?,
            plain => plain.clone(),
        };
        Ok(Record {
            key: self.key.decode(Some(key.clone()))?,
            value,
            timestamp,
            ..Record::default()
        })
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
        let mut whole = true;
        let mut found = Entries::new();
        let kept = self.kept(row);
        if self.each {
            let elements = row.as_ref().ok().map(|row| self.fields[0].elements(row));
            match elements {
                Some(Ok(elements)) => {
                    for element in elements.unwrap_or_default() {
                        let mut bytes = Vec::new();
                        // A value without an order is found by no query.
                        if ordered::write(&mut bytes, &element) {
                            found.insert(bytes, kept.clone());
                        }
                    }
                }
                Some(Err(_)) | None => whole = false,
            }
            return (found, whole);
        }
        let mut bytes = Vec::new();
        for field in &self.fields {
            match row.as_ref().ok().map(|row| field.compared(row)) {
                Some(Ok(value)) => {
                    ordered::write(&mut bytes, &value);
                }
                Some(Err(_)) | None => {
                    bytes.push(ordered::OTHER);
                    whole = false;
                }
            }
        }
        found.insert(bytes, kept);
        (found, whole)
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
