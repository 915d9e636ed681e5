//! Values without parts: how they are encoded, and what they decode to.

use super::scan::{Cursor, Raw, Scanned};
use super::schema::{Enum, Node, Schema};
use crate::make::Leaf;
use stoatflow_core::{Error, Result};

/// The type of a value without parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // as in .proto files
pub enum Scalar {
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Sint32,
    Sint64,
    Fixed32,
    Fixed64,
    Sfixed32,
    Sfixed64,
    Float,
    Double,
    Bytes,
    String {
        /// Whether it must be UTF-8 when the value is read. In proto2 this is only checked when the text
        /// is decoded.
        checked: bool,
    },
}

impl Raw<'_> {
    /// The number of an enum value: a longer varint loses its upper half, as in Protobuf's own
    /// libraries.
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
    pub fn number(self) -> i32 {
        match self {
            Raw::Varint(number) => number as i32,
            _ => 0,
        }
    }
}

impl Scalar {
    /// The name in .proto files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Sint32 => "sint32",
            Self::Sint64 => "sint64",
            Self::Fixed32 => "fixed32",
            Self::Fixed64 => "fixed64",
            Self::Sfixed32 => "sfixed32",
            Self::Sfixed64 => "sfixed64",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bytes => "bytes",
            Self::String { .. } => "string",
        }
    }

    /// The default where the field is not written.
    pub(super) const fn zero(self) -> Leaf<'static> {
        match self {
            Self::Bool => Leaf::Bool(false),
            Self::Float | Self::Double => Leaf::Float(0.0),
            Self::Bytes => Leaf::Bytes(&[]),
            Self::String { .. } => Leaf::Text(""),
            _ => Leaf::Int(0),
        }
    }

    /// Whether several of them can be packed, without tags.
    pub(super) const fn packs(self) -> bool {
        !matches!(self, Self::Bytes | Self::String { .. })
    }

    /// Whether it is an integer.
    pub(super) const fn is_whole(self) -> bool {
        !matches!(
            self,
            Self::Bool | Self::Float | Self::Double | Self::Bytes | Self::String { .. }
        )
    }

    /// The wire type: the low bits of a tag.
    pub(super) const fn wire(self) -> u8 {
        match self {
            Self::Fixed64 | Self::Sfixed64 | Self::Double => 1,
            Self::Bytes | Self::String { .. } => 2,
            Self::Fixed32 | Self::Sfixed32 | Self::Float => 5,
            _ => 0,
        }
    }

    /// Whether `raw` has the wire type of this scalar.
    pub(super) const fn fits(self, raw: Raw<'_>) -> bool {
        matches!(
            (self.wire(), raw),
            (0, Raw::Varint(_)) | (1, Raw::Fixed64(_)) | (2, Raw::Sized(_)) | (5, Raw::Fixed32(_))
        )
    }

    /// The next value of a packed field.
    pub(super) fn next<'a>(self, cursor: &mut Cursor<'a>) -> Scanned<Raw<'a>> {
        match self.wire() {
            1 => cursor.array().map(Raw::Fixed64),
            5 => cursor.array().map(Raw::Fixed32),
            _ => cursor.varint().map(Raw::Varint),
        }
    }

    /// Decodes a value. Numbers that are too long lose their upper half, as in Protobuf's own libraries.
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
    pub(super) fn leaf<'a>(self, raw: Raw<'a>, schema: &Schema) -> Result<Leaf<'a>> {
        Ok(match (self, raw) {
            (Self::Bool, Raw::Varint(n)) => Leaf::Bool(n != 0),
            (Self::Int32, Raw::Varint(n)) => Leaf::Int(i64::from(n as i32)),
            (Self::Int64, Raw::Varint(n)) => Leaf::Int(n as i64),
            (Self::Uint32, Raw::Varint(n)) => Leaf::Int(i64::from(n as u32)),
            (Self::Uint64, Raw::Varint(n)) => whole(n),
            (Self::Sint32, Raw::Varint(n)) => {
                let n = n as u32;
                Leaf::Int(i64::from((n >> 1) as i32 ^ -((n & 1) as i32)))
            }
            (Self::Sint64, Raw::Varint(n)) => Leaf::Int((n >> 1) as i64 ^ -((n & 1) as i64)),
            (Self::Fixed32, Raw::Fixed32(b)) => Leaf::Int(i64::from(u32::from_le_bytes(b))),
            (Self::Sfixed32, Raw::Fixed32(b)) => Leaf::Int(i64::from(i32::from_le_bytes(b))),
            (Self::Float, Raw::Fixed32(b)) => Leaf::Float(f64::from(f32::from_le_bytes(b))),
            (Self::Fixed64, Raw::Fixed64(b)) => whole(u64::from_le_bytes(b)),
            (Self::Sfixed64, Raw::Fixed64(b)) => Leaf::Int(i64::from_le_bytes(b)),
            (Self::Double, Raw::Fixed64(b)) => Leaf::Float(f64::from_le_bytes(b)),
            (Self::Bytes, Raw::Sized(bytes)) => Leaf::Bytes(bytes),
            (Self::String { .. }, Raw::Sized(text)) => match std::str::from_utf8(text) {
                Ok(text) => Leaf::Text(text),
                Err(_) => {
                    return Err(Error::serde(format!(
                        "a text in a Protobuf message '{}' is not UTF-8",
                        schema.title()
                    ))
                    .hint("fix the producer, or make the field one of bytes"));
                }
            },
            // Excluded by `fits`, which was called before.
            _ => Leaf::Null,
        })
    }
}

/// An integer from unsigned 64 bits.
pub(super) fn whole(number: u64) -> Leaf<'static> {
    i64::try_from(number).map_or(Leaf::Large(number), Leaf::Int)
}

impl Enum {
    /// The name of an enum value; a number without a name stays a number.
    pub(super) fn leaf(&self, number: i32) -> Leaf<'_> {
        match self.by_number.get(&number) {
            Some(word) => Leaf::Text(word.as_str()),
            None => Leaf::Int(i64::from(number)),
        }
    }
}

impl Node {
    /// The wire type of a value without parts.
    pub(super) const fn wire(&self) -> Option<u8> {
        match self {
            Self::Scalar(scalar) => Some(scalar.wire()),
            Self::Enum(_) => Some(0),
            _ => None,
        }
    }

    /// The scalar type in which values of this node are packed, if they can be.
    pub(super) const fn packs(&self) -> Option<Scalar> {
        match self {
            Self::Scalar(scalar) if scalar.packs() => Some(*scalar),
            Self::Enum(_) => Some(Scalar::Int32),
            _ => None,
        }
    }
}
