//! The columns that a user names for `map_batches`: Arrow's types, as data.
//!
//! Takes and gives JSON; what each type means for a value is decided where values are read. Every column may
//! hold nulls. Never knows a foreign crate.

use serde::{Deserialize, Serialize};

/// Arrow's unit of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeUnit {
    /// Seconds.
    #[serde(rename = "s")]
    Second,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millisecond,
    /// Microseconds.
    #[serde(rename = "us")]
    Microsecond,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanosecond,
}

/// The type of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // as Arrow calls them
pub enum ColumnType {
    Null,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float32,
    Float64,
    String,
    LargeString,
    /// Keys and values that are bytes; JSON has none.
    Binary,
    Date32,
    Timestamp {
        unit: TimeUnit,
        tz: Option<String>,
    },
    List(Box<ColumnType>),
    LargeList(Box<ColumnType>),
    Struct(Vec<Column>),
}

/// A column: of the batch, or within a struct.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its name: the member of the JSON object.
    pub name: String,
    /// What it holds.
    #[serde(rename = "type")]
    pub kind: ColumnType,
}

/// A name that stands twice, here or in a struct below, with the names above it.
pub(crate) fn twice(columns: &[Column]) -> Option<String> {
    columns.iter().enumerate().find_map(|(at, column)| {
        if columns[..at].iter().any(|other| other.name == column.name) {
            return Some(column.name.clone());
        }
        inside(&column.kind).map(|name| format!("{}.{name}", column.name))
    })
}

fn inside(kind: &ColumnType) -> Option<String> {
    match kind {
        ColumnType::Struct(members) => twice(members),
        ColumnType::List(item) | ColumnType::LargeList(item) => inside(item),
        _ => None,
    }
}
