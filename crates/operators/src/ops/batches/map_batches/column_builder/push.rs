//! Adds one value to a column, if the column can hold it exactly.
//!
//! The methods return `false` if it can't. No rounding to whole numbers, no truncation of bits, no
//! parsing of texts except for dates and times.

use super::{Cells, Column};
use crate::ops::batches::map_batches::iso8601;
use arrow_buffer::ArrowNativeType;
use stoatflow_formats::latin;

impl Column {
    /// Returns `false` if the column can't hold it.
    pub fn push_bool(&mut self, value: bool) -> bool {
        let Cells::Bool(cells) = &mut self.cells else {
            return false;
        };
        cells.append(value);
        self.seen();
        true
    }

    /// Returns `false` if the column can't hold it.
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

    /// Returns `false` if the column can't hold it.
    pub fn push_uint(&mut self, value: u64) -> bool {
        match (&mut self.cells, i64::try_from(value)) {
            (_, Ok(value)) => return self.push_int(value),
            (Cells::Uint64(c), _) => c.push(value),
            _ => return self.push_wide(value, false),
        }
        self.seen();
        true
    }

    /// Adds a whole number as a float, if that is exact.
    fn push_wide(&mut self, size: u64, negative: bool) -> bool {
        let bits = u64::BITS - size.leading_zeros();
        let significant = bits.saturating_sub(size.trailing_zeros().min(bits));
        let signed = |size: f64| if negative { -size } else { size };
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // checked above
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

    /// Returns `false` if the column can't hold it. A `float32` column rounds: the user has asked for
    /// that type.
    pub fn push_float(&mut self, value: f64) -> bool {
        #[allow(clippy::cast_possible_truncation)] // requested
        match &mut self.cells {
            Cells::Float32(c) => c.push(value as f32),
            Cells::Float64(c) => c.push(value),
            _ => return false,
        }
        self.seen();
        true
    }

    /// Returns `false` if the column can't hold it.
    pub fn push_text(&mut self, value: &str) -> bool {
        let held = match &mut self.cells {
            Cells::Text(c) => c.push(value.as_bytes()),
            Cells::LargeText(c) => c.push(value.as_bytes()),
            Cells::Date(c) => iso8601::days(value).map(|d| c.push(d)).is_some(),
            Cells::Time(c, unit, tz) => iso8601::time(value, *unit, tz.is_some())
                .map(|t| c.push(t))
                .is_some(),
            _ => false,
        };
        if held {
            self.seen();
        }
        held
    }

    /// Returns `false` if the column can't hold it.
    pub fn push_bytes(&mut self, value: &[u8]) -> bool {
        let Cells::Binary(cells) = &mut self.cells else {
            return false;
        };
        let held = cells.push(value);
        self.seen();
        held
    }

    /// Adds bytes to a text column: one character per byte, as in JSON. Returns `false` if the column
    /// can't hold it.
    pub fn push_latin(&mut self, value: &[u8]) -> bool {
        match &self.cells {
            Cells::Text(_) | Cells::LargeText(_) => self.push_text(&latin(value)),
            _ => false,
        }
    }

    /// Ends a list whose elements were pushed to the inner column.
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
}
