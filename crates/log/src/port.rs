//! The words of the port: what a broker must be able to do for the engine.
//!
//! All calls are synchronous and run on the engine's own threads (ingest and commit); none may
//! block longer than the time it is given. Every implementation passes [`crate::contract`].

mod consumer;
mod producer;

use bytes::Bytes;
pub use consumer::Consumer;
pub use producer::{CommitOutcome, Producer, ProducerMode};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Headers, Offset, Partition, Result, Timestamp, TopicPartition};

/// A record as the broker hands it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRecord {
    /// Index into the list that was given to [`Consumer::assign`].
    pub slot: u32,
    /// Its position.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its value.
    pub value: Option<Bytes>,
    /// Its headers.
    pub headers: Headers,
    /// Its number in the order of admission; 0 until it is admitted.
    pub number: u64,
}

/// A record that is still the client's, for as long as it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// As in [`ConsumerRecord`].
    pub slot: u32,
    /// Its position.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
}

/// A record on its way to the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerRecord {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition; `None` lets the key decide (murmur2 as in Java; null keys are spread).
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

/// What is known of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Its name.
    pub name: Arc<str>,
    /// How many partitions it has.
    pub partitions: i32,
    /// The id that the cluster gave it (KIP-516): a topic that was deleted and made anew has
    /// another one. `None` where topics have none.
    pub id: Option<Arc<str>>,
}

/// What a cluster forgets by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgetting {
    /// Nothing: committed offsets and deletions in a topic stay.
    Nothing,
    /// As Kafka: offsets of a group without members expire (`offsets.retention.minutes`), and
    /// compaction removes tombstones (`delete.retention.ms`).
    Expires,
}

/// A topic to be made.
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
    /// What was written beside it (the watermark).
    pub metadata: String,
}

/// A group that others take part in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInUse {
    /// The state that the coordinator tells (`Stable`, `PreparingRebalance`, ...).
    pub state: String,
    /// Who is in it. Empty where only the state is told.
    pub members: Vec<GroupMember>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// What it calls itself.
    pub client_id: String,
    /// From where it is connected.
    pub host: String,
}

/// One part of a cut: where a partition goes on, and what is written beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutEntry {
    /// The partition.
    pub partition: TopicPartition,
    /// The next offset to read.
    pub offset: Offset,
    /// What is written beside it (the watermark).
    pub metadata: String,
}

/// The readable range of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first offset there is.
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
}

/// What speaks to a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInUse {
    /// `native`, `librdkafka` or `none`.
    pub name: &'static str,
    /// Why that one.
    pub why: String,
}

/// The way to a broker. Cheap to share; opens everything else.
pub trait Broker: Send + Sync + Debug {
    /// Says where this is, for messages (`localhost:9092`, `embedded:/data`).
    fn address(&self) -> String;
    /// What is known of these topics; a missing one is `None`. Waits at most `timeout`.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`.
    fn topics(&self, names: &[&str], timeout: Duration) -> Result<Vec<Option<TopicInfo>>>;
    /// What speaks to it, and why that.
    fn client(&self) -> ClientInUse {
        ClientInUse {
            name: "none",
            why: "topics are kept in this process".to_owned(),
        }
    }
    /// For how long in all it has slowed this application down, by a quota.
    fn throttled(&self) -> Duration {
        Duration::ZERO
    }
    /// Does it forget committed offsets and deletions after a while?
    fn forgetting(&self) -> Forgetting;
    /// How long each topic keeps a tombstone once compaction has passed it (`delete.retention.ms`);
    /// `None` for a topic that is not compacted. In the order asked. Waits at most `timeout`.
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
    /// The names of all topics, in order. Waits at most `timeout`.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`.
    fn topic_names(&self, timeout: Duration) -> Result<Vec<Arc<str>>>;
    /// Asks every reachable broker for the leaders of these topics. Afterwards stale metadata is
    /// refused: a broker that was paused, or is cut off from the controllers, reports ends of logs
    /// that newer records follow. Waits at most `timeout`.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`.
    fn learn_leaders(&self, topics: &[&str], timeout: Duration) -> Result<()> {
        let _ = (topics, timeout);
        Ok(())
    }
    /// Makes topics; one that exists already is left as it is.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`, `Config` (a setting the broker refuses).
    fn create_topics(&self, topics: &[NewTopic], timeout: Duration) -> Result<()>;
    /// Deletes topics, and waits until nobody is told of them any more; one that does not exist is fine.
    /// What groups had committed for them is forgotten (a cluster may take a moment for that).
    ///
    /// # Errors
    /// `Unavailable` (also if they are still there after `timeout`), `Unauthorized`, `Config` (the broker
    /// deletes no topics).
    fn delete_topics(&self, names: &[&str], timeout: Duration) -> Result<()>;
    /// The committed positions of a group, in the order asked.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`.
    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>>;
    /// Who takes part in this group; `None` if nobody does, and where there are no groups or nobody can tell.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`.
    fn group_in_use(&self, group: &str, timeout: Duration) -> Result<Option<GroupInUse>> {
        let _ = (group, timeout);
        Ok(None)
    }
    /// The readable ranges, in the order asked.
    ///
    /// # Errors
    /// `Unavailable`, `MissingTopic`.
    fn ranges(&self, partitions: &[TopicPartition], timeout: Duration) -> Result<Vec<Range>>;
    /// One past the last record of each partition, in a transaction that is open too (the high
    /// watermark), in the order asked. Behind [`Range::stable_end`] stands what no `read_committed`
    /// reader sees yet.
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
    /// The transaction that holds each partition's stable end back, in the order asked; `None`
    /// where none is open or the broker doesn't tell.
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
    /// The first offset of each partition whose record is not older than `since` (milliseconds since
    /// 1970), in the order asked; where there is no such record below the stable end: `None`, or an offset
    /// past all records. Records behind it may be older.
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
    /// by what each partition's leader has, in the order asked. A position that is behind it stands
    /// on records that are gone. `None` where nothing is known of epochs. Waits at most `timeout`.
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
    /// Opens a reader that sees committed records only. `group` names it for lag tools; it never
    /// joins. What it fetches ahead is divided among about so many partitions.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`, `Config`.
    fn consumer(&self, group: &str, partitions: usize) -> Result<Box<dyn Consumer>>;
    /// As `consumer`, for reading much at once and nothing beside it: it may fetch further ahead,
    /// and need not be able to pause.
    ///
    /// # Errors
    /// As `consumer`.
    fn bulk_consumer(&self, group: &str) -> Result<Box<dyn Consumer>> {
        self.consumer(group, 1)
    }
    /// Opens a writer; see [`ProducerMode`] for what opening does to older ones.
    ///
    /// # Errors
    /// `Unavailable`, `Unauthorized`, `Config`.
    fn producer(&self, mode: &ProducerMode, timeout: Duration) -> Result<Box<dyn Producer>>;
}
