//! An in-memory broker with Kafka's transactions, which outlives every engine that uses it.
//!
//! Behaves like a healthy Kafka broker; faults are added on top ([`crate::faults`]). Has topics, groups
//! and a transaction coordinator. Passes the contract suite of the log crate, so that a checker's
//! verdict doesn't depend on a wrong broker.

use crate::consumer::SimConsumer;
use crate::producer::SimProducer;
use crate::topic::{LogRecord, PartitionLog};
use crate::transaction::{Coordinator, OngoingTransaction, Writer};
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Partition, Result, Timestamp, TopicPartition};
use stoatflow_log::murmur2::partition_of;
use stoatflow_log::{
    Broker, ClusterExpiry, Committed, Consumer, CutEntry, NewTopic, Producer, ProducerMode,
    ProducerRecord, Range, TopicInfo,
};

/// `delete.retention.ms` of every topic.
const TOMBSTONE_RETENTION: Duration = Duration::from_secs(86_400);

/// The last stable offset of each partition.
pub(crate) type Ends = BTreeMap<TopicPartition, Offset>;

/// The state of the broker.
#[derive(Debug, Default)]
pub(crate) struct State {
    topics: BTreeMap<Arc<str>, Vec<PartitionLog>>,
    groups: BTreeMap<(String, TopicPartition), Committed>,
    /// Expired offsets, which checkers still need.
    expired: BTreeMap<(String, TopicPartition), Committed>,
    pub coordinator: Coordinator,
    keyless: usize,
}

impl State {
    fn missing(name: &str) -> Error {
        Error::missing_topic(format!("the topic '{name}' does not exist"))
            .at(|at| at.topic = Some(name.to_owned()))
    }

    pub fn log(&self, partition: &TopicPartition) -> Result<&PartitionLog> {
        let at = usize::try_from(partition.partition.0).unwrap_or(usize::MAX);
        let logs = self.topics.get(&partition.topic);
        logs.and_then(|l| l.get(at))
            .ok_or_else(|| Self::missing(&partition.topic))
    }

    fn log_mut(&mut self, partition: &TopicPartition) -> Result<&mut PartitionLog> {
        let at = usize::try_from(partition.partition.0).unwrap_or(usize::MAX);
        let logs = self.topics.get_mut(&partition.topic);
        logs.and_then(|l| l.get_mut(at))
            .ok_or_else(|| Self::missing(&partition.topic))
    }

    /// The partition of a record: the one it names, the one of its key's hash, or round-robin.
    pub fn route(&mut self, record: &ProducerRecord) -> Result<TopicPartition> {
        let Some((name, logs)) = self.topics.get_key_value(&record.topic) else {
            return Err(Self::missing(&record.topic));
        };
        let count = i32::try_from(logs.len()).unwrap_or(i32::MAX);
        let partition = match (&record.partition, &record.key) {
            (Some(partition), _) => partition.0,
            (None, Some(key)) => partition_of(key, count),
            (None, None) => {
                self.keyless += 1;
                i32::try_from(self.keyless % logs.len()).unwrap_or(0)
            }
        };
        Ok(TopicPartition::new(Arc::clone(name), partition))
    }

    /// Appends a record, inside the writer's transaction if there is a writer.
    pub fn append(
        &mut self,
        record: ProducerRecord,
        writer: Option<&Writer>,
    ) -> Result<(TopicPartition, Offset)> {
        let partition = self.route(&record)?;
        let transaction = match writer {
            Some(writer) => {
                let open = self.coordinator.current(writer)?;
                open.partitions.insert(partition.clone());
                Some(open.transaction)
            }
            None => None,
        };
        let offset = self.log_mut(&partition)?.append(record, transaction);
        Ok((partition, offset))
    }

    /// Ends a transaction in all partitions at once.
    pub fn end(&mut self, open: OngoingTransaction, commit: bool) {
        for partition in &open.partitions {
            if let Ok(log) = self.log_mut(partition) {
                log.end(open.transaction, commit);
            }
        }
        if commit {
            for (group, entry) in open.offsets {
                let CutEntry {
                    partition,
                    offset,
                    metadata,
                } = entry;
                self.groups
                    .insert((group, partition), Committed { offset, metadata });
            }
        }
    }
}

/// See the module. Clones are the same broker.
#[derive(Clone, Debug, Default)]
pub struct SimBroker {
    state: Arc<Mutex<State>>,
}

impl SimBroker {
    /// A broker without topics.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Opens a transactional id: fences its previous owner and aborts that owner's open transaction.
    pub(crate) fn take_over(&self, id: &str) -> Writer {
        let mut state = self.lock();
        let (writer, abandoned) = state.coordinator.open(id);
        if let Some(abandoned) = abandoned {
            state.end(abandoned, false);
        }
        writer
    }

    /// A producer with the additional methods that only the simulator calls.
    pub(crate) fn open_producer(&self, mode: &ProducerMode) -> SimProducer {
        SimProducer::new(
            self.clone(),
            self.take_over(mode.id()),
            mode.is_transactional(),
        )
    }

    /// Runs the log cleaner over a topic.
    pub(crate) fn compact(&self, topic: &str) {
        if let Some(logs) = self.lock().topics.get_mut(topic) {
            logs.iter_mut().for_each(PartitionLog::compact);
        }
    }

    /// What a cluster forgets while an application is down for long: the committed offsets of its group,
    /// and old tombstones.
    pub(crate) fn expire_offsets_and_tombstones(
        &self,
        topics: impl Iterator<Item = impl AsRef<str>>,
    ) {
        let mut state = self.lock();
        let groups = std::mem::take(&mut state.groups);
        state.expired.extend(groups);
        for topic in topics {
            if let Some(logs) = state.topics.get_mut(topic.as_ref()) {
                logs.iter_mut().for_each(PartitionLog::purge_tombstones);
            }
        }
    }

    /// Whether committed offsets have expired.
    pub(crate) fn has_expired_offsets(&self) -> bool {
        !self.lock().expired.is_empty()
    }

    /// The last committed offsets of a group, including expired ones.
    pub(crate) fn committed_last(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Vec<Committed> {
        let state = self.lock();
        let find = |p: &TopicPartition| {
            let place = (group.to_owned(), p.clone());
            let found = state.groups.get(&place);
            found.or_else(|| state.expired.get(&place)).cloned()
        };
        partitions.iter().filter_map(find).collect()
    }

    /// All visible records of a topic, by partition.
    pub(crate) fn visible(&self, topic: &str) -> Vec<Vec<(Offset, LogRecord)>> {
        let state = self.lock();
        let logs = state
            .topics
            .get(topic)
            .map(Vec::as_slice)
            .unwrap_or_default();
        logs.iter()
            .map(|l| l.visible(Offset(0)).map(|(o, k)| (o, k.clone())).collect())
            .collect()
    }

    pub(crate) fn ends(&self) -> Ends {
        let state = self.lock();
        let of = |(name, logs): (&Arc<str>, &Vec<PartitionLog>)| {
            let numbered = (0..).zip(logs);
            let ends = numbered.map(|(n, log)| (TopicPartition::new(&**name, n), log.stable_end()));
            ends.collect::<Vec<_>>()
        };
        state.topics.iter().flat_map(of).collect()
    }

    /// The newest visible value of a key below the positions of the partitions; `None` if it was never
    /// written.
    pub(crate) fn newest(
        &self,
        topic: &str,
        key: &Bytes,
        positions: &[(Partition, Offset)],
    ) -> Option<Option<Bytes>> {
        let state = self.lock();
        let logs = state.topics.get(topic)?;
        let partition = partition_of(key, i32::try_from(logs.len()).ok()?);
        let log = logs.get(usize::try_from(partition).ok()?)?;
        let end = positions.iter().find(|(of, _)| of.0 == partition);
        let end = end.map_or(Offset(i64::MAX), |(_, end)| *end);
        let found = log
            .visible(Offset(0))
            .rev()
            .find(|(offset, kept)| *offset < end && kept.key.as_ref() == Some(key))?;
        Some(found.1.value.clone())
    }
}

impl Broker for SimBroker {
    fn address(&self) -> String {
        "sim:".into()
    }

    fn topics(&self, names: &[&str], _timeout: Duration) -> Result<Vec<Option<TopicInfo>>> {
        let state = self.lock();
        let info = |name: &&str| {
            let (name, logs) = state.topics.get_key_value(*name)?;
            let partitions = i32::try_from(logs.len()).unwrap_or(i32::MAX);
            Some(TopicInfo {
                name: Arc::clone(name),
                partitions,
                id: None,
            })
        };
        Ok(names.iter().map(info).collect())
    }

    fn expiry(&self) -> ClusterExpiry {
        ClusterExpiry::AfterRetention
    }

    fn tombstone_retention(
        &self,
        topics: &[&str],
        _timeout: Duration,
    ) -> Result<Vec<Option<Duration>>> {
        Ok(vec![Some(TOMBSTONE_RETENTION); topics.len()])
    }

    fn topic_names(&self, _timeout: Duration) -> Result<Vec<Arc<str>>> {
        let mut names: Vec<_> = self.lock().topics.keys().cloned().collect();
        names.sort_unstable();
        Ok(names)
    }

    fn create_topics(&self, topics: &[NewTopic], _timeout: Duration) -> Result<()> {
        let mut state = self.lock();
        for topic in topics {
            let logs = || {
                (0..topic.partitions)
                    .map(|_| PartitionLog::default())
                    .collect()
            };
            state
                .topics
                .entry(topic.name.as_str().into())
                .or_insert_with(logs);
        }
        Ok(())
    }

    fn delete_topics(&self, names: &[&str], _timeout: Duration) -> Result<()> {
        let mut state = self.lock();
        for name in names {
            state.topics.remove(*name);
            state.groups.retain(|(_, p), _| *p.topic != **name);
        }
        Ok(())
    }

    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        _timeout: Duration,
    ) -> Result<Vec<Option<Committed>>> {
        let state = self.lock();
        let find = |p: &TopicPartition| state.groups.get(&(group.to_owned(), p.clone())).cloned();
        Ok(partitions.iter().map(find).collect())
    }

    fn ranges(&self, partitions: &[TopicPartition], _timeout: Duration) -> Result<Vec<Range>> {
        let state = self.lock();
        let range = |p| {
            Ok(Range {
                begin: Offset(0),
                stable_end: state.log(p)?.stable_end(),
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
        let state = self.lock();
        let first = |p| {
            let mut visible = state.log(p)?.visible(Offset(0));
            Ok(visible
                .find(|(_, kept)| kept.timestamp >= since)
                .map(|(offset, _)| offset))
        };
        partitions.iter().map(first).collect()
    }

    fn consumer(&self, _group: &str, _partitions: usize) -> Result<Box<dyn Consumer>> {
        Ok(Box::new(SimConsumer::new(self.clone())))
    }

    fn producer(&self, mode: &ProducerMode, _timeout: Duration) -> Result<Box<dyn Producer>> {
        Ok(Box::new(self.open_producer(mode)))
    }
}
