//! Turns a finished column into an Arrow array.
//!
//! Takes over the buffers without copying single values; the builder is empty again.

use super::{Cells, Column};
use crate::ops::batches::map_batches::columns::{fields, item};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, GenericListArray, LargeStringArray, NullArray,
    OffsetSizeTrait, PrimitiveArray, StringArray, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, Field};
use std::sync::Arc;
use stoatflow_plan::{ColumnType, TimeUnit};

impl Column {
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
