//! The values of an Arrow column, row by row: as JSON text, or as a datum.
//!
//! Takes an array of any type that has a JSON form, or of bytes; returns the value of a row. Times
//! become texts (ISO 8601), decimals become numbers, dictionary entries become their values. Values with
//! bytes never become JSON text: the serde of the value may have a form for them. Types without a form
//! are rejected by name; a number that is not finite fails in its row.

use super::iso8601;
use arrow_array::cast::AsArray;
use arrow_array::types as t;
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, TimeUnit as Unit};
use std::io::Write;
use stoatflow_core::{Bytes, Datum, Error, Fields, Result, Text};
use stoatflow_plan::TimeUnit;

/// See the module.
pub(super) struct Cells<'a> {
    path: String,
    nulls: Option<&'a NullBuffer>,
    held: Held<'a>,
}

/// A member of objects, and its values.
pub(super) struct Member<'a> {
    name: Text,
    /// The name as JSON text, with its colon.
    label: Vec<u8>,
    cells: Cells<'a>,
}

impl<'a> Member<'a> {
    /// `path`: its name, prefixed by those of the structs that contain it.
    ///
    /// # Errors
    /// As [`Cells::new`].
    pub fn new(name: &str, path: &str, array: &'a ArrayRef) -> Result<Self> {
        Ok(Self {
            name: Text::from(name),
            label: label(name)?,
            cells: Cells::new(path, array)?,
        })
    }

    /// True if it contains bytes.
    pub fn has_bytes(&self) -> bool {
        self.cells.has_bytes()
    }
}

enum Held<'a> {
    Null,
    Bool(&'a arrow_array::BooleanArray),
    Int(Ints<'a>),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Text(Texts<'a>),
    Binary(Box<dyn Fn(usize) -> &'a [u8] + 'a>),
    Decimal(&'a arrow_array::Decimal128Array),
    Day(Ints<'a>),
    /// The values, their unit, and whether there is a time zone.
    Time(&'a [i64], TimeUnit, bool),
    List(Box<dyn Fn(usize) -> (usize, usize) + 'a>, Box<Cells<'a>>),
    Struct(Vec<Member<'a>>),
    Dictionary(Vec<usize>, Box<Cells<'a>>),
}

impl<'a> Held<'a> {
    fn time(array: &'a ArrayRef, unit: Unit, zoned: bool) -> Self {
        match unit {
            Unit::Second => Self::Time(
                array.as_primitive::<t::TimestampSecondType>().values(),
                TimeUnit::Second,
                zoned,
            ),
            Unit::Millisecond => Self::Time(
                array.as_primitive::<t::TimestampMillisecondType>().values(),
                TimeUnit::Millisecond,
                zoned,
            ),
            Unit::Microsecond => Self::Time(
                array.as_primitive::<t::TimestampMicrosecondType>().values(),
                TimeUnit::Microsecond,
                zoned,
            ),
            Unit::Nanosecond => Self::Time(
                array.as_primitive::<t::TimestampNanosecondType>().values(),
                TimeUnit::Nanosecond,
                zoned,
            ),
        }
    }

    /// Lists with offsets of 32 or 64 bits.
    fn list<O: OffsetSizeTrait>(path: &str, array: &'a GenericListArray<O>) -> Result<Self>
    where
        usize: TryFrom<O>,
    {
        let ends = array.value_offsets();
        let bound = |end: O| usize::try_from(end).unwrap_or(0);
        Ok(Self::List(
            Box::new(move |row| (bound(ends[row]), bound(ends[row + 1]))),
            Box::new(Cells::new(&format!("{path}[]"), array.values())?),
        ))
    }
}

enum Ints<'a> {
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    /// Date64: milliseconds.
    Days(&'a [i64]),
}

enum Texts<'a> {
    Short(&'a arrow_array::StringArray),
    Large(&'a arrow_array::LargeStringArray),
    View(&'a arrow_array::StringViewArray),
}

impl Texts<'_> {
    fn at(&self, row: usize) -> &str {
        match self {
            Self::Short(c) => c.value(row),
            Self::Large(c) => c.value(row),
            Self::View(c) => c.value(row),
        }
    }
}

impl Ints<'_> {
    /// `None`: the value fits only in a `u64`.
    fn at(&self, row: usize) -> Option<i64> {
        Some(match self {
            Self::I8(c) => c[row].into(),
            Self::I16(c) => c[row].into(),
            Self::I32(c) => c[row].into(),
            Self::I64(c) => c[row],
            Self::U8(c) => c[row].into(),
            Self::U16(c) => c[row].into(),
            Self::U32(c) => c[row].into(),
            Self::U64(c) => return i64::try_from(c[row]).ok(),
            Self::Days(c) => c[row].div_euclid(86_400_000),
        })
    }
}

/// A member's name as JSON text, with its colon.
fn label(name: &str) -> Result<Vec<u8>> {
    let mut label = serde_json::to_vec(name)
        .map_err(|e| Error::user(format!("'{name}' can't be the name of a member")).caused_by(e))?;
    label.push(b':');
    Ok(label)
}

impl<'a> Cells<'a> {
    /// The cells of a column.
    ///
    /// # Errors
    /// `User` for a type that has no form in JSON.
    pub fn new(path: &str, array: &'a ArrayRef) -> Result<Self> {
        let held = match array.data_type() {
            DataType::Null => Held::Null,
            DataType::Boolean => Held::Bool(array.as_boolean()),
            DataType::Int8 => Held::Int(Ints::I8(array.as_primitive::<t::Int8Type>().values())),
            DataType::Int16 => Held::Int(Ints::I16(array.as_primitive::<t::Int16Type>().values())),
            DataType::Int32 => Held::Int(Ints::I32(array.as_primitive::<t::Int32Type>().values())),
            DataType::Int64 => Held::Int(Ints::I64(array.as_primitive::<t::Int64Type>().values())),
            DataType::UInt8 => Held::Int(Ints::U8(array.as_primitive::<t::UInt8Type>().values())),
            DataType::UInt16 => {
                Held::Int(Ints::U16(array.as_primitive::<t::UInt16Type>().values()))
            }
            DataType::UInt32 => {
                Held::Int(Ints::U32(array.as_primitive::<t::UInt32Type>().values()))
            }
            DataType::UInt64 => {
                Held::Int(Ints::U64(array.as_primitive::<t::UInt64Type>().values()))
            }
            DataType::Float32 => Held::Float32(array.as_primitive::<t::Float32Type>().values()),
            DataType::Float64 => Held::Float64(array.as_primitive::<t::Float64Type>().values()),
            DataType::Utf8 => Held::Text(Texts::Short(array.as_string())),
            DataType::LargeUtf8 => Held::Text(Texts::Large(array.as_string())),
            DataType::Utf8View => Held::Text(Texts::View(array.as_string_view())),
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                Held::Binary(Box::new(|row| array.value(row)))
            }
            DataType::LargeBinary => {
                let array = array.as_binary::<i64>();
                Held::Binary(Box::new(|row| array.value(row)))
            }
            DataType::BinaryView => {
                let array = array.as_binary_view();
                Held::Binary(Box::new(|row| array.value(row)))
            }
            DataType::FixedSizeBinary(_) => {
                let array = array.as_fixed_size_binary();
                Held::Binary(Box::new(|row| array.value(row)))
            }
            DataType::Decimal128(..) => Held::Decimal(array.as_primitive::<t::Decimal128Type>()),
            DataType::Date32 => {
                Held::Day(Ints::I32(array.as_primitive::<t::Date32Type>().values()))
            }
            DataType::Date64 => {
                Held::Day(Ints::Days(array.as_primitive::<t::Date64Type>().values()))
            }
            DataType::Timestamp(unit, zone) => Held::time(array, *unit, zone.is_some()),
            DataType::List(_) => Held::list(path, array.as_list::<i32>())?,
            DataType::LargeList(_) => Held::list(path, array.as_list::<i64>())?,
            DataType::FixedSizeList(_, size) => {
                let size = usize::try_from(*size).unwrap_or(0);
                let array = array.as_fixed_size_list();
                Held::List(
                    Box::new(move |row| (row * size, (row + 1) * size)),
                    Box::new(Self::new(&format!("{path}[]"), array.values())?),
                )
            }
            DataType::Struct(fields) => {
                let array = array.as_struct();
                let members = fields.iter().zip(array.columns());
                let members = members.map(|(field, column)| {
                    let name = field.name();
                    Member::new(name, &format!("{path}.{name}"), column)
                });
                Held::Struct(members.collect::<Result<_>>()?)
            }
            DataType::Dictionary(..) => {
                let array = array.as_any_dictionary();
                if array.values().is_empty() {
                    Held::Null
                } else {
                    Held::Dictionary(
                        array.normalized_keys(),
                        Box::new(Self::new(path, array.values())?),
                    )
                }
            }
            other => {
                return Err(Error::user(format!(
                    "the column '{path}' of the result is {other}, which has no form in JSON"
                ))
                .hint("cast it to text or a number before it is returned, or leave it out"));
            }
        };
        Ok(Self {
            path: path.into(),
            nulls: array.nulls(),
            held,
        })
    }

    fn is_null(&self, row: usize) -> bool {
        matches!(self.held, Held::Null) || self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }

    /// True if it holds bytes, or something that does.
    pub fn has_bytes(&self) -> bool {
        match &self.held {
            Held::Binary(_) => true,
            Held::List(_, inner) | Held::Dictionary(_, inner) => inner.has_bytes(),
            Held::Struct(members) => members.iter().any(Member::has_bytes),
            _ => false,
        }
    }

    fn refused(&self, what: &str) -> Error {
        Error::user(format!(
            "the column '{}' of the result holds {what}, which has no form in JSON",
            self.path
        ))
        .hint("put a null or a number there instead: pandas makes nulls of NaN with pa.RecordBatch.from_pandas, Polars with fill_nan(None)")
    }

    /// Writes the value of a row.
    ///
    /// # Errors
    /// `User` if that has no form in JSON.
    pub fn json(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        let unwritten =
            |e: serde_json::Error| Error::internal("JSON can't be written").caused_by(e);
        match &self.held {
            Held::Null => out.extend_from_slice(b"null"),
            Held::Bool(c) => {
                out.extend_from_slice(if c.value(row) { b"true" } else { b"false" });
            }
            Held::Int(c) => match (c.at(row), c) {
                (None, Ints::U64(c)) => serde_json::to_writer(out, &c[row]).map_err(unwritten)?,
                (number, _) => serde_json::to_writer(out, &number).map_err(unwritten)?,
            },
            Held::Float32(c) if !c[row].is_finite() => {
                return Err(self.refused(&format!("the number {}", c[row])));
            }
            Held::Float64(c) if !c[row].is_finite() => {
                return Err(self.refused(&format!("the number {}", c[row])));
            }
            Held::Float32(c) => serde_json::to_writer(out, &c[row]).map_err(unwritten)?,
            Held::Float64(c) => serde_json::to_writer(out, &c[row]).map_err(unwritten)?,
            Held::Text(c) => quoted(c.at(row), out)?,
            Held::Binary(_) => {
                return Err(self
                    .refused("bytes")
                    .hint("make a text of them (base64, hex), or leave the column out"));
            }
            Held::Decimal(c) => out.extend_from_slice(c.value_as_string(row).as_bytes()),
            Held::Day(c) => {
                let day = c.at(row).and_then(iso8601::shown_day);
                let day = day.ok_or_else(|| self.refused("a day beyond the year 9999"))?;
                write!(out, "\"{day}\"").map_err(|e| Error::internal("no text").caused_by(e))?;
            }
            Held::Time(c, unit, zoned) => {
                let time = iso8601::shown(c[row], *unit, *zoned);
                let time = time.ok_or_else(|| self.refused("a time beyond the year 9999"))?;
                write!(out, "\"{time}\"").map_err(|e| Error::internal("no text").caused_by(e))?;
            }
            Held::List(bounds, inner) => {
                let (from, to) = bounds(row);
                out.push(b'[');
                for at in from..to {
                    if at > from {
                        out.push(b',');
                    }
                    inner.json(at, out)?;
                }
                out.push(b']');
            }
            Held::Struct(members) => object(members, row, out)?,
            Held::Dictionary(keys, values) => values.json(keys[row], out)?,
        }
        Ok(())
    }

    /// The value of a row, where it is the whole value, or next to bytes.
    ///
    /// # Errors
    /// As [`Self::json`].
    pub fn datum(&self, row: usize) -> Result<Datum> {
        if self.is_null(row) {
            return Ok(Datum::Null);
        }
        Ok(match &self.held {
            Held::Bool(c) => Datum::Bool(c.value(row)),
            Held::Int(c) => match c.at(row) {
                Some(number) => Datum::Int(number),
                None => self.whole(row)?,
            },
            Held::Float32(c) => Datum::Float(c[row].into()),
            Held::Float64(c) => Datum::Float(c[row]),
            Held::Text(c) => Datum::Str(Text::from(c.at(row))),
            Held::Binary(c) => Datum::Bytes(Bytes::copy_from_slice(c(row))),
            Held::Dictionary(keys, values) => return values.datum(keys[row]),
            Held::Day(_) | Held::Time(..) => {
                let mut out = Vec::new();
                self.json(row, &mut out)?;
                let text = String::from_utf8_lossy(&out);
                Datum::text(text.trim_matches('"'))
            }
            Held::List(bounds, inner) if inner.has_bytes() => {
                let (from, to) = bounds(row);
                let items = (from..to).map(|at| inner.datum(at));
                Datum::List(items.collect::<Result<_>>()?)
            }
            Held::Struct(members) if self.has_bytes() => fields(members, row)?,
            _ => self.whole(row)?,
        })
    }

    fn whole(&self, row: usize) -> Result<Datum> {
        let mut out = Vec::new();
        self.json(row, &mut out)?;
        Ok(Datum::Json(out.into()))
    }
}

/// Writes an object of these members.
///
/// # Errors
/// `User` if one of them has no form in JSON.
pub(super) fn object(members: &[Member<'_>], row: usize, out: &mut Vec<u8>) -> Result<()> {
    out.push(b'{');
    for (at, Member { label, cells, .. }) in members.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(label);
        cells.json(row, out)?;
    }
    out.push(b'}');
    Ok(())
}

/// An object of these members, some of which contain bytes.
///
/// # Errors
/// As [`Cells::json`].
pub(super) fn fields(members: &[Member<'_>], row: usize) -> Result<Datum> {
    let members = members
        .iter()
        .map(|Member { name, cells, .. }| Ok((name.clone(), cells.datum(row)?)));
    Ok(Fields(members.collect::<Result<_>>()?).datum())
}

/// Most texts need no escaping: they are copied.
fn quoted(text: &str, out: &mut Vec<u8>) -> Result<()> {
    let plain = text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\');
    if plain {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
        return Ok(());
    }
    serde_json::to_writer(out, text)
        .map_err(|e| Error::internal("a text can't be written").caused_by(e))
}
