//! A value of any format, with the operations that all formats have.

use crate::avro::{self, AvroValue};
use crate::make::Maker;
use crate::protobuf::{self, ProtobufValue};
use bytes::Bytes;
use stoatflow_core::{Datum, Opaque, Result};

/// A step into a value.
#[derive(Clone, Copy, Debug)]
pub enum PathStep<'a> {
    /// A field of a record, or an entry of a map.
    Member(&'a str),
    /// An element of an array.
    Element(usize),
}

/// A value with a schema.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// An Avro value.
    Avro(&'a AvroValue),
    /// A Protobuf value.
    Protobuf(&'a ProtobufValue),
}

/// The parts of an object that needs no foreign runtime: a value of a format, as read or with changes,
/// or an object that was built natively. Returns a list, [`Fields`](stoatflow_core::Fields) or a scalar;
/// `None` for everything else, such as JSON text or a foreign object.
#[must_use]
pub fn parts(datum: &Datum) -> Option<Result<Datum>> {
    let Datum::Opaque(object) = datum else {
        return None;
    };
    if let Some(open) = object.open() {
        return Some(open.parts());
    }
    if is_changed(&**object) {
        return object.parts().transpose();
    }
    None
}

fn is_changed(object: &dyn Opaque) -> bool {
    let object = object.as_any();
    object.is::<avro::ChangedRecord>() || object.is::<protobuf::ChangedMessage>()
}

impl<'a> Value<'a> {
    /// The value in a datum.
    #[must_use]
    pub fn of(datum: &'a Datum) -> Option<Self> {
        match datum {
            Datum::Opaque(object) => Self::of_object(&**object),
            _ => None,
        }
    }

    /// The value in a foreign object.
    #[must_use]
    pub fn of_object(object: &'a dyn Opaque) -> Option<Self> {
        let object = object.as_any();
        if let Some(value) = object.downcast_ref() {
            return Some(Self::Avro(value));
        }
        object.downcast_ref().map(Self::Protobuf)
    }

    /// The encoded bytes, without a header.
    #[must_use]
    pub const fn bytes(self) -> &'a Bytes {
        match self {
            Self::Avro(value) => value.bytes(),
            Self::Protobuf(value) => value.bytes(),
        }
    }

    /// Follows a path; null where nothing is found.
    ///
    /// # Errors
    /// `User` for a member of a value without members, `Serde` for damaged bytes.
    pub fn walk<'p>(self, path: impl IntoIterator<Item = PathStep<'p>>) -> Result<Datum> {
        match self {
            Self::Avro(value) => value.walk(path),
            Self::Protobuf(value) => value.walk(path),
        }
    }

    /// The elements of a list; `None` for other types.
    ///
    /// # Errors
    /// `Serde` for damaged bytes.
    pub fn elements(self) -> Result<Option<Vec<Datum>>> {
        match self {
            Self::Avro(value) => value.elements(),
            Self::Protobuf(value) => value.elements(),
        }
    }

    /// True for an object, false for a list.
    ///
    /// # Errors
    /// `Serde` for damaged bytes.
    pub fn is_object(self) -> Result<bool> {
        match self {
            Self::Avro(value) => value.is_object(),
            Self::Protobuf(value) => Ok(value.is_object()),
        }
    }

    /// The number of elements of a list, or of members of an object.
    ///
    /// # Errors
    /// `Serde` for damaged bytes.
    pub fn length(self) -> Result<usize> {
        match self {
            Self::Avro(value) => value.length(),
            Self::Protobuf(value) => value.length(),
        }
    }

    /// Converts the whole value for another language.
    ///
    /// # Errors
    /// `Serde` for damaged bytes, and those of the maker.
    pub fn make<M: Maker>(self, maker: &mut M) -> Result<M::Made, M::Trouble> {
        match self {
            Self::Avro(value) => avro::make(value, maker),
            Self::Protobuf(value) => protobuf::make(value, maker),
        }
    }
}
