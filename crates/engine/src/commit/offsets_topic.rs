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
//! | `["topic","orders"]` | `{"id":"N0fP..."}`: id of a source or changelog topic, to detect that it was recreated |
//! | `["instance"]` | `{"version":"0.1.0","started":1732646400000,"seen":1732650000000}`: the last instance |
//!
//! The topic uses `LogAppendTime`, so an acknowledged row also tells the broker's time. This file
//! only builds and reads records; [`crate::commit`] sends them.

mod choose;
#[cfg(test)]
mod tests;

pub(crate) use choose::{PositionOrigin, choose_position};

use crate::runtime::shared::Shared;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Error, Offset, Partition, Result, Timestamp, TopicPartition};
use stoatflow_log::{Broker, Committed, CutEntry, NewTopic, Producer, ProducerRecord};

/// Timeout of one poll while the topic is read.
const STEP: Duration = Duration::from_millis(100);
/// An idle application writes this often, so that its local state counts as current.
const RENEWED_EVERY_MS: i64 = 600_000;
/// Records per poll.
const BATCH: usize = 2_048;

/// The topic's name.
#[must_use]
pub fn topic_name(application: &str) -> String {
    format!("{application}-offsets")
}

/// Its settings. Small segments: the newest ones aren't compacted yet and are read at each start.
pub(crate) fn new_topic(application: &str, replication: i32) -> NewTopic {
    let config = [
        ("cleanup.policy", "compact"),
        ("message.timestamp.type", "LogAppendTime"),
        ("segment.bytes", "8388608"),
    ];
    NewTopic {
        name: topic_name(application),
        partitions: 1,
        replication,
        config: config.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec(),
    }
}

/// What the topic contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OffsetRows {
    pub positions: BTreeMap<TopicPartition, Committed>,
    /// Ids of topics.
    pub topics: BTreeMap<Arc<str>, Arc<str>>,
}

impl OffsetRows {
    /// Reads the topic to its end; empty if it doesn't exist. `None` if a stop was requested.
    ///
    /// # Errors
    /// `Unavailable`; `Incompatible` for a row that is none of ours.
    pub fn read(
        broker: &dyn Broker,
        application: &str,
        timeout: Duration,
        shared: &Shared,
    ) -> Result<Option<Self>> {
        let mut rows = Self::default();
        let topic: Arc<str> = topic_name(application).into();
        if broker
            .topics(&[&topic], timeout)?
            .iter()
            .all(Option::is_none)
        {
            return Ok(Some(rows));
        }
        let partition = TopicPartition::new(Arc::clone(&topic), 0);
        let range = broker.ranges(std::slice::from_ref(&partition), timeout)?[0];
        if range.begin >= range.stable_end {
            return Ok(Some(rows));
        }
        let mut consumer = broker.bulk_consumer(application)?;
        consumer.assign(&[(partition, range.begin)])?;
        let (mut at, mut silent) = (range.begin, Duration::ZERO);
        while at < range.stable_end {
            if shared.is_stopping() {
                return Ok(None);
            }
            let mut taken = Ok(());
            consumer.look(BATCH, STEP, &mut |record| {
                if taken.is_ok() {
                    taken = rows.take(record.key.unwrap_or_default(), record.value);
                }
            })?;
            taken.map_err(|row| {
                Error::incompatible(format!(
                    "the topic '{topic}' holds a row that this application did \
                    not write: {row}"
                ))
                .hint(
                    "only the application may write this topic: find the other writer, or use \
                        another application.id",
                )
            })?;
            let now = consumer.positions()[0];
            silent = if now == at {
                silent + STEP
            } else {
                Duration::ZERO
            };
            if silent > timeout {
                return Err(Error::unavailable(format!(
                    "no record of '{topic}' came from {} for {} s",
                    broker.address(),
                    timeout.as_secs()
                )));
            }
            at = now;
        }
        Ok(Some(rows))
    }

    /// Takes a row; the error is the text of a row that can't be read.
    fn take(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
        let unread = || String::from_utf8_lossy(key).into_owned();
        let parts: Vec<Value> = serde_json::from_slice(key).map_err(|_| unread())?;
        let value: Option<Value> = match value {
            Some(value) => Some(serde_json::from_slice(value).map_err(|_| unread())?),
            None => None,
        };
        let texts: Vec<Option<&str>> = parts.iter().map(Value::as_str).collect();
        match texts.as_slice() {
            [Some("position"), Some(topic), None] => {
                let number = parts[2].as_i64().and_then(|n| i32::try_from(n).ok());
                let partition = TopicPartition::new(Arc::from(*topic), number.ok_or_else(unread)?);
                let Some(value) = value else {
                    self.positions.remove(&partition);
                    return Ok(());
                };
                let committed = Committed {
                    offset: Offset(value["offset"].as_i64().ok_or_else(unread)?),
                    metadata: value["metadata"].as_str().unwrap_or_default().to_owned(),
                };
                self.positions.insert(partition, committed);
            }
            [Some("topic"), Some(topic)] => {
                let id = value.as_ref().and_then(|value| value["id"].as_str());
                match id {
                    Some(id) => self.topics.insert(Arc::from(*topic), Arc::from(id)),
                    None => self.topics.remove(*topic),
                };
            }
            [None | Some("position" | "topic"), ..] | [] => return Err(unread()),
            // Rows of other kinds are information only.
            [Some(_), ..] => {}
        }
        Ok(())
    }

    /// The first topic whose id has changed since its offsets were committed: name, old id, new id.
    fn recreated<'a>(&'a self, now: &'a BTreeMap<Arc<str>, Arc<str>>) -> Option<[&'a Arc<str>; 3]> {
        let both = now.iter().filter_map(|(name, id)| {
            let (name, then) = self.topics.get_key_value(name)?;
            (then != id).then_some([name, then, id])
        });
        both.into_iter().next()
    }

    /// Refuses offsets of a topic that was deleted and created again.
    ///
    /// # Errors
    /// `Incompatible`, with the topic and the next step.
    pub fn refuse_recreated(
        &self,
        application: &str,
        now: &BTreeMap<Arc<str>, Arc<str>>,
        changelogs: &[Option<Arc<str>>],
    ) -> Result<()> {
        let Some([name, then, id]) = self.recreated(now) else {
            return Ok(());
        };
        if changelogs.iter().flatten().any(|c| c == name) {
            return Err(changelog_recreated(application, [name, then, id]));
        }
        let next = format!(
            "if that was on purpose, start over with it: stoatflow reset --input-topic {name} \
                (application '{application}')"
        );
        let lost = "the committed offsets belong to the old one";
        Err(recreated([name, then, id], lost, next))
    }
}

/// A changelog topic (name, old id, new id) was deleted and created again.
pub(crate) fn changelog_recreated(application: &str, topic: [&Arc<str>; 3]) -> Error {
    let lost = "it lacks what the application's state was";
    let next = format!(
        "restore the old topic from a copy, or recompute everything: stoatflow reset \
            (application '{application}')"
    );
    recreated(topic, lost, next)
}

fn recreated([name, then, id]: [&Arc<str>; 3], lost: &str, next: String) -> Error {
    Error::incompatible(format!(
        "the topic '{name}' was deleted and created again since the last commit (its id was {then}, \
            and is {id}): {lost}"
    ))
    .hint(next)
    .at(|at| at.topic = Some(name.to_string()))
}

/// What the application writes into the topic.
#[derive(Clone, Debug)]
pub struct OffsetsTopic {
    name: Arc<str>,
    rows: OffsetRows,
    /// Topic ids that aren't in it yet.
    ids: BTreeMap<Arc<str>, Arc<str>>,
    started: Timestamp,
    /// When it was last written.
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
            started: Timestamp(0),
            written: Timestamp(0),
        }
    }

    /// Must anything be written before the first record is processed?
    pub(crate) fn is_behind(&self, cut: &[CutEntry]) -> bool {
        !self.ids.is_empty() || cut.iter().any(|entry| self.has_moved(entry))
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

    /// The rows for a reset: its offsets, and no ids of topics that it deletes.
    pub(crate) fn rewind(
        &mut self,
        cut: &[CutEntry],
        deleted: &[String],
        now: Timestamp,
    ) -> Vec<ProducerRecord> {
        let gone = deleted.iter().map(|name| json!(["topic", name]));
        let gone: Vec<_> = gone.map(|key| self.record(&key, None, now)).collect();
        let mut records = self.write(cut, now);
        records.extend(gone);
        records
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

    /// Writes the instance row in a commit of its own; gives the broker's time.
    ///
    /// # Errors
    /// As of a commit.
    pub(crate) fn announce(
        &mut self,
        producer: &mut dyn Producer,
        clock: &dyn Clock,
        timeout: Duration,
    ) -> Result<Option<Timestamp>> {
        self.started = clock.now();
        self.written = self.started;
        let mut records = vec![self.instance(self.started)];
        producer.begin()?;
        producer.send(&mut records)?;
        producer.flush(timeout)?;
        producer.commit(timeout)?;
        Ok(producer.append_time())
    }
}
