//! Builds one Arrow column, value by value.
//!
//! Takes values one after another, gives an Arrow array; what a record left behind that turned out to be
//! wrong can be cut off again. Says no to what it can't hold as it is: nothing is rounded to a whole
//! number, cut to fewer bits or made of a text, except times that are written as such.

use super::columns::{fields, item};
use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, GenericListArray, LargeStringArray, NullArray,
    OffsetSizeTrait, PrimitiveArray, StringArray, StructArray,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, Field};
use std::borrow::Cow;
use std::sync::Arc;
use stoatflow_formats::latin;
use stoatflow_plan::{Column as Spec, ColumnType, TimeUnit};

/// What a time in this unit is counted in.
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
    /// Its name, behind those of the structs it is in.
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

/// Texts or bytes, one behind the other.
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

    /// The place of a member; members mostly come in the order of the columns.
    pub fn find(&self, name: &str, likely: usize) -> Option<usize> {
        match self.names.get(likely) {
            Some(next) if **next == *name => Some(likely),
            _ => self.names.iter().position(|known| **known == *name),
        }
    }

    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The object is complete: what it didn't have is null.
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

    /// What it holds, as Arrow calls it.
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

    /// One that stands in `cells` already.
    pub fn seen(&mut self) {
        self.nulls.append_non_null();
    }

    /// False: it can't hold that.
    pub fn push_bool(&mut self, value: bool) -> bool {
        let Cells::Bool(cells) = &mut self.cells else {
            return false;
        };
        cells.append(value);
        self.seen();
        true
    }

    /// False: it can't hold that.
    pub fn push_int(&mut self, value: i64) -> bool {
        fn put<T: TryFrom<i64>>(cells: &mut Vec<T>, value: i64) -> bool {
            T::try_from(value).map(|v| cells.push(v)).is_ok()
        }
        let held = match &mut self.cells {
            Cells::Int8(c) => put(c, value),
            Cells::Int16(c) => put(c, value),
            Cells::Int32(c) => put(c, value),
            Cells::Int64(c) | Cells::Time(c, ..) => put(c, value),
            Cells::Uint8(c) => put(c, value),
            Cells::Uint16(c) => put(c, value),
            Cells::Uint32(c) => put(c, value),
            Cells::Uint64(c) => put(c, value),
            _ => return self.push_wide(value.unsigned_abs(), value < 0),
        };
        if held {
            self.seen();
        }
        held
    }

    /// False: it can't hold that.
    pub fn push_uint(&mut self, value: u64) -> bool {
        match (&mut self.cells, i64::try_from(value)) {
            (_, Ok(value)) => return self.push_int(value),
            (Cells::Uint64(c), _) => c.push(value),
            _ => return self.push_wide(value, false),
        }
        self.seen();
        true
    }

    /// A whole number as a float, if that holds it to the last digit.
    fn push_wide(&mut self, size: u64, negative: bool) -> bool {
        let bits = u64::BITS - size.leading_zeros();
        let significant = bits.saturating_sub(size.trailing_zeros().min(bits));
        let signed = |size: f64| if negative { -size } else { size };
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // looked at above
        match &mut self.cells {
            Cells::Float64(c) if significant <= f64::MANTISSA_DIGITS => c.push(signed(size as f64)),
            Cells::Float32(c) if significant <= f32::MANTISSA_DIGITS => {
                c.push(signed(size as f64) as f32);
            }
            _ => return false,
        }
        self.seen();
        true
    }

    /// False: it can't hold that. A `float32` is asked for by name: it rounds, as it says.
    pub fn push_float(&mut self, value: f64) -> bool {
        #[allow(clippy::cast_possible_truncation)] // wished for
        match &mut self.cells {
            Cells::Float32(c) => c.push(value as f32),
            Cells::Float64(c) => c.push(value),
            _ => return false,
        }
        self.seen();
        true
    }

    /// False: it can't hold that.
    pub fn push_text(&mut self, value: &str) -> bool {
        let held = match &mut self.cells {
            Cells::Text(c) => c.push(value.as_bytes()),
            Cells::LargeText(c) => c.push(value.as_bytes()),
            Cells::Date(c) => super::moment::days(value).map(|d| c.push(d)).is_some(),
            Cells::Time(c, unit, tz) => super::moment::time(value, *unit, tz.is_some())
                .map(|t| c.push(t))
                .is_some(),
            _ => false,
        };
        if held {
            self.seen();
        }
        held
    }

    /// False: it can't hold that.
    pub fn push_bytes(&mut self, value: &[u8]) -> bool {
        let Cells::Binary(cells) = &mut self.cells else {
            return false;
        };
        let held = cells.push(value);
        self.seen();
        held
    }

    /// Bytes where a text was asked for: one character for each, as in JSON. False: it can't hold that.
    pub fn push_latin(&mut self, value: &[u8]) -> bool {
        match &self.cells {
            Cells::Text(_) | Cells::LargeText(_) => self.push_text(&latin(value)),
            _ => false,
        }
    }

    /// The elements of a list were pushed to its inner column.
    pub fn end_list(&mut self) -> bool {
        let ended = match &mut self.cells {
            Cells::List(ends, inner, _) => i32::from_usize(inner.len()).map(|end| ends.push(end)),
            Cells::LargeList(ends, inner, _) => {
                i64::from_usize(inner.len()).map(|end| ends.push(end))
            }
            _ => None,
        };
        self.seen();
        ended.is_some()
    }

    /// The column so far as an array; the builder is empty again.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        fn numbers<T: ArrowPrimitiveType>(
            cells: &mut Vec<T::Native>,
            nulls: Option<NullBuffer>,
        ) -> Result<PrimitiveArray<T>, ArrowError> {
            let room = cells.len();
            let cells = std::mem::replace(cells, Vec::with_capacity(room));
            PrimitiveArray::try_new(cells.into(), nulls)
        }
        fn list<O: OffsetSizeTrait>(
            ends: &mut Vec<O>,
            inner: &mut Column,
            kind: &ColumnType,
            nulls: Option<NullBuffer>,
        ) -> Result<ArrayRef, ArrowError> {
            let ends = std::mem::replace(ends, vec![O::usize_as(0)]);
            let field: Field = item(kind);
            let inner = inner.finish()?;
            let ends = OffsetBuffer::new(ends.into());
            let made = GenericListArray::try_new(Arc::new(field), ends, inner, nulls)?;
            Ok(Arc::new(made))
        }
        let rows = self.nulls.len();
        let nulls = self.nulls.finish();
        Ok(match &mut self.cells {
            Cells::Null(n) => Arc::new(NullArray::new(std::mem::take(n))),
            Cells::Bool(c) => Arc::new(BooleanArray::new(c.finish(), nulls)),
            Cells::Int8(c) => Arc::new(numbers::<Int8Type>(c, nulls)?),
            Cells::Int16(c) => Arc::new(numbers::<Int16Type>(c, nulls)?),
            Cells::Int32(c) => Arc::new(numbers::<Int32Type>(c, nulls)?),
            Cells::Int64(c) => Arc::new(numbers::<Int64Type>(c, nulls)?),
            Cells::Uint8(c) => Arc::new(numbers::<UInt8Type>(c, nulls)?),
            Cells::Uint16(c) => Arc::new(numbers::<UInt16Type>(c, nulls)?),
            Cells::Uint32(c) => Arc::new(numbers::<UInt32Type>(c, nulls)?),
            Cells::Uint64(c) => Arc::new(numbers::<UInt64Type>(c, nulls)?),
            Cells::Float32(c) => Arc::new(numbers::<Float32Type>(c, nulls)?),
            Cells::Float64(c) => Arc::new(numbers::<Float64Type>(c, nulls)?),
            Cells::Date(c) => Arc::new(numbers::<Date32Type>(c, nulls)?),
            Cells::Text(c) => {
                let (ends, bytes) = c.take();
                Arc::new(StringArray::try_new(ends, bytes, nulls)?)
            }
            Cells::LargeText(c) => {
                let (ends, bytes) = c.take();
                Arc::new(LargeStringArray::try_new(ends, bytes, nulls)?)
            }
            Cells::Binary(c) => {
                let (ends, bytes) = c.take();
                Arc::new(BinaryArray::try_new(ends, bytes, nulls)?)
            }
            Cells::Time(c, unit, tz) => {
                let tz = tz.clone();
                match unit {
                    TimeUnit::Second => {
                        Arc::new(numbers::<TimestampSecondType>(c, nulls)?.with_timezone_opt(tz))
                    }
                    TimeUnit::Millisecond => Arc::new(
                        numbers::<TimestampMillisecondType>(c, nulls)?.with_timezone_opt(tz),
                    ),
                    TimeUnit::Microsecond => Arc::new(
                        numbers::<TimestampMicrosecondType>(c, nulls)?.with_timezone_opt(tz),
                    ),
                    TimeUnit::Nanosecond => Arc::new(
                        numbers::<TimestampNanosecondType>(c, nulls)?.with_timezone_opt(tz),
                    ),
                }
            }
            Cells::List(ends, inner, kind) => list(ends, inner, kind, nulls)?,
            Cells::LargeList(ends, inner, kind) => list(ends, inner, kind, nulls)?,
            Cells::Struct(members) => {
                let fields = fields(&members.specs);
                let arrays = members.finish()?;
                Arc::new(StructArray::try_new_with_length(
                    fields, arrays, nulls, rows,
                )?)
            }
        })
    }
}
