//! The content of a partition of the test broker.

use crate::kafka::native::records::batch_writer::Identity;
use bytes::Bytes;

/// A batch in a log: its producer, and the outcome of its transaction.
#[derive(Clone, Debug)]
pub(in crate::kafka::native) struct Entry {
    pub owner: Identity,
    pub first: i32,
    pub values: Vec<Bytes>,
    pub committed: Option<bool>,
    /// Its base offset, and its bytes in the log.
    pub base: i64,
    pub bytes: Bytes,
    /// For the marker of a transaction: its producer id.
    pub mark: Option<i64>,
}

impl Entry {
    /// One past its last offset.
    pub(in crate::kafka::native) fn end(&self) -> i64 {
        let count = i64::try_from(self.values.len()).unwrap();
        self.base + if self.mark.is_some() { 1 } else { count }
    }
}
