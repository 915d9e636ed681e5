//! Types of columns: of plain values, and their Arrow types.

use arrow_schema::{DataType, Field, Fields, TimeUnit as Unit};
use std::sync::Arc;
use stoatflow_core::Datum;
use stoatflow_plan::{Column, ColumnType, TimeUnit};

pub(crate) fn column(name: &str, kind: ColumnType) -> Column {
    Column {
        name: name.into(),
        kind,
    }
}

/// The type of a value without parts.
pub(super) fn plain_type(datum: &Datum) -> ColumnType {
    match datum {
        Datum::Bool(_) => ColumnType::Bool,
        Datum::Int(_) => ColumnType::Int64,
        Datum::Float(_) => ColumnType::Float64,
        Datum::Str(_) => ColumnType::String,
        Datum::Bytes(_) => ColumnType::Binary,
        _ => ColumnType::Null,
    }
}

/// Type of the time columns that every batch has.
pub(super) fn timestamp() -> DataType {
    DataType::Timestamp(Unit::Millisecond, Some("UTC".into()))
}

pub(super) fn field(column: &Column) -> Field {
    Field::new(column.name.as_str(), data_type(&column.kind), true)
}

pub(super) fn item(kind: &ColumnType) -> Field {
    Field::new("item", data_type(kind), true)
}

pub(super) fn fields(members: &[Column]) -> Fields {
    members.iter().map(field).collect()
}

/// The Arrow type of a column type.
pub(super) fn data_type(kind: &ColumnType) -> DataType {
    match kind {
        ColumnType::Null => DataType::Null,
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Int8 => DataType::Int8,
        ColumnType::Int16 => DataType::Int16,
        ColumnType::Int32 => DataType::Int32,
        ColumnType::Int64 => DataType::Int64,
        ColumnType::Uint8 => DataType::UInt8,
        ColumnType::Uint16 => DataType::UInt16,
        ColumnType::Uint32 => DataType::UInt32,
        ColumnType::Uint64 => DataType::UInt64,
        ColumnType::Float32 => DataType::Float32,
        ColumnType::Float64 => DataType::Float64,
        ColumnType::String => DataType::Utf8,
        ColumnType::LargeString => DataType::LargeUtf8,
        ColumnType::Binary => DataType::Binary,
        ColumnType::Date32 => DataType::Date32,
        ColumnType::Timestamp { unit, tz } => {
            DataType::Timestamp(unit_of(*unit), tz.as_deref().map(Into::into))
        }
        ColumnType::List(kind) => DataType::List(Arc::new(item(kind))),
        ColumnType::LargeList(kind) => DataType::LargeList(Arc::new(item(kind))),
        ColumnType::Struct(members) => DataType::Struct(fields(members)),
    }
}

const fn unit_of(unit: TimeUnit) -> Unit {
    match unit {
        TimeUnit::Second => Unit::Second,
        TimeUnit::Millisecond => Unit::Millisecond,
        TimeUnit::Microsecond => Unit::Microsecond,
        TimeUnit::Nanosecond => Unit::Nanosecond,
    }
}
