//! The types of the port: what a broker must be able to do for the engine.
//!
//! All calls are synchronous and run on the engine's own threads (intake and commit); none may
//! block longer than the time it is given. Every implementation passes [`crate::contract`].

mod client_counts;
mod consumer;
mod producer;

use bytes::Bytes;
pub use client_counts::{ClientCounts, ConnectionCounts, RequestCounts, RequestDurations};
pub use consumer::Consumer;
pub use producer::{CommitOutcome, Producer, ProducerMode};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Headers, Offset, Partition, Result, Timestamp, TopicPartition};

/// A record as read from the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRecord {
    /// Index into the list passed to [`Consumer::assign`].
    pub slot: u32,
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Option<Bytes>,
    /// Its headers.
    pub headers: Headers,
    /// Its order number; 0 until it is admitted.
    pub number: u64,
}

/// A record whose key, value and headers are borrowed from the client's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// As in [`ConsumerRecord`].
    pub slot: u32,
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    /// Its headers, as [`stoatflow_core::headers_to_bytes`] writes them.
    pub headers: &'a [u8],
}

/// A record on its way to the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerRecord {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition; `None` chooses it by the key (murmur2 as in Java; null keys are spread).
    pub partition: Option<Partition>,
    /// The key.
    pub key: Option<Bytes>,
    /// The value.
    pub value: Option<Bytes>,
    /// The timestamp.
    pub timestamp: Timestamp,
    /// Headers.
    pub headers: Headers,
}

/// A topic as the broker describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its name.
    pub name: Arc<str>,
    /// How many partitions it has.
    pub partitions: i32,
    /// The id that the cluster assigned (KIP-516): a topic that was deleted and created again has
    /// another one. `None` where topics have no ids.
    pub id: Option<Arc<str>>,
}

/// What a cluster deletes after a while by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterExpiry {
    /// Nothing: committed offsets and tombstones stay.
    Never,
    /// As Kafka: offsets of a group without members expire (`offsets.retention.minutes`), and
    /// compaction removes tombstones (`delete.retention.ms`).
    AfterRetention,
}

/// A topic to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions.
    pub partitions: i32,
    /// Replicas; -1 is the broker's default.
    pub replication: i32,
    /// Settings such as `cleanup.policy=compact`.
    pub config: Vec<(String, String)>,
}

/// A committed position of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The next offset to read.
    pub offset: Offset,
    /// The metadata committed with it (the watermark).
    pub metadata: String,
}

/// A group that has members, or whose coordinator reports that it is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInUse {
    /// The state that the coordinator reports (`Stable`, `PreparingRebalance`, ...).
    pub state: String,
    /// Its members. Empty if only the state is known.
    pub members: Vec<GroupMember>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Its client id.
    pub client_id: String,
    /// The host it is connected from.
    pub host: String,
}

/// One entry of a cut: the next offset of a partition, and its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutEntry {
    /// The partition.
    pub partition: TopicPartition,
    /// The next offset to read.
    pub offset: Offset,
    /// The metadata committed with it (the watermark).
    pub metadata: String,
}

/// The readable range of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first offset that exists.
    pub begin: Offset,
    /// One past the last offset that a `read_committed` reader may see (the last stable offset).
    pub stable_end: Offset,
}

/// A transaction that is open in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// The producer's id.
    pub producer: i64,
    /// Its epoch.
    pub epoch: i32,
    /// The first offset of the transaction: no `read_committed` reader goes past it.
    pub start: Offset,
    /// The timestamp of the producer's last record.
    pub last: Timestamp,
    /// The epoch of the coordinator that wrote the producer's last marker; -1 before the first one.
    pub coordinator_epoch: i32,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// Its records become visible.
    Committed,
    /// Its records stay invisible for good.
    Aborted,
}

/// The last transaction of a transactional id, as its coordinator remembers it until the id is opened
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastTransaction {
    /// The producer's id.
    pub producer: i64,
    /// The epoch of its records.
    pub epoch: i32,
    /// How it has ended.
    pub outcome: TransactionOutcome,
}

impl LastTransaction {
    /// Whether this is the transaction that is open in a partition.
    #[must_use]
    pub fn is(&self, open: &OpenTransaction) -> bool {
        (self.producer, self.epoch) == (open.producer, open.epoch)
    }
}

/// The client that talks to a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInUse {
    /// `native`, `librdkafka` or `none`.
    pub name: &'static str,
    /// Why this client was chosen.
    pub why: String,
}

/// Access to a broker. Cheap to share; opens consumers and producers.
pub trait Broker: Send + Sync + Debug {
    /// Returns the address, for messages (`localhost:9092`, `embedded:/data`).
    fn address(&self) -> String;
    /// Describes these topics; a missing one is `None`. Waits at most `timeout`.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`.
    fn topics(&self, names: &[&str], timeout: Duration) -> Result<Vec<Option<TopicInfo>>>;
    /// The client in use, and why it was chosen.
    fn client(&self) -> ClientInUse {
        ClientInUse {
            name: "none",
            why: "topics are kept in this process".to_owned(),
        }
    }
    /// Total time for which a quota of the broker has throttled this application.
    fn throttled(&self) -> Duration {
        Duration::ZERO
    }
    /// What the clients have done since the start, by role; empty if the client doesn't count.
    fn client_counts(&self) -> Vec<ClientCounts> {
        Vec::new()
    }
    /// Whether committed offsets and tombstones expire.
    fn expiry(&self) -> ClusterExpiry;
    /// How long each topic keeps a tombstone once compaction has passed it (`delete.retention.ms`);
    /// `None` for a topic that is not compacted. In the order of `topics`. Waits at most `timeout`.
    ///
    /// # Errors
    /// `Unavailable`, `MissingTopic`, `Unauthorized`.
    fn tombstone_retention(
        &self,
        topics: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Option<Duration>>> {
        let _ = timeout;
        Ok(vec![None; topics.len()])
    }
    /// The names of all topics, sorted. Waits at most `timeout`.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`.
    fn topic_names(&self, timeout: Duration) -> Result<Vec<Arc<str>>>;
    /// Asks every reachable broker for the leaders of these topics. Afterwards stale metadata is
    /// refused: a broker that was paused, or is cut off from the controllers, would report log ends that
    /// newer records follow. Waits at most `timeout`.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`.
    fn learn_leaders(&self, topics: &[&str], timeout: Duration) -> Result<()> {
        let _ = (topics, timeout);
        Ok(())
    }
    /// Creates topics; leaves those that exist already as they are.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`, `Config` (a setting the broker refuses).
    fn create_topics(&self, topics: &[NewTopic], timeout: Duration) -> Result<()>;
    /// Deletes topics, and waits until no broker reports them any more; a topic that doesn't exist is no
    /// error. Offsets that groups have committed for them are removed (on a cluster possibly a moment
    /// later).
    ///
    /// # Errors
    /// `Unavailable` (also if they are still there after `timeout`), `Unauthorized`, `Config` (the broker
    /// deletes no topics).
    fn delete_topics(&self, names: &[&str], timeout: Duration) -> Result<()>;
    /// The committed positions of a group, in the order of `partitions`.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`.
    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>>;
    /// Like [`Self::committed`], without waiting for transactions that are pending for a partition: its
    /// offset is then that of the commit before. The second value says whether one is pending.
    ///
    /// # Errors
    /// As [`Self::committed`].
    fn committed_despite_pending(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<(Option<Committed>, bool)>> {
        let committed = self.committed(group, partitions, timeout)?;
        Ok(committed.into_iter().map(|at| (at, false)).collect())
    }
    /// The members of this group; `None` if it has none, and where there are no groups or this can't be
    /// found out.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`.
    fn group_in_use(&self, group: &str, timeout: Duration) -> Result<Option<GroupInUse>> {
        let _ = (group, timeout);
        Ok(None)
    }
    /// The readable ranges, in the order of `partitions`.
    ///
    /// # Errors
    /// `Unavailable`, `MissingTopic`.
    fn ranges(&self, partitions: &[TopicPartition], timeout: Duration) -> Result<Vec<Range>>;
    /// One past the last record of each partition, including records of open transactions (the high
    /// watermark), in the order of `partitions`. No `read_committed` reader sees the records from
    /// [`Range::stable_end`] on yet.
    ///
    /// # Errors
    /// `Unavailable`, `MissingTopic`.
    fn high_watermarks(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Offset>> {
        let ranges = self.ranges(partitions, timeout)?;
        Ok(ranges.into_iter().map(|range| range.stable_end).collect())
    }
    /// The transaction that holds each partition's stable end back, in the order of `partitions`; `None`
    /// where none is open, or the broker doesn't report it to this client or user.
    ///
    /// # Errors
    /// `Unavailable`.
    fn open_transactions(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<OpenTransaction>>> {
        let _ = timeout;
        Ok(vec![None; partitions.len()])
    }
    /// Aborts the open transactions of an application, and returns how its last ones ended. Those whose
    /// records can't be told from those of earlier ones are left out. Nothing is done, and none returned,
    /// where brokers don't lose markers or the client can't ask.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`.
    fn end_last_transactions(
        &self,
        application: &str,
        timeout: Duration,
    ) -> Result<Vec<LastTransaction>> {
        let _ = (application, timeout);
        Ok(Vec::new())
    }
    /// Ends an open transaction in one partition, where the coordinator's marker was lost.
    ///
    /// # Errors
    /// `Unauthorized`, `Unavailable`; `Config` if the client can't.
    fn write_marker(
        &self,
        partition: &TopicPartition,
        open: &OpenTransaction,
        outcome: TransactionOutcome,
        timeout: Duration,
    ) -> Result<()> {
        let _ = (partition, open, outcome, timeout);
        Err(Error::config(
            "this client can't end the transaction of another one",
        ))
    }
    /// The first offset of each partition whose record is not older than `since` (milliseconds since
    /// 1970), in the order of `partitions`. If there is no such record below the stable end: `None`, or
    /// an offset past all records. Later records may be older.
    ///
    /// # Errors
    /// `Unavailable`, `MissingTopic`.
    fn offsets_for_times(
        &self,
        partitions: &[TopicPartition],
        since: Timestamp,
        timeout: Duration,
    ) -> Result<Vec<Option<Offset>>>;
    /// Where the records end that were written under this leader epoch or an earlier one (KIP-320),
    /// according to each partition's leader, in the order of `asked`. A position past that end points at
    /// records that are gone. `None` where leader epochs are unknown. Waits at most `timeout`.
    ///
    /// # Errors
    /// `Unavailable`, `MissingTopic`, `Unauthorized`.
    fn epoch_ends(
        &self,
        asked: &[(TopicPartition, i32)],
        timeout: Duration,
    ) -> Result<Vec<Option<Offset>>> {
        let _ = timeout;
        Ok(vec![None; asked.len()])
    }
    /// Opens a reader that sees committed records only. `group` names it for lag tools; it never joins
    /// the group. Its fetch buffer is divided among about `partitions` partitions.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`, `Config`.
    fn consumer(&self, group: &str, partitions: usize) -> Result<Box<dyn Consumer>>;
    /// Like `consumer`, for reading a lot at once (a restore, for example): it may fetch further ahead,
    /// and need not be able to pause.
    ///
    /// # Errors
    /// As `consumer`.
    fn bulk_consumer(&self, group: &str) -> Result<Box<dyn Consumer>> {
        self.consumer(group, 1)
    }
    /// Opens a writer; [`ProducerMode`] says what that does to older ones.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`, `Config`.
    fn producer(&self, mode: &ProducerMode, timeout: Duration) -> Result<Box<dyn Producer>>;
}
