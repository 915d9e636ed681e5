//! Builds one Arrow column, value by value.
//!
//! Takes values one after another, returns an Arrow array; the values of a record that turns out to be
//! wrong can be truncated again. Rejects values that don't fit exactly: no rounding to whole numbers, no
//! truncation of bits, no parsing of texts except for dates and times.

mod finish;
mod push;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::{ArrayRef, OffsetSizeTrait};
use arrow_buffer::{ArrowNativeType, NullBufferBuilder, OffsetBuffer};
use arrow_schema::ArrowError;
use std::borrow::Cow;
use std::sync::Arc;
use stoatflow_plan::{Column as Spec, ColumnType, TimeUnit};

/// The values that a time in this unit consists of, for error messages.
const fn whole(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "whole seconds",
        TimeUnit::Millisecond => "whole milliseconds",
        TimeUnit::Microsecond => "whole microseconds",
        TimeUnit::Nanosecond => "whole nanoseconds",
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Column {
    /// Its name, prefixed by those of the structs that contain it.
    pub path: Arc<str>,
    nulls: NullBufferBuilder,
    pub cells: Cells,
}

#[derive(Debug)]
pub(super) enum Cells {
    Null(usize),
    Bool(BooleanBufferBuilder),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Uint8(Vec<u8>),
    Uint16(Vec<u16>),
    Uint32(Vec<u32>),
    Uint64(Vec<u64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Text(Runs<i32>),
    LargeText(Runs<i64>),
    Binary(Runs<i32>),
    Date(Vec<i32>),
    Time(Vec<i64>, TimeUnit, Option<Arc<str>>),
    List(Vec<i32>, Box<Column>, ColumnType),
    LargeList(Vec<i64>, Box<Column>, ColumnType),
    Struct(Members),
}

/// Texts or bytes, concatenated.
#[derive(Debug)]
pub(super) struct Runs<O> {
    ends: Vec<O>,
    bytes: Vec<u8>,
}

impl<O: OffsetSizeTrait> Runs<O> {
    fn new(capacity: usize) -> Self {
        let mut ends = Vec::with_capacity(capacity + 1);
        ends.push(O::usize_as(0));
        Self {
            ends,
            bytes: Vec::with_capacity(capacity * 8),
        }
    }

    fn push(&mut self, run: &[u8]) -> bool {
        self.bytes.extend_from_slice(run);
        let end = O::from_usize(self.bytes.len());
        self.ends.extend(end);
        end.is_some()
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows + 1);
        self.bytes
            .truncate(self.ends.last().map_or(0, |end| end.as_usize()));
    }

    fn take(&mut self) -> (OffsetBuffer<O>, arrow_buffer::Buffer) {
        let ends = std::mem::take(&mut self.ends);
        self.ends.push(O::usize_as(0));
        let bytes = std::mem::take(&mut self.bytes);
        (OffsetBuffer::new(ends.into()), bytes.into())
    }
}

/// The columns of objects.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub columns: Vec<Column>,
    names: Vec<Arc<str>>,
    specs: Vec<Spec>,
    rows: usize,
}

impl Members {
    pub fn new(above: Option<&str>, specs: &[Spec], capacity: usize) -> Self {
        let path = |name: &str| match above {
            None => name.into(),
            Some(above) => format!("{above}.{name}").into(),
        };
        Self {
            columns: specs
                .iter()
                .map(|spec| Column::new(path(&spec.name), &spec.kind, capacity))
                .collect(),
            names: specs.iter().map(|spec| spec.name.as_str().into()).collect(),
            specs: specs.to_vec(),
            rows: 0,
        }
    }

    /// Index of a member; members are mostly in the order of the columns.
    pub fn find(&self, name: &str, likely: usize) -> Option<usize> {
        match self.names.get(likely) {
            Some(next) if **next == *name => Some(likely),
            _ => self.names.iter().position(|known| **known == *name),
        }
    }

    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Ends an object: missing members become null.
    pub fn end_row(&mut self) {
        self.rows += 1;
        for column in &mut self.columns {
            if column.len() < self.rows {
                column.push_null();
            }
        }
    }

    pub fn truncate(&mut self, rows: usize) {
        self.rows = rows;
        self.columns.iter_mut().for_each(|c| c.truncate(rows));
    }

    pub fn finish(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.rows = 0;
        self.columns.iter_mut().map(Column::finish).collect()
    }
}

impl Column {
    pub fn new(path: Arc<str>, kind: &ColumnType, capacity: usize) -> Self {
        use ColumnType as T;
        fn room<T>(capacity: usize) -> Vec<T> {
            Vec::with_capacity(capacity)
        }
        fn starts<O: OffsetSizeTrait>() -> Vec<O> {
            vec![O::usize_as(0)]
        }
        let inner = |kind: &ColumnType| {
            let path = format!("{path}[]").into();
            Box::new(Self::new(path, kind, capacity))
        };
        let cells = match kind {
            T::Null => Cells::Null(0),
            T::Bool => Cells::Bool(BooleanBufferBuilder::new(capacity)),
            T::Int8 => Cells::Int8(room(capacity)),
            T::Int16 => Cells::Int16(room(capacity)),
            T::Int32 => Cells::Int32(room(capacity)),
            T::Int64 => Cells::Int64(room(capacity)),
            T::Uint8 => Cells::Uint8(room(capacity)),
            T::Uint16 => Cells::Uint16(room(capacity)),
            T::Uint32 => Cells::Uint32(room(capacity)),
            T::Uint64 => Cells::Uint64(room(capacity)),
            T::Float32 => Cells::Float32(room(capacity)),
            T::Float64 => Cells::Float64(room(capacity)),
            T::String => Cells::Text(Runs::new(capacity)),
            T::LargeString => Cells::LargeText(Runs::new(capacity)),
            T::Binary => Cells::Binary(Runs::new(capacity)),
            T::Date32 => Cells::Date(room(capacity)),
            T::Timestamp { unit, tz } => {
                Cells::Time(room(capacity), *unit, tz.as_deref().map(Into::into))
            }
            T::List(kind) => Cells::List(starts(), inner(kind), (**kind).clone()),
            T::LargeList(kind) => Cells::LargeList(starts(), inner(kind), (**kind).clone()),
            T::Struct(members) => Cells::Struct(Members::new(Some(&path), members, capacity)),
        };
        Self {
            path,
            nulls: NullBufferBuilder::new(capacity),
            cells,
        }
    }

    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    pub fn truncate(&mut self, rows: usize) {
        if self.nulls.len() > rows {
            self.nulls.truncate(rows);
        }
        match &mut self.cells {
            Cells::Null(n) => *n = rows.min(*n),
            Cells::Bool(c) => {
                if c.len() > rows {
                    c.truncate(rows);
                }
            }
            Cells::Int8(c) => c.truncate(rows),
            Cells::Int16(c) => c.truncate(rows),
            Cells::Int32(c) | Cells::Date(c) => c.truncate(rows),
            Cells::Int64(c) | Cells::Time(c, ..) => c.truncate(rows),
            Cells::Uint8(c) => c.truncate(rows),
            Cells::Uint16(c) => c.truncate(rows),
            Cells::Uint32(c) => c.truncate(rows),
            Cells::Uint64(c) => c.truncate(rows),
            Cells::Float32(c) => c.truncate(rows),
            Cells::Float64(c) => c.truncate(rows),
            Cells::Text(c) | Cells::Binary(c) => c.truncate(rows),
            Cells::LargeText(c) => c.truncate(rows),
            Cells::List(ends, inner, _) => {
                ends.truncate(rows + 1);
                inner.truncate(ends.last().map_or(0, |end| end.as_usize()));
            }
            Cells::LargeList(ends, inner, _) => {
                ends.truncate(rows + 1);
                inner.truncate(ends.last().map_or(0, |end| end.as_usize()));
            }
            Cells::Struct(members) => members.truncate(rows),
        }
    }

    pub fn push_null(&mut self) {
        self.nulls.append_null();
        match &mut self.cells {
            Cells::Null(n) => *n += 1,
            Cells::Bool(c) => c.append(false),
            Cells::Int8(c) => c.push(0),
            Cells::Int16(c) => c.push(0),
            Cells::Int32(c) | Cells::Date(c) => c.push(0),
            Cells::Int64(c) | Cells::Time(c, ..) => c.push(0),
            Cells::Uint8(c) => c.push(0),
            Cells::Uint16(c) => c.push(0),
            Cells::Uint32(c) => c.push(0),
            Cells::Uint64(c) => c.push(0),
            Cells::Float32(c) => c.push(0.0),
            Cells::Float64(c) => c.push(0.0),
            Cells::Text(c) | Cells::Binary(c) => {
                c.push(b"");
            }
            Cells::LargeText(c) => {
                c.push(b"");
            }
            Cells::List(ends, ..) => ends.extend_from_within(ends.len() - 1..),
            Cells::LargeList(ends, ..) => ends.extend_from_within(ends.len() - 1..),
            Cells::Struct(members) => members.end_row(),
        }
    }

    /// The type of its values, in Arrow's terms, for error messages.
    pub fn words(&self) -> Cow<'static, str> {
        let words = match &self.cells {
            Cells::Null(_) => "null",
            Cells::Bool(_) => "bool",
            Cells::Int8(_) => "int8",
            Cells::Int16(_) => "int16",
            Cells::Int32(_) => "int32",
            Cells::Int64(_) => "int64",
            Cells::Uint8(_) => "uint8",
            Cells::Uint16(_) => "uint16",
            Cells::Uint32(_) => "uint32",
            Cells::Uint64(_) => "uint64",
            Cells::Float32(_) => "float32",
            Cells::Float64(_) => "float64",
            Cells::Text(_) | Cells::LargeText(_) => "text",
            Cells::Binary(_) => "binary",
            Cells::Date(_) => "a date (YYYY-MM-DD)",
            Cells::Time(_, unit, Some(_)) => {
                let whole = whole(*unit);
                return format!("a time of {whole} (YYYY-MM-DDThh:mm:ssZ, or their number)").into();
            }
            Cells::Time(_, unit, None) => {
                let (whole, form) = (whole(*unit), "YYYY-MM-DDThh:mm:ss");
                return format!("a time without a zone, of {whole} ({form}, or their number)")
                    .into();
            }
            Cells::List(..) | Cells::LargeList(..) => "a list",
            Cells::Struct(_) => "an object",
        };
        words.into()
    }

    /// Marks a value that is already in `cells` as not null.
    pub fn seen(&mut self) {
        self.nulls.append_non_null();
    }
}
