//! A message with new values in some of its fields.
//!
//! Takes a message and members, and is written as that message with those members: everything else is
//! copied, including fields that its type doesn't know. For code that doesn't know Protobuf it is an
//! object with all members. Doesn't check that the fields exist: the encoder does.

use super::ProtobufValue;
use bytes::Bytes;
use std::any::Any;
use stoatflow_core::{Datum, Fields, Opaque, Open, Result};

/// See the module.
#[derive(Debug)]
pub struct ChangedMessage {
    /// The original message.
    pub message: ProtobufValue,
    /// The new values.
    pub changes: Fields,
}

impl ChangedMessage {
    /// The changed message in a datum.
    #[must_use]
    pub fn of(datum: &Datum) -> Option<&Self> {
        datum.opaque()
    }

    /// All its members.
    pub(in crate::protobuf) fn members(&self) -> Result<Fields> {
        let mut members = self.message.as_written()?;
        members.set(&self.changes);
        Ok(members)
    }
}

impl Opaque for ChangedMessage {
    fn to_json(&self) -> Result<Bytes> {
        self.members()?.to_json()
    }

    fn parts(&self) -> Result<Option<Datum>> {
        Ok(Some(self.members()?.datum()))
    }

    fn type_name(&self) -> String {
        "object".into()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn weight(&self) -> usize {
        self.message.weight() + self.changes.weight()
    }
}
