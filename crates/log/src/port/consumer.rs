//! What a reader of assigned partitions must be able to do for the engine.
//!
//! Calls run on the engine's own threads; none may block longer than the time it is given.

use super::{ConsumerRecord, RecordRef};
use std::time::Duration;
use stoatflow_core::{Offset, Result, TopicPartition};

/// A reader of assigned partitions.
pub trait Consumer: Send {
    /// Reads exactly these partitions from these offsets on; replaces what was assigned.
    ///
    /// # Errors
    /// `Unavailable`, `MissingTopic`.
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> Result<()>;
    /// Appends up to `max` records to `into`, per partition in offset order. Waits at most `timeout`
    /// for the first one, never for more. Slots are indices into the assignment.
    ///
    /// # Errors
    /// `Unavailable` only if the client has given up; short outages are waited out.
    fn poll(&mut self, max: usize, timeout: Duration, into: &mut Vec<ConsumerRecord>)
    -> Result<()>;
    /// As `poll`, for who copies what it needs by itself: nothing is copied on the way. Without headers.
    ///
    /// # Errors
    /// As `poll`.
    fn look(
        &mut self,
        max: usize,
        timeout: Duration,
        each: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<()> {
        let mut fetched = Vec::new();
        let outcome = self.poll(max, timeout, &mut fetched);
        for record in &fetched {
            each(RecordRef {
                slot: record.slot,
                offset: record.offset,
                timestamp: record.timestamp,
                key: record.key.as_deref(),
                value: record.value.as_deref(),
            });
        }
        outcome
    }
    /// The next offset that `poll` would give for each slot: past control records and aborted ones
    /// too, so that a reader can tell that it has reached a stable end.
    fn positions(&self) -> Vec<Offset>;
    /// Under which leader the last record before this offset was written, of what the reader has
    /// fetched (the leader epoch of KIP-320). `None` if it has fetched none, or doesn't know.
    fn leader_epoch(&self, _slot: u32, _before: Offset) -> Option<i32> {
        None
    }
    /// Has `poll` given everything of the slot that is known here to be on the broker? Asks nobody:
    /// it is of the last answer that came, and false as long as none has.
    fn caught_up(&self, slot: u32) -> bool;
    /// With a time, nothing need come before it is over, and then all that is there: a reader may leave the
    /// broker in peace until then. Holds until it is said anew. A hint, and one that a reader may know
    /// nothing of.
    fn defer(&mut self, _time: Option<Duration>) {}
    /// Has it asked for something that has not come yet? A reader may not know.
    fn has_asked(&self) -> bool {
        false
    }
    /// How long records usually take to come once they are asked for, of the slowest broker. Zero
    /// if it doesn't know.
    fn usual_answer(&self) -> Duration {
        Duration::ZERO
    }
    /// Stops fetching these slots (true) or goes on (false).
    ///
    /// # Errors
    /// `Internal` if a slot is not assigned.
    fn pause(&mut self, slots: &[u32], paused: bool) -> Result<()>;
}
