//! The messages between the operators of a foreign-key join.
//!
//! Messages are values of records while they move between lanes. They never reach a user's function, a
//! store or a topic.

use bytes::Bytes;
use std::any::Any;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Opaque, Record, Result, Serde};

/// Identifies the left value of a subscription and its answers; `None`: there is no value.
pub(crate) type Fingerprint = Option<u64>;

/// The fingerprint of a left value.
pub(crate) fn fingerprint(value: &Datum, serde: &Serde) -> Result<Fingerprint> {
    let bytes = serde.encode(value)?;
    Ok(bytes.map(|bytes| crate::key_hash(&bytes)))
}

/// From a left row to the lane of its foreign key (the record's key).
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    /// The left key, and its bytes.
    pub left: Datum,
    pub left_bytes: Bytes,
    pub fingerprint: Fingerprint,
    /// True if the row no longer has this foreign key.
    pub delete: bool,
    /// True if the answer without a right value is always a tombstone. Otherwise it is a quiet answer:
    /// an answer is always sent, because that to an earlier value may have been dropped as stale.
    pub always: bool,
}

/// From the foreign key's lane to the left row (the record's key).
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The left value that subscribed.
    pub fingerprint: Fingerprint,
    /// The right value; null if there is none.
    pub right: Datum,
    /// True if there is no right value, and only an existing row has to be retracted.
    pub quiet: bool,
}

/// From the join to the table of its rows, instead of a row: a tombstone if the row exists, else
/// nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retract;

impl Retract {
    /// Whether this value is one.
    pub fn is(value: &Datum) -> bool {
        matches!(value, Datum::Opaque(value) if value.as_any().is::<Self>())
    }
}

macro_rules! message {
    ($name:ident, $word:literal) => {
        impl Opaque for $name {
            fn to_json(&self) -> Result<Bytes> {
                Err(Error::internal(concat!("a ", $word, " has no JSON form")))
            }
            fn type_name(&self) -> String {
                $word.into()
            }
            fn as_any(&self) -> &dyn Any {
                self
            }
        }

        impl $name {
            pub fn wrap(self) -> Datum {
                Datum::Opaque(Arc::new(self))
            }
        }
    };
}

macro_rules! carried {
    ($name:ident, $word:literal) => {
        impl $name {
            /// The message in a record's value.
            pub fn of(record: &Record) -> Result<&Self> {
                let found = record.value.opaque();
                found.ok_or_else(|| Error::internal(concat!("a ", $word, " was expected")))
            }
        }
    };
}

carried!(Subscription, "subscription");
carried!(Answer, "answer");
message!(Subscription, "subscription");
message!(Answer, "answer");
message!(Retract, "row to take back");
