//! The columns of a batch: specified by the user, or learned from values.
//!
//! Takes the plan's columns and records, returns a [`Layout`]. All lanes of a node share one, so that
//! batches look the same wherever they are made. What is known doesn't change: a column's type changes
//! only while all its values were null. A reader that can look at all values beforehand (`survey`) gets
//! a layout that fits all of them. Never decides about a record that doesn't fit: the reader does.

use super::columns::{column, data_type, field, plain_type, timestamp};
use super::infer::{merge, widen};
use super::schema_values::type_of;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::sync::Arc;
use stoatflow_core::serde::json_bytes;
use stoatflow_core::{Bytes, Datum, Record, Result};
use stoatflow_plan::columns::ORIGIN;
use stoatflow_plan::{Column, ColumnType};

/// The column of a value that is not an object.
pub(crate) const VALUE: &str = "value";
/// The record's key.
pub(super) const KEY: &str = "_key";
/// The record's time.
pub(super) const TIMESTAMP: &str = "_timestamp";
/// The window of a windowed key.
pub(super) const WINDOW: [&str; 2] = ["_window_start", "_window_end"];

/// Kind of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Unknown: nothing but nulls so far.
    Unknown,
    /// JSON objects: a column for each member.
    Objects,
    /// Anything else: one column.
    Plain,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layout {
    pub columns: Vec<Column>,
    pub shape: Shape,
    /// True if the user specified the columns. Other members are not read then.
    pub given: bool,
    pub key: ColumnType,
    /// True if keys are windowed.
    pub windowed: bool,
    /// True if each row includes topic, partition and offset.
    pub origins: bool,
    /// True if the value is a column of its encoded bytes (Avro or Protobuf).
    pub encoded: bool,
}

impl Layout {
    pub fn new(schema: Option<&[Column]>) -> Self {
        let all = schema.unwrap_or_default();
        let (key, columns): (Vec<_>, Vec<_>) = all.iter().cloned().partition(|c| c.name == KEY);
        // A single column `value` may be that of plain values, or the only member of objects.
        let plain = matches!(columns.as_slice(), [only] if only.name == VALUE);
        // A single `value` column of type binary means the whole encoded value, whatever its members
        // are.
        let encoded = plain && columns[0].kind == ColumnType::Binary;
        Self {
            shape: if encoded {
                Shape::Plain
            } else if columns.is_empty() || plain {
                Shape::Unknown
            } else {
                Shape::Objects
            },
            given: schema.is_some(),
            key: key
                .into_iter()
                .next()
                .map_or(ColumnType::Null, |column| column.kind),
            windowed: false,
            origins: false,
            encoded,
            columns,
        }
    }

    /// True if columns may hold bytes.
    pub fn has_bytes(&self) -> bool {
        fn any(columns: &[Column]) -> bool {
            columns.iter().any(|column| inside(&column.kind))
        }
        fn inside(kind: &ColumnType) -> bool {
            match kind {
                ColumnType::Binary => true,
                ColumnType::List(item) | ColumnType::LargeList(item) => inside(item),
                ColumnType::Struct(members) => any(members),
                _ => false,
            }
        }
        !self.given || any(&self.columns)
    }

    /// Learns from these records.
    fn learn(&mut self, records: &[Record], by_row: &str) {
        for record in records {
            let key = match &record.key {
                Datum::Windowed(window) => {
                    self.windowed = true;
                    &window.key
                }
                key => key,
            };
            if self.key == ColumnType::Null {
                self.key = key_type(key);
            }
        }
        let first = self.shape == Shape::Unknown;
        for record in records {
            if let Some(kind) = type_of(&record.value) {
                self.see(kind, first);
            }
        }
        self.leave_added_out(by_row);
    }

    /// Learns from a part of all records that will be read: types are merged, so that they fit all
    /// records. `keys`: whether the key's type is still open.
    pub fn survey(&mut self, records: &[Record], keys: bool, by_row: &str) {
        for record in records {
            if keys {
                let kind = match &record.key {
                    Datum::Windowed(window) => key_type(&window.key),
                    key => key_type(key),
                };
                if self.key == ColumnType::Null {
                    self.key = kind;
                } else if kind != ColumnType::Null && kind != self.key {
                    // Keys of several types become JSON text.
                    self.key = ColumnType::String;
                }
            }
            if let Some(kind) = type_of(&record.value) {
                self.see(kind, true);
            }
        }
        self.leave_added_out(by_row);
    }

    /// Adds the type of a value. `first`: types may still be merged.
    fn see(&mut self, kind: ColumnType, first: bool) {
        match (self.shape, kind) {
            (_, ColumnType::Null) => {}
            (Shape::Unknown, kind) => {
                let members = match kind {
                    ColumnType::Struct(members) => {
                        self.shape = Shape::Objects;
                        members
                    }
                    kind => {
                        self.shape = Shape::Plain;
                        vec![column(VALUE, kind)]
                    }
                };
                if !self.given {
                    self.columns = members;
                }
            }
            _ if self.given => {}
            (Shape::Objects, ColumnType::Struct(members)) if first => {
                merge_members(&mut self.columns, members);
            }
            (Shape::Objects, ColumnType::Struct(members)) => {
                widen_members(&mut self.columns, &members);
            }
            (Shape::Plain, kind) => {
                let members = vec![column(VALUE, kind)];
                if first {
                    merge_members(&mut self.columns, members);
                } else {
                    widen_members(&mut self.columns, &members);
                }
            }
            // It doesn't fit: the reader reports it.
            (Shape::Objects, _) => {}
        }
    }

    fn leave_added_out(&mut self, by_row: &str) {
        if self.shape == Shape::Objects && !self.given {
            let origins = self.origins;
            let added = |name: &str| is_added(name, by_row) || origins && ORIGIN.contains(&name);
            self.columns.retain(|column| !added(&column.name));
        }
    }

    /// The Arrow schema, with the columns that every batch has.
    pub fn schema(&self, by_row: &str) -> SchemaRef {
        let mut fields: Vec<Field> = self.columns.iter().map(field).collect();
        fields.push(Field::new(KEY, data_type(&self.key), true));
        if self.windowed {
            fields.extend(WINDOW.map(|name| Field::new(name, timestamp(), true)));
        }
        fields.push(Field::new(TIMESTAMP, timestamp(), false));
        if self.origins {
            let kinds = [DataType::Utf8, DataType::Int32, DataType::Int64];
            let all = ORIGIN.into_iter().zip(kinds);
            fields.extend(all.map(|(name, kind)| Field::new(name, kind, true)));
        }
        fields.push(Field::new(by_row, DataType::Int64, false));
        Arc::new(Schema::new(fields))
    }
}

/// Whether it is a column that every batch has, whatever its values.
pub(super) fn is_added(name: &str, by_row: &str) -> bool {
    name == by_row || name == KEY || name == TIMESTAMP || WINDOW.contains(&name)
}

fn merge_members(known: &mut Vec<Column>, more: Vec<Column>) {
    let mut all = ColumnType::Struct(std::mem::take(known));
    merge(&mut all, ColumnType::Struct(more));
    if let ColumnType::Struct(members) = all {
        *known = members;
    }
}

fn widen_members(known: &mut Vec<Column>, more: &[Column]) {
    let mut all = ColumnType::Struct(std::mem::take(known));
    widen(&mut all, &ColumnType::Struct(more.to_vec()));
    if let ColumnType::Struct(members) = all {
        *known = members;
    }
}

/// The JSON text of a value that is JSON, or has no other form.
pub(super) fn json_of(datum: &Datum) -> Option<Result<Cow<'_, Bytes>>> {
    match datum {
        Datum::Json(bytes) => Some(Ok(Cow::Borrowed(bytes))),
        Datum::List(_) | Datum::Opaque(_) => Some(json_bytes(datum).map(Cow::Owned)),
        _ => None,
    }
}

/// Keys with members or elements become JSON text.
fn key_type(datum: &Datum) -> ColumnType {
    match datum {
        Datum::Json(_) | Datum::List(_) | Datum::Opaque(_) => match type_of(datum) {
            Some(
                kind @ (ColumnType::Null
                | ColumnType::Bool
                | ColumnType::Int64
                | ColumnType::Float64),
            ) => kind,
            _ => ColumnType::String,
        },
        other => plain_type(other),
    }
}

/// State shared by all lanes of a node.
#[derive(Debug)]
pub(crate) struct Shared {
    layout: Mutex<Arc<Layout>>,
}

impl Shared {
    /// Starts with a known layout.
    pub fn new(layout: Layout) -> Self {
        Self {
            layout: Mutex::new(Arc::new(layout)),
        }
    }

    pub(super) fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.layout.lock())
    }

    /// Learns what is still unknown from these records.
    pub(super) fn learn(&self, records: &[Record], by_row: &str) -> Arc<Layout> {
        let mut known = self.layout.lock();
        let mut learned = (**known).clone();
        learned.learn(records, by_row);
        if learned != **known {
            *known = Arc::new(learned);
        }
        Arc::clone(&known)
    }
}
