//! The messages between the operators of a join by foreign key.
//!
//! Gives messages as values of records, for their walk between lanes. They never reach a user's function, a
//! store or a topic.

use bytes::Bytes;
use std::any::Any;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Opaque, Record, Result, Serde};

/// Which left value a subscription and its answers speak of; `None`: there is none.
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
    /// The row has this foreign key no more.
    pub delete: bool,
    /// Without a right value the answer is a tombstone, whatever was before (else a quiet one: there
    /// is an answer always, because the one to an earlier value may have been dropped as stale).
    pub always: bool,
}

/// From the foreign key's lane to the left row (the record's key).
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The left value that was subscribed with.
    pub fingerprint: Fingerprint,
    /// Null if there is none.
    pub right: Datum,
    /// There is no right value, and only a row that is there has to be taken back.
    pub quiet: bool,
}

/// From the join to the table of its rows, instead of a row: a tombstone where there is one, else nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakeBack;

impl TakeBack {
    /// Is this value one?
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
            /// What a record carries.
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
message!(TakeBack, "row to take back");
