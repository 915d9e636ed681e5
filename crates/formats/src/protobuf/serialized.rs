//! A message that another library serialized: an object of a generated class.
//!
//! Takes its type's name and its bytes; a sink with that type takes the bytes. Never decodes them.

use bytes::Bytes;
use std::any::Any;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Opaque, Result};

/// See the module.
#[derive(Clone, Debug)]
pub struct Serialized {
    /// The full name of its type.
    pub name: String,
    /// Its serialized bytes.
    pub bytes: Bytes,
}

impl Serialized {
    /// The message in a datum.
    #[must_use]
    pub fn of(datum: &Datum) -> Option<&Self> {
        datum.opaque()
    }

    /// Wraps the message in a datum.
    #[must_use]
    pub fn datum(self) -> Datum {
        Datum::Opaque(Arc::new(self))
    }
}

impl Opaque for Serialized {
    fn to_json(&self) -> Result<Bytes> {
        Err(Error::serde(format!(
            "JSON has no form for a Protobuf message of the type {}",
            self.name
        ))
        .hint("return a dict, or write it with Serdes.protobuf(...)"))
    }

    fn type_name(&self) -> String {
        self.name.clone()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn changes(&self) -> bool {
        false
    }

    fn weight(&self) -> usize {
        self.bytes.len() + size_of::<Self>()
    }
}
