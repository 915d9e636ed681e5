//! A range of keys.

use bytes::Bytes;

/// A range of keys: `from` inclusive, `to` exclusive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// First key; `None` from the beginning.
    pub from: Option<Bytes>,
    /// One past the last key; `None` to the end.
    pub to: Option<Bytes>,
    /// Whether keys are in descending order.
    pub reverse: bool,
}

impl KeyRange {
    /// True if its bounds exclude all keys. (RocksDB refuses such bounds.)
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!((&self.from, &self.to), (Some(from), Some(to)) if from >= to)
    }
}
