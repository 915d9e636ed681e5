//! What a reader of assigned partitions must be able to do for the engine.
//!
//! Calls run on the engine's own threads; none may block longer than the time it is given.

use super::{ConsumerRecord, RecordRef};
use std::time::Duration;
use stoatflow_core::{Offset, Result, TopicPartition, headers_to_bytes};

/// A reader of assigned partitions.
pub trait Consumer: Send {
    /// Reads exactly these partitions from these offsets on; replaces the previous assignment.
    ///
    /// # Errors
    /// `Unavailable`, `MissingTopic`.
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> Result<()>;
    /// Appends up to `max` records to `into`, in offset order per partition. Waits at most `timeout` for
    /// the first record, and not at all for more. Slots are indices into the assignment.
    ///
    /// # Errors
    /// `Unavailable` only if the client has given up; short outages are waited out.
    fn poll(&mut self, max: usize, timeout: Duration, into: &mut Vec<ConsumerRecord>)
    -> Result<()>;
    /// Like `poll`, but passes borrowed records to `each`; nothing is copied.
    ///
    /// # Errors
    /// As `poll`.
    fn poll_borrowed(
        &mut self,
        max: usize,
        timeout: Duration,
        each: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<()> {
        let mut fetched = Vec::new();
        let outcome = self.poll(max, timeout, &mut fetched);
        for record in &fetched {
            let headers = headers_to_bytes(&record.headers);
            each(RecordRef {
                slot: record.slot,
                offset: record.offset,
                timestamp: record.timestamp,
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: &headers,
            });
        }
        outcome
    }
    /// The next offset that `poll` would return for each slot. It moves past control records and aborted
    /// records too, so that a reader can tell that it has reached a stable end.
    fn positions(&self) -> Vec<Offset>;
    /// The leader epoch (KIP-320) of the last record before this offset, among those that the reader has
    /// fetched. `None` if it has fetched none, or doesn't know.
    fn leader_epoch(&self, _slot: u32, _before: Offset) -> Option<i32> {
        None
    }
    /// Whether `poll` has returned every record of the slot that the last fetch response reported. Sends
    /// no request; false until the first response arrives.
    fn caught_up(&self, slot: u32) -> bool;
    /// With a duration, records need not arrive before it is over, and then all of them at once: a
    /// reader may send no fetch request until then. Applies until the next call. A hint that a reader
    /// may ignore.
    fn defer_fetch(&mut self, _time: Option<Duration>) {}
    /// Whether a request is in flight. A reader may not know.
    fn has_asked(&self) -> bool {
        false
    }
    /// How long the slowest broker usually takes to answer a fetch request with records. Zero if
    /// unknown.
    fn usual_answer(&self) -> Duration {
        Duration::ZERO
    }
    /// Pauses (true) or resumes (false) fetching these slots.
    ///
    /// # Errors
    /// `Internal` if a slot is not assigned.
    fn pause(&mut self, slots: &[u32], paused: bool) -> Result<()>;
}
