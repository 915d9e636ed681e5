//! The columns that a user declares for batches of records: Arrow's types, as data.
//!
//! Converts from and to JSON; the code that reads values decides what each type means. Every column may
//! hold nulls. Doesn't depend on an Arrow crate.

use serde::{Deserialize, Serialize};

/// Arrow's time unit.
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
#[allow(missing_docs)] // named as in Arrow
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
    /// Bytes: keys, values and members of values; JSON has none.
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
    /// Its type.
    #[serde(rename = "type")]
    pub kind: ColumnType,
}

/// Upper limit, so that text of any length fits into Arrow's 32-bit offsets.
const MOST_ROWS: usize = 1 << 20;
/// Columns that each batch has in addition to those of the values; the user may choose the type of the
/// first.
const ADDED: [&str; 4] = ["_key", "_timestamp", "_window_start", "_window_end"];

/// Columns that each batch of a `foreach_batch` also has: where its rows were read.
pub const ORIGIN: [&str; 3] = ["_topic", "_partition", "_offset"];
/// The default name of the column of row numbers.
pub const ROW: &str = "_row";

/// Whether each batch has this column anyway.
pub(crate) fn is_added(name: &str) -> bool {
    ADDED.contains(&name)
}

/// Problems with the maximum number of rows in a batch.
#[must_use]
pub fn rows_problem(max_rows: usize) -> Option<String> {
    (!(1..=MOST_ROWS).contains(&max_rows))
        .then(|| format!("max_rows={max_rows} must be between 1 and {MOST_ROWS}"))
}

/// Problems with the columns of a value; `others` are columns of the batch beside the usual ones.
#[must_use]
pub fn columns_problem(columns: &[Column], others: &[&str]) -> Option<String> {
    if columns.iter().all(|column| column.name == "_key") {
        return Some("its schema has no column of a value".into());
    }
    let taken = |name: &str| others.contains(&name) || ADDED[1..].contains(&name);
    if let Some(column) = columns.iter().find(|column| taken(&column.name)) {
        return Some(format!(
            "its schema has a column '{}', which is added to each batch anyway: leave it out",
            column.name
        ));
    }
    twice(columns).map(|name| format!("its schema has the column '{name}' twice"))
}

/// A name that occurs twice in one struct or batch, with the names above it.
fn twice(columns: &[Column]) -> Option<String> {
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
