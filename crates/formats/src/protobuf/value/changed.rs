//! A message with other values in some of its fields.
//!
//! Takes a message and members, gives what is written as that message with those members: all else is copied,
//! with the fields that its type doesn't know. For whoever knows nothing of Protobuf it is its members. Never
//! checks that the fields exist: whoever writes it does.

use super::ProtobufValue;
use bytes::Bytes;
use std::any::Any;
use stoatflow_core::{Datum, Fields, Opaque, Open, Result};

/// See the module.
#[derive(Debug)]
pub struct ChangedMessage {
    /// What it was.
    pub message: ProtobufValue,
    /// What is different.
    pub changes: Fields,
}

impl ChangedMessage {
    /// The changed message in a datum.
    #[must_use]
    pub fn of(datum: &Datum) -> Option<&Self> {
        datum.opaque()
    }

    /// All of its members.
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
