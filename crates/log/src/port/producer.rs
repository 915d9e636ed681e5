//! What a writer must be able to do for the engine, with transactions or without.
//!
//! Calls run on the engine's own threads; none may block longer than the time it is given.

use super::{CutEntry, ProducerRecord};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Offset, Partition, Result, Timestamp};

/// How a producer commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProducerMode {
    /// Everything between `begin` and `commit` appears at once. Opening one fences every older
    /// producer with the same id and aborts what it left open.
    Transactional {
        /// The transactional id: `application.id`. A broker may use a second one that is made of it.
        id: String,
        /// How long the broker keeps an open transaction of a silent producer.
        timeout: Duration,
    },
    /// Every record appears when it is acknowledged. `begin` and `commit` bound only the offsets,
    /// which still go through a (record-less) transaction of `id`, so that an older instance is
    /// fenced at its next commit.
    Plain {
        /// The transactional id of the guard: `application.id`.
        id: String,
        /// How long the broker keeps an open transaction of a silent producer.
        timeout: Duration,
    },
    /// As `Plain`, for who does not look after it with `pursue`: what is sent goes by itself, and a record
    /// that is too large is refused at once, without taking others along.
    Background {
        /// As of `Plain`.
        id: String,
        /// As of `Plain`.
        timeout: Duration,
    },
}

impl ProducerMode {
    /// The transactional id.
    #[must_use]
    pub fn id(&self) -> &str {
        let (Self::Transactional { id, .. } | Self::Plain { id, .. } | Self::Background { id, .. }) =
            self;
        id
    }

    /// How long a transaction of it may be silent.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        let (Self::Transactional { timeout, .. }
        | Self::Plain { timeout, .. }
        | Self::Background { timeout, .. }) = self;
        *timeout
    }

    /// Are records part of its transactions?
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        matches!(self, Self::Transactional { .. })
    }
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It is durable, and visible at once or a moment later: Kafka answers before its markers are
    /// written. Opening the next producer of the same id waits for them, so a recovery opens it
    /// before it asks for `committed` and `ranges`.
    Committed,
    /// It did not happen, and never will.
    Aborted,
}

/// A writer. Order of calls: (`begin`, `send`*, `flush`, `offsets`, `commit` | `abort`)*.
pub trait Producer: Send {
    /// Does the broker refuse the records, not only the commit, of this producer once a newer one
    /// has opened its id? If not, the engine keeps instances apart by time.
    fn sends_are_fenced(&self) -> bool;
    /// Opens a transaction.
    ///
    /// # Errors
    /// `Fenced`, `Internal`.
    fn begin(&mut self) -> Result<()>;
    /// Hands records over; drains `records`. Waits only when the client's own buffer is full. A
    /// producer may keep them back until those before are acknowledged.
    ///
    /// # Errors
    /// `Fenced`, `Unavailable`, `MissingTopic`, `Unauthorized`, `Serde` (record too large).
    fn send(&mut self, records: &mut Vec<ProducerRecord>) -> Result<()>;
    /// Goes on with what `send` has kept back; gives how many bytes still are. Waits for a millisecond
    /// at most.
    ///
    /// # Errors
    /// As `send`.
    fn pursue(&mut self) -> Result<usize> {
        Ok(0)
    }
    /// Waits until every record that was sent is acknowledged.
    ///
    /// # Errors
    /// As `send`; `Unavailable` after `timeout`.
    fn flush(&mut self, timeout: Duration) -> Result<()>;
    /// Adds the positions of a group to the transaction.
    ///
    /// # Errors
    /// `Fenced`, `Unavailable`.
    fn offsets(&mut self, group: &str, cut: &[CutEntry], timeout: Duration) -> Result<()>;
    /// Ends the transaction.
    ///
    /// # Errors
    /// `Fenced`; `UnknownOutcome` if the broker didn't answer within `timeout`.
    fn commit(&mut self, timeout: Duration) -> Result<CommitOutcome>;
    /// Drops the transaction.
    ///
    /// # Errors
    /// `Fenced`, `Unavailable`.
    fn abort(&mut self, timeout: Duration) -> Result<()>;
    /// For the given topic: per partition one past the highest offset acknowledged so far by this
    /// producer (since it was opened); partitions that got nothing are absent. Valid after `flush`.
    fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)>;
    /// The broker's clock at the last acknowledged record of a topic with
    /// `message.timestamp.type=LogAppendTime`, if there was one. Valid after `flush`.
    fn append_time(&self) -> Option<Timestamp> {
        None
    }
    /// How often its epochs have run out, so that the broker gave it another id.
    fn rollovers(&self) -> u64 {
        0
    }
    /// Tells the producer for which topics it must remember acknowledged offsets. One that remembers all has
    /// nothing to do.
    fn remember(&mut self, _topics: &[Arc<str>]) {}
    /// Tells the producer where a remembered partition ends, to which nobody else writes. One that
    /// can tell fails with `Incompatible` when the next record gets an offset before it: the broker
    /// has lost records.
    fn note_end(&mut self, _topic: &str, _partition: Partition, _end: Offset) {}
}
