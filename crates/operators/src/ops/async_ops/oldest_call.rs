//! The call of an async function that has run for the longest time: what holds up its key.

use bytes::Bytes;
use std::fmt::Debug;
use std::time::Duration;

/// A call, and what waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldestCall {
    /// Its key, as it is written; null has none.
    pub key: Option<Bytes>,
    /// For how long it has run.
    pub age: Duration,
    /// Calls of the same key that wait for its answer.
    pub behind: usize,
}

/// Knows the calls of a lane.
pub(super) trait RunningCalls: Debug + Send + Sync {
    /// The one that has run for the longest time.
    fn oldest(&self) -> Option<OldestCall>;
}
