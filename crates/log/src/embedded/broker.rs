//! The [`Broker`](crate::Broker) of embedded topics.
//!
//! Takes a path, returns handles that share one open log per directory. Owns nothing but a share of that
//! log. Never waits: every answer is in memory or one read away.

use super::chunk::ChunkReader;
use super::consumer::EmbeddedConsumer;
use super::log::Log;
use super::producer::EmbeddedProducer;
use super::registry;
use super::temporary::TemporaryDirectory;
use crate::{
    Broker, ClusterExpiry, Committed, Consumer, NewTopic, Producer, ProducerMode, ProducerRecord,
    Range, TopicInfo,
};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Partition, Result, Timestamp, TopicPartition};

/// Records loaded with [`EmbeddedBroker::produce_many`] are written in batches of about this many bytes.
const LOAD_BATCH: usize = 1024 * 1024;

/// A record for [`EmbeddedBroker::produce_many`]: partition (`None` chooses it by the key), key, value,
/// timestamp.
pub type EmbeddedRecord = (Option<i32>, Option<Bytes>, Option<Bytes>, i64);

/// Topics in RocksDB.
#[derive(Debug)]
pub struct EmbeddedBroker {
    log: Arc<Log>,
}

/// Opens the broker at a path, or in a temporary directory that lives as long as its last handle.
///
/// # Errors
/// `StateLocked` if another process has it, `Incompatible` if another format is there, `Config` if
/// the directory can't be made, `StateCorrupt`, `DiskFull`.
pub fn open(path: Option<&Path>) -> Result<Arc<EmbeddedBroker>> {
    let log = match path {
        None => {
            let temporary =
                TemporaryDirectory::new().map_err(|e| unusable(&std::env::temp_dir(), e))?;
            let place = temporary.path().to_owned();
            Arc::new(Log::open(&place, Some(temporary), None)?)
        }
        Some(path) => {
            std::fs::create_dir_all(path).map_err(|e| unusable(path, e))?;
            let path = path.canonicalize().map_err(|e| unusable(path, e))?;
            registry::shared(&path, |registered| Log::open(&path, None, Some(registered)))?
        }
    };
    Ok(Arc::new(EmbeddedBroker { log }))
}

fn unusable(path: &Path, cause: std::io::Error) -> Error {
    Error::config(format!(
        "the directory {} can't be used for the embedded broker",
        path.display()
    ))
    .hint("choose a directory that this user may create and write")
    .caused_by(cause)
}

impl EmbeddedBroker {
    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.log.path()
    }

    /// From now on, writing to a topic that doesn't exist creates it, with one partition (like brokers
    /// with `auto.create.topics.enable`).
    pub fn make_topics_when_written(&self) {
        self.log.make_topics_when_written();
    }

    /// Every topic, sorted by name.
    #[must_use]
    pub fn list_topics(&self) -> Vec<TopicInfo> {
        self.log
            .topics()
            .iter()
            .map(|t| TopicInfo {
                name: t.name.clone(),
                partitions: t.partitions(),
                id: None,
            })
            .collect()
    }

    /// Writes records outside any transaction, in batches; returns how many.
    ///
    /// # Errors
    /// `MissingTopic` (a partition that does not exist too), `Serde`, `DiskFull`. Batches before the
    /// failing one stay written.
    pub fn produce_many(
        &self,
        topic: &str,
        records: impl IntoIterator<Item = EmbeddedRecord>,
    ) -> Result<u64> {
        let topic: Arc<str> = topic.into();
        if self.log.topic(&topic).is_none() {
            return Err(self.log.missing(&topic));
        }
        let mut producer = EmbeddedProducer::unguarded(self.log.clone());
        let (mut count, mut bytes) = (0, 0);
        for (partition, key, value, timestamp) in records {
            bytes += 32 + key.as_ref().map_or(0, Bytes::len) + value.as_ref().map_or(0, Bytes::len);
            producer.stage(&ProducerRecord {
                topic: topic.clone(),
                partition: partition.map(Partition),
                key,
                value,
                timestamp: Timestamp(timestamp),
                headers: None,
            })?;
            count += 1;
            if bytes >= LOAD_BATCH {
                producer.publish()?;
                bytes = 0;
            }
        }
        producer.publish()?;
        Ok(count)
    }
}

impl Broker for EmbeddedBroker {
    fn address(&self) -> String {
        self.log.address().to_owned()
    }

    fn topics(&self, names: &[&str], _timeout: Duration) -> Result<Vec<Option<TopicInfo>>> {
        let info = |topic: Arc<super::log::Topic>| TopicInfo {
            name: topic.name.clone(),
            partitions: topic.partitions(),
            id: None,
        };
        Ok(names
            .iter()
            .map(|name| self.log.topic(name).map(info))
            .collect())
    }

    fn expiry(&self) -> ClusterExpiry {
        ClusterExpiry::Never
    }

    fn topic_names(&self, _timeout: Duration) -> Result<Vec<Arc<str>>> {
        let topics = self.log.topics();
        Ok(topics.into_iter().map(|t| t.name.clone()).collect())
    }

    fn create_topics(&self, topics: &[NewTopic], _timeout: Duration) -> Result<()> {
        self.log.create(topics)
    }

    fn delete_topics(&self, names: &[&str], _timeout: Duration) -> Result<()> {
        self.log.delete(names)
    }

    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        _timeout: Duration,
    ) -> Result<Vec<Option<Committed>>> {
        partitions
            .iter()
            .map(|partition| self.log.committed(group, partition))
            .collect()
    }

    fn ranges(&self, partitions: &[TopicPartition], _timeout: Duration) -> Result<Vec<Range>> {
        let range = |partition| {
            let (topic, partition) = self.log.partition(partition)?;
            Ok(Range {
                begin: Offset(0),
                stable_end: Offset(topic.end(partition)),
            })
        };
        partitions.iter().map(range).collect()
    }

    fn offsets_for_times(
        &self,
        partitions: &[TopicPartition],
        since: Timestamp,
        _timeout: Duration,
    ) -> Result<Vec<Option<Offset>>> {
        let first = |partition| {
            let (topic, partition) = self.log.partition(partition)?;
            let mut found = None;
            if topic.end(partition) == 0 {
                return Ok(found);
            }
            // Chunks have no index by time: this is called once, at a first start.
            self.log.chunks(&topic, partition, 0, |base, bytes| {
                let mut chunk = ChunkReader::new(Bytes::copy_from_slice(bytes))?;
                let mut offset = base;
                while let Some(record) = chunk.next()? {
                    if record.timestamp >= since {
                        found = Some(Offset(offset));
                        return Ok(false);
                    }
                    offset += 1;
                }
                Ok(true)
            })?;
            Ok(found)
        };
        partitions.iter().map(first).collect()
    }

    fn consumer(&self, _group: &str, _partitions: usize) -> Result<Box<dyn Consumer>> {
        Ok(Box::new(EmbeddedConsumer::new(self.log.clone())))
    }

    fn producer(&self, mode: &ProducerMode, _timeout: Duration) -> Result<Box<dyn Producer>> {
        Ok(Box::new(EmbeddedProducer::new(self.log.clone(), mode)?))
    }
}
