//! A record with new values in some of its fields.
//!
//! Takes a record and members, and is written as that record with those members: the fields between them
//! are copied. For code that doesn't know Avro it is an object with all members. Doesn't check that the
//! fields exist: the encoder does.

use super::AvroValue;
use bytes::Bytes;
use std::any::Any;
use stoatflow_core::{Datum, Fields, Opaque, Open, Result};

/// See the module.
#[derive(Debug)]
pub struct ChangedRecord {
    /// The original record.
    pub record: AvroValue,
    /// The new values.
    pub changes: Fields,
}

impl ChangedRecord {
    /// The changed record in a datum.
    #[must_use]
    pub fn of(datum: &Datum) -> Option<&Self> {
        datum.opaque()
    }

    /// All its members.
    pub(in crate::avro) fn members(&self) -> Result<Fields> {
        let mut members = self.record.as_written()?;
        members.set(&self.changes);
        Ok(members)
    }
}

impl Opaque for ChangedRecord {
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
        self.record.weight() + self.changes.weight()
    }
}
