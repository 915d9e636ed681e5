//! The offsets topic: committed offsets that don't expire.
//!
//! A compacted topic `<application.id>-offsets` with one partition. Each commit writes changed
//! offsets into it, in the transaction of the results. The group's own offsets are committed too,
//! for tools; brokers delete those after `offsets.retention.minutes` without a commit. Rows are
//! JSON:
//!
//! | key | value |
//! |---|---|
//! | `["position","orders",3]` | `{"offset":12,"metadata":"st=1732646400000"}` |
//! | `["topic","orders"]` | `{"id":"N0fP..."}`: of a source or changelog: to detect a recreated topic |
//! | `["changelog","app-counts-changelog"]` | `{"ends":[12,null,4],"partitions":4}`: to detect lost records |
//! | `["format","app-counts-changelog"]` | `{"format":"key-value:string:int64"}`: the format of its rows |
//! | `["format","app-offsets"]` | `{"format":"handed over to Spark: ..."}`: no instance may start |
//! | `["instance"]` | `{"version":"0.1.0","started":1732646400000,"seen":1732650000000}`: the last instance |
//!
//! A changelog row with `"lost":[2]` names the partitions that have lost records while the application ran.
//!
//! The topic uses `LogAppendTime`, so acknowledging a row also returns the broker's time. This file only
//! builds and reads records; [`crate::commit`] sends them.

mod choose;
mod refusals;
mod rows;
#[cfg(test)]
mod tests;

pub(crate) use choose::{PositionOrigin, choose_position};

use crate::runtime::shared::Shared;
use bytes::Bytes;
pub(crate) use refusals::changelog_recreated;
pub(crate) use rows::OffsetRows;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Offset, Partition, Result, Timestamp, TopicPartition};
use stoatflow_log::{
    CommitOutcome, Committed, CutEntry, NewTopic, Producer, ProducerRecord, TopicInfo,
};

/// An idle application writes this often, so that its local state counts as current.
const RENEWED_EVERY_MS: i64 = 600_000;

/// The topic's name.
#[must_use]
pub fn topic_name(application: &str) -> String {
    format!("{application}-offsets")
}

const SEGMENT_BYTES: &str = "segment.bytes";

/// Creates the topic unless it exists. Some clusters refuse its small segments: Confluent Cloud allows
/// none below 50 MiB, MSK Serverless refuses `segment.bytes` altogether. There the topic gets the
/// cluster's default.
///
/// # Errors
/// As [`Broker::create_topics`](stoatflow_log::Broker::create_topics).
pub(crate) fn create(
    application: &str,
    replication: i32,
    create: impl Fn(&NewTopic) -> Result<()>,
) -> Result<()> {
    let mut topic = new_topic(application, replication);
    match create(&topic) {
        Err(refused) if refused.kind() == ErrorKind::Config => {
            tracing::debug!(%refused, "making the offsets topic with the cluster's size of segments");
            topic.config.retain(|(name, _)| name != SEGMENT_BYTES);
            create(&topic)
        }
        created => created,
    }
}

/// Settings of the topic. Segments are small because the newest ones aren't compacted yet and are read
/// at each start.
fn new_topic(application: &str, replication: i32) -> NewTopic {
    let config = [
        ("cleanup.policy", "compact"),
        ("message.timestamp.type", "LogAppendTime"),
        (SEGMENT_BYTES, "8388608"),
    ];
    NewTopic {
        name: topic_name(application),
        partitions: 1,
        replication,
        config: config.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec(),
    }
}

/// Builds the records that the application writes to the topic.
#[derive(Clone, Debug)]
pub struct OffsetsTopic {
    name: Arc<str>,
    rows: OffsetRows,
    /// Topic ids that aren't in the topic yet.
    ids: BTreeMap<Arc<str>, Arc<str>>,
    /// Formats of changelogs that aren't in the topic yet.
    formats: BTreeMap<Arc<str>, String>,
    /// Changelogs whose end offsets aren't in the topic yet.
    moved: BTreeSet<Arc<str>>,
    started: Timestamp,
    /// When a row was last written.
    written: Timestamp,
}

impl OffsetsTopic {
    pub(crate) fn new(
        application: &str,
        rows: OffsetRows,
        mut ids: BTreeMap<Arc<str>, Arc<str>>,
    ) -> Self {
        ids.retain(|name, id| rows.topics.get(name) != Some(id));
        Self {
            name: topic_name(application).into(),
            rows,
            ids,
            formats: BTreeMap::new(),
            moved: BTreeSet::new(),
            started: Timestamp(0),
            written: Timestamp(0),
        }
    }

    /// Sets the row formats of changelogs; those that differ are written with the next commit.
    pub(crate) fn note_formats(&mut self, formats: BTreeMap<Arc<str>, String>) {
        self.formats = formats;
        (self.formats).retain(|topic, format| self.rows.formats.get(topic) != Some(format));
    }

    /// The end offsets of changelog partitions.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (TopicPartition, Offset)> {
        self.rows.changelogs.iter().flat_map(|(topic, ends)| {
            let of = |(p, end): (i32, &Option<Offset>)| {
                Some((TopicPartition::new(Arc::clone(topic), p), (*end)?))
            };
            (0..).zip(ends).filter_map(of)
        })
    }

    /// The id that a topic had at the last commit of its offsets.
    pub(crate) fn id_of(&self, topic: &Arc<str>) -> Option<Arc<str>> {
        let next = self.ids.get(topic);
        next.or_else(|| self.rows.topics.get(topic)).cloned()
    }

    /// True if rows must be written before the first record is processed.
    pub(crate) fn is_behind(&self, cut: &[CutEntry]) -> bool {
        !self.ids.is_empty()
            || !self.formats.is_empty()
            || !self.moved.is_empty()
            || cut.iter().any(|entry| self.has_moved(entry))
    }

    fn has_moved(&self, entry: &CutEntry) -> bool {
        let known = self.rows.positions.get(&entry.partition);
        known.is_none_or(|known| known.offset != entry.offset || known.metadata != entry.metadata)
    }

    /// The rows for a commit of these offsets.
    pub(crate) fn write(&mut self, cut: &[CutEntry], now: Timestamp) -> Vec<ProducerRecord> {
        let mut records = Vec::new();
        for (name, id) in std::mem::take(&mut self.ids) {
            let key = json!(["topic", name]);
            records.push(self.record(&key, Some(&json!({ "id": id })), now));
            self.rows.topics.insert(name, id);
        }
        for (topic, format) in std::mem::take(&mut self.formats) {
            let key = json!(["format", topic]);
            records.push(self.record(&key, Some(&json!({ "format": format })), now));
            self.rows.formats.insert(topic, format);
        }
        for entry in cut {
            if !self.has_moved(entry) {
                continue;
            }
            let key = json!([
                "position",
                entry.partition.topic,
                entry.partition.partition.0
            ]);
            let value = json!({ "offset": entry.offset.0, "metadata": entry.metadata });
            records.push(self.record(&key, Some(&value), now));
            let committed = Committed {
                offset: entry.offset,
                metadata: entry.metadata.clone(),
            };
            self.rows
                .positions
                .insert(entry.partition.clone(), committed);
        }
        if records.is_empty() && now.0.saturating_sub(self.written.0) >= RENEWED_EVERY_MS {
            records.push(self.instance(now));
        }
        if !records.is_empty() {
            self.written = now;
        }
        records
    }

    /// The rows for changelogs whose end offsets have moved.
    pub(crate) fn write_ends(&mut self, now: Timestamp) -> Vec<ProducerRecord> {
        let mut records = Vec::new();
        for topic in std::mem::take(&mut self.moved) {
            let ends = self.rows.changelogs.get(&topic);
            let ends = ends.into_iter().flatten().map(|end| end.map(|end| end.0));
            let mut value = json!({ "ends": ends.collect::<Vec<_>>() });
            if let Some(partitions) = self.rows.partitions.get(&topic) {
                value["partitions"] = json!(partitions);
            }
            let lost = self.rows.lost.iter().filter(|p| p.topic == topic);
            let lost: Vec<i32> = lost.map(|p| p.partition.0).collect();
            if !lost.is_empty() {
                value["lost"] = json!(lost);
            }
            let key = json!(["changelog", topic]);
            records.push(self.record(&key, Some(&value), now));
        }
        records
    }

    /// The rows that record permanently that this changelog partition has lost records.
    pub(crate) fn write_lost(
        &mut self,
        partition: TopicPartition,
        now: Timestamp,
    ) -> Vec<ProducerRecord> {
        self.rows.lost.insert(partition);
        let lost = self.rows.lost.iter();
        self.moved = lost.map(|partition| Arc::clone(&partition.topic)).collect();
        self.write_ends(now)
    }

    /// Notes the number of partitions of a changelog; written together with its end offsets.
    pub(crate) fn note_partitions(&mut self, topic: &TopicInfo) {
        (self.rows.partitions).insert(Arc::clone(&topic.name), topic.partitions);
    }

    /// Notes the end offsets of a changelog, for the next commit.
    pub(crate) fn note_ends(&mut self, topic: &Arc<str>, ends: Vec<(Partition, Offset)>) {
        if ends.is_empty() {
            return;
        }
        let known = self.rows.changelogs.entry(Arc::clone(topic)).or_default();
        let mut moved = false;
        for (partition, end) in ends {
            let index = usize::try_from(partition.0).expect("partitions are numbered from 0");
            if known.len() <= index {
                known.resize(index + 1, None);
            }
            if known[index].is_none_or(|known| known < end) {
                known[index] = Some(end);
                moved = true;
            }
        }
        if moved {
            self.moved.insert(Arc::clone(topic));
        }
    }

    /// The rows for a reset: its offsets, and tombstones for the rows of topics that it deletes.
    pub(crate) fn rewind(
        &mut self,
        cut: &[CutEntry],
        deleted: &[String],
        now: Timestamp,
    ) -> Vec<ProducerRecord> {
        let mut records = self.write(cut, now);
        records.extend(self.forget(deleted, now));
        if self.rows.formats.contains_key(&self.name) {
            // The application owns its work again: the state of a query on Spark is obsolete.
            records.push(self.record(&json!(["format", self.name]), None, now));
        }
        records
    }

    /// Tombstones for the topic, changelog and format rows of these topics.
    pub(crate) fn forget(&self, deleted: &[String], now: Timestamp) -> Vec<ProducerRecord> {
        let of = |name: &String| ["topic", "changelog", "format"].map(|kind| json!([kind, name]));
        let gone = deleted.iter().flat_map(of);
        gone.map(|key| self.record(&key, None, now)).collect()
    }

    fn record(&self, key: &Value, value: Option<&Value>, now: Timestamp) -> ProducerRecord {
        let bytes = |value: &Value| Bytes::from(value.to_string());
        ProducerRecord {
            topic: Arc::clone(&self.name),
            partition: Some(Partition(0)),
            key: Some(bytes(key)),
            value: value.map(bytes),
            timestamp: now,
            headers: None,
        }
    }

    fn instance(&self, now: Timestamp) -> ProducerRecord {
        let (version, started) = (env!("CARGO_PKG_VERSION"), self.started.0);
        let value = json!({ "version": version, "started": started, "seen": now.0 });
        self.record(&json!(["instance"]), Some(&value), now)
    }

    /// Writes the instance row in a commit of its own; returns the broker's time. An instance keeps its
    /// start time when it restarts by itself.
    ///
    /// # Errors
    /// As for a commit.
    pub(crate) fn announce(
        &mut self,
        producer: &mut dyn Producer,
        shared: &Shared,
        timeout: Duration,
    ) -> Result<Option<Timestamp>> {
        let (announced, now) = (&shared.status.announced, shared.clock.now());
        if announced.load(Relaxed) == 0 {
            announced.store(now.0, Relaxed);
        }
        self.started = Timestamp(announced.load(Relaxed));
        self.written = now;
        let mut records = vec![self.instance(self.started)];
        producer.begin()?;
        producer.send(&mut records)?;
        producer.flush(timeout)?;
        match producer.commit(timeout)? {
            CommitOutcome::Committed => Ok(producer.append_time()),
            CommitOutcome::Aborted => Err(Error::unavailable(
                "the broker aborted the transaction that says that this instance has begun",
            )),
        }
    }
}
