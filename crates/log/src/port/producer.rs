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
    /// Everything between `begin` and `commit` becomes visible at once. Opening such a producer fences
    /// every older one with the same id and aborts its open transaction.
    Transactional {
        /// The transactional id: `application.id`. A broker may derive a second one from it.
        id: String,
        /// How long the broker keeps an open transaction of a silent producer.
        timeout: Duration,
    },
    /// Every record becomes visible when it is acknowledged. `begin` and `commit` only enclose the
    /// offsets, which are still committed in a transaction of `id` (without records), so that an older
    /// instance is fenced at its next commit.
    Plain {
        /// The transactional id for the offsets: `application.id`.
        id: String,
        /// How long the broker keeps an open transaction of a silent producer.
        timeout: Duration,
    },
    /// Like `Plain`, for a caller that doesn't call `send_pending`: records are sent without it, and a record
    /// that is too large is refused at once, without failing others.
    Background {
        /// As in `Plain`.
        id: String,
        /// As in `Plain`.
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

    /// How long the broker keeps an open transaction of a silent producer.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        let (Self::Transactional { timeout, .. }
        | Self::Plain { timeout, .. }
        | Self::Background { timeout, .. }) = self;
        *timeout
    }

    /// Whether records are part of its transactions.
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        matches!(self, Self::Transactional { .. })
    }
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// It is durable, and visible at once or a moment later: Kafka answers before it writes the
    /// transaction markers. Opening the next producer of the same id waits for them, so a recovery does
    /// that before it calls `committed` and `ranges`.
    Committed,
    /// It was not committed, and never will be.
    Aborted,
}

/// A writer. Order of calls: (`begin`, `send`*, `flush`, `offsets`, `commit` | `abort`)*.
pub trait Producer: Send {
    /// Whether the broker refuses the records, and not only the commit, of this producer once a newer
    /// one has been opened with its id. If not, the engine keeps instances apart by a lease.
    fn sends_are_fenced(&self) -> bool;
    /// Opens a transaction.
    ///
    /// # Errors
    /// `Fenced`, `Internal`.
    fn begin(&mut self) -> Result<()>;
    /// Takes over the records; drains `records`. Waits only while the client's own buffer is full. A
    /// producer may hold records back until earlier ones are acknowledged.
    ///
    /// # Errors
    /// `Fenced`, `Unavailable`, `MissingTopic`, `Unauthorized`, `Serde` (record too large).
    fn send(&mut self, records: &mut Vec<ProducerRecord>) -> Result<()>;
    /// Sends records that `send` has held back; returns how many bytes are still held back. Waits at
    /// most a millisecond.
    ///
    /// # Errors
    /// As `send`.
    fn send_pending(&mut self) -> Result<usize> {
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
    /// Aborts the transaction.
    ///
    /// # Errors
    /// `Fenced`, `Unavailable`.
    fn abort(&mut self, timeout: Duration) -> Result<()>;
    /// For the given topic, per partition: one past the highest offset acknowledged to this producer
    /// since it was opened. Partitions without acknowledged records are absent. Valid after `flush`.
    fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)>;
    /// The broker's clock at the last acknowledged record of a topic with
    /// `message.timestamp.type=LogAppendTime`; `None` if there was none. Valid after `flush`.
    fn append_time(&self) -> Option<Timestamp> {
        None
    }
    /// The producer ids of its transactions; empty if the client doesn't report them.
    fn producer_ids(&self) -> Vec<i64> {
        Vec::new()
    }
    /// How often its producer epochs were used up, so that the broker assigned a new producer id.
    fn rollovers(&self) -> u64 {
        0
    }
    /// Names the topics whose acknowledged offsets the producer must remember. A producer that remembers
    /// all of them has nothing to do.
    fn remember(&mut self, _topics: &[Arc<str>]) {}
    /// Tells the producer the end of a remembered partition that nobody else writes to. A producer that
    /// can check it fails with `Incompatible` when the next record gets a smaller offset: the broker has
    /// lost records.
    fn expect_end_offset(&mut self, _topic: &str, _partition: Partition, _end: Offset) {}
}
