//! A record with other values in some of its fields.
//!
//! Takes a record and members, gives what is written as that record with those members: what lies between
//! them is copied. For whoever knows nothing of Avro it is its members. Never checks that the fields exist:
//! whoever writes it does.

use super::AvroValue;
use bytes::Bytes;
use std::any::Any;
use stoatflow_core::{Datum, Fields, Opaque, Open, Result};

/// See the module.
#[derive(Debug)]
pub struct ChangedRecord {
    /// What it was.
    pub record: AvroValue,
    /// What is different.
    pub changes: Fields,
}

impl ChangedRecord {
    /// The changed record in a datum.
    #[must_use]
    pub fn of(datum: &Datum) -> Option<&Self> {
        datum.opaque()
    }

    /// All of its members.
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
