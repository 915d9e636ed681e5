//! The contents of the offsets topic.
//!
//! Reads the topic to its end, row by row; a later row of a key replaces the earlier one. A row that
//! can't be read is an error; rows of unknown kinds are ignored.

use super::topic_name;
use crate::runtime::shared::Shared;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Result, Timestamp, TopicPartition};
use stoatflow_log::{Broker, Committed};

/// Timeout of one poll while the topic is read.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);
/// Records per poll.
const BATCH: usize = 2_048;

/// The contents of the topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OffsetRows {
    pub positions: BTreeMap<TopicPartition, Committed>,
    /// Ids of topics.
    pub topics: BTreeMap<Arc<str>, Arc<str>>,
    /// Ends of changelog topics, by partition: one past the last record that belongs to a commit.
    pub changelogs: BTreeMap<Arc<str>, Vec<Option<Offset>>>,
    /// How many partitions changelog topics had at the last commit to them.
    pub partitions: BTreeMap<Arc<str>, i32>,
    /// Row formats of changelog topics.
    pub formats: BTreeMap<Arc<str>, String>,
    /// Changelog partitions that continued at an offset below their committed end: records in between
    /// are gone.
    pub lost: BTreeSet<TopicPartition>,
    /// When the last instance was started.
    pub started: Option<Timestamp>,
}

impl OffsetRows {
    /// Reads the topic to its end; empty if it doesn't exist. `None` if a stop was requested.
    ///
    /// # Errors
    /// `Unavailable`; `Incompatible` for a row that can't be read.
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
            consumer.poll_borrowed(BATCH, POLL_TIMEOUT, &mut |record| {
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
                    "only the application may write this topic: take the permission to write it from others \
                        (kafka-acls.sh --list --topic shows who has it), or use another application.id",
                )
            })?;
            let now = consumer.positions()[0];
            silent = if now == at {
                silent + POLL_TIMEOUT
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

    /// Applies a row. The error is the key of a row that can't be read.
    pub(super) fn take(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), String> {
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
            [Some("format"), Some(topic)] => {
                let format = value.as_ref().and_then(|value| value["format"].as_str());
                match format {
                    Some(format) => self.formats.insert(Arc::from(*topic), format.to_owned()),
                    None => self.formats.remove(*topic),
                };
            }
            [Some("changelog"), Some(topic)] => {
                self.lost.retain(|partition| *partition.topic != **topic);
                self.partitions.remove(*topic);
                let Some(value) = value else {
                    self.changelogs.remove(*topic);
                    return Ok(());
                };
                let partitions = value["partitions"].as_i64();
                if let Some(partitions) = partitions.and_then(|n| i32::try_from(n).ok()) {
                    self.partitions.insert(Arc::from(*topic), partitions);
                }
                let ends = value["ends"].as_array().ok_or_else(unread)?;
                let ends = ends.iter().map(|end| end.as_i64().map(Offset)).collect();
                self.changelogs.insert(Arc::from(*topic), ends);
                let lost = value["lost"].as_array().map_or(&[][..], Vec::as_slice);
                for partition in lost {
                    let number = partition.as_i64().and_then(|n| i32::try_from(n).ok());
                    let number = number.ok_or_else(unread)?;
                    self.lost
                        .insert(TopicPartition::new(Arc::from(*topic), number));
                }
            }
            [Some("instance")] => {
                let started = value.as_ref().and_then(|value| value["started"].as_i64());
                self.started = started.map(Timestamp);
            }
            [
                None | Some("position" | "topic" | "format" | "changelog"),
                ..,
            ]
            | [] => return Err(unread()),
            // Rows of other kinds are information only.
            [Some(_), ..] => {}
        }
        Ok(())
    }

    /// The end offset of a changelog partition at the last commit.
    pub fn end_of(&self, partition: &TopicPartition) -> Option<Offset> {
        let ends = self.changelogs.get(&partition.topic)?;
        *ends.get(usize::try_from(partition.partition.0).ok()?)?
    }
}
