//! What lies in a partition of the broker of the tests.

use crate::kafka::native::records::batch_writer::Identity;
use bytes::Bytes;

/// A batch in a log: whose it is, and what became of its transaction.
#[derive(Clone, Debug)]
pub(in crate::kafka::native) struct Entry {
    pub owner: Identity,
    pub first: i32,
    pub values: Vec<Bytes>,
    pub committed: Option<bool>,
    /// Its place, and how it lies there.
    pub base: i64,
    pub bytes: Bytes,
    /// The mark of a transaction's end, and whose it was.
    pub mark: Option<i64>,
}

impl Entry {
    /// One past its last offset.
    pub(in crate::kafka::native) fn end(&self) -> i64 {
        let count = i64::try_from(self.values.len()).unwrap();
        self.base + if self.mark.is_some() { 1 } else { count }
    }
}
