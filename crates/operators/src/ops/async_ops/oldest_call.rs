//! The call of an async function that has run the longest: it holds up its key.

use bytes::Bytes;
use std::fmt::Debug;
use std::time::Duration;

/// A call, and the number of calls that wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldestCall {
    /// Its key, serialized; `None` for a null key.
    pub key: Option<Bytes>,
    /// How long it has been running.
    pub age: Duration,
    /// Calls of the same key that wait for its answer.
    pub behind: usize,
}

/// The calls of a lane.
pub(super) trait RunningCalls: Debug + Send + Sync {
    /// The call that has run the longest.
    fn oldest(&self) -> Option<OldestCall>;
}
