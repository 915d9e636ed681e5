//! What the cases share: named topics, producers, and readers that wait.
//!
//! Takes a broker and a tag. Returns shorthands whose failures read as broken promises. Owns no state of
//! the broker. Never reads a clock: it counts polls, so that virtual time works too.

use crate::{Broker, Consumer, ConsumerRecord, NewTopic, Producer, ProducerMode, ProducerRecord};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Offset, Partition, Result, Timestamp, TopicPartition};

/// Timeout of one call to the broker.
pub(super) const WAIT: Duration = Duration::from_secs(30);
/// Timeout of one poll of a reader that waits for records.
const POLL: Duration = Duration::from_millis(100);
/// After so many empty polls in a row, no more records are expected.
const PATIENCE: u32 = 400;
/// So many empty polls prove that a record is invisible.
const QUIET: u32 = 6;

/// Returns an error if the condition is false.
macro_rules! promise {
    ($kept:expr, $($said:tt)+) => {
        if !$kept {
            return Err(stoatflow_core::Error::internal(format!("contract broken: {}", format!($($said)+))));
        }
    };
}
pub(super) use promise;

/// One case's view of a broker.
pub(super) struct Stage<'a> {
    pub broker: &'a dyn Broker,
    tag: String,
}

impl<'a> Stage<'a> {
    pub(super) fn new(broker: &'a dyn Broker, tag: &str, case: &str) -> Self {
        Self {
            broker,
            tag: format!("{tag}-{case}"),
        }
    }

    /// A name that is unique to this case and run.
    pub(super) fn name(&self, what: &str) -> String {
        format!("{}-{what}", self.tag)
    }

    pub(super) fn topic(&self, what: &str, partitions: i32) -> Result<Arc<str>> {
        let name = self.name(what);
        let topic = NewTopic {
            name: name.clone(),
            partitions,
            replication: -1,
            config: Vec::new(),
        };
        self.broker.create_topics(&[topic], WAIT)?;
        Ok(name.into())
    }

    pub(super) fn transactional(&self, id: &str) -> Result<Box<dyn Producer>> {
        self.broker.producer(
            &ProducerMode::Transactional {
                id: self.name(id),
                timeout: WAIT,
            },
            WAIT,
        )
    }

    pub(super) fn plain(&self, id: &str) -> Result<Box<dyn Producer>> {
        self.broker.producer(
            &ProducerMode::Plain {
                id: self.name(id),
                timeout: WAIT,
            },
            WAIT,
        )
    }

    /// A reader of these partitions from their beginning.
    pub(super) fn reader(&self, partitions: &[TopicPartition]) -> Result<Box<dyn Consumer>> {
        let from: Vec<_> = partitions.iter().map(|p| (p.clone(), Offset(0))).collect();
        let mut consumer = self.broker.consumer(&self.name("reader"), from.len())?;
        consumer.assign(&from)?;
        Ok(consumer)
    }

    /// Everything visible in these partitions, once there are `count` records: a broker may answer a
    /// commit a moment before readers see it. Reads on to the stable ends, so that records beyond
    /// `count` are found too.
    pub(super) fn all(
        &self,
        partitions: &[TopicPartition],
        count: usize,
    ) -> Result<Vec<ConsumerRecord>> {
        let mut reader = self.reader(partitions)?;
        let mut seen = Vec::new();
        until(reader.as_mut(), &mut seen, |_, seen| seen.len() >= count)?;
        let ends: Vec<_> = self
            .broker
            .ranges(partitions, WAIT)?
            .iter()
            .map(|r| r.stable_end)
            .collect();
        until(reader.as_mut(), &mut seen, |reader, _| {
            reader
                .positions()
                .iter()
                .zip(&ends)
                .all(|(at, end)| at >= end)
        })?;
        Ok(seen)
    }

    /// The stable ends after the producer's last transaction is complete for readers too: opening its
    /// successor waits for that.
    pub(super) fn settled(
        &self,
        producer: Box<dyn Producer>,
        id: &str,
        partitions: &[TopicPartition],
    ) -> Result<(Box<dyn Producer>, Vec<Offset>)> {
        drop(producer);
        let successor = self.transactional(id)?;
        let ends = self
            .broker
            .ranges(partitions, WAIT)?
            .iter()
            .map(|r| r.stable_end)
            .collect();
        Ok((successor, ends))
    }
}

/// A record with text for key and value.
pub(super) fn record(
    topic: &Arc<str>,
    partition: Option<i32>,
    key: Option<&str>,
    value: &str,
) -> ProducerRecord {
    ProducerRecord {
        topic: topic.clone(),
        partition: partition.map(Partition),
        key: key.map(|k| Bytes::copy_from_slice(k.as_bytes())),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        timestamp: Timestamp(1_700_000_000_000),
        headers: None,
    }
}

/// `count` records for one partition; the values are `prefix` and a number.
pub(super) fn numbered(
    topic: &Arc<str>,
    partition: i32,
    prefix: &str,
    count: usize,
) -> Vec<ProducerRecord> {
    (0..count)
        .map(|n| record(topic, Some(partition), Some("k"), &format!("{prefix}{n}")))
        .collect()
}

/// The values, as text.
pub(super) fn values(records: &[ConsumerRecord]) -> Vec<String> {
    let text = |r: &ConsumerRecord| {
        r.value.as_ref().map_or("null".to_owned(), |v| {
            String::from_utf8_lossy(v).into_owned()
        })
    };
    records.iter().map(text).collect()
}

/// Polls until `done` returns true; fails if there is no progress for long.
pub(super) fn until(
    reader: &mut dyn Consumer,
    seen: &mut Vec<ConsumerRecord>,
    done: impl Fn(&dyn Consumer, &[ConsumerRecord]) -> bool,
) -> Result<()> {
    let mut idle = 0;
    while !done(reader, seen) {
        let before = (seen.len(), reader.positions());
        reader.poll(500, POLL, seen)?;
        idle = if before == (seen.len(), reader.positions()) {
            idle + 1
        } else {
            0
        };
        promise!(
            idle < PATIENCE,
            "a reader stands still at {:?} after {} records, the last {:?}",
            reader.positions(),
            seen.len(),
            values(&seen[seen.len().saturating_sub(3)..])
        );
    }
    Ok(())
}

/// Reads until there are `count` records.
pub(super) fn read(reader: &mut dyn Consumer, count: usize) -> Result<Vec<ConsumerRecord>> {
    let mut seen = Vec::new();
    until(reader, &mut seen, |_, seen| seen.len() >= count)?;
    Ok(seen)
}

/// Checks that no record arrives.
pub(super) fn silence(reader: &mut dyn Consumer, why: &str) -> Result<()> {
    let mut seen = Vec::new();
    for _ in 0..QUIET {
        reader.poll(500, POLL, &mut seen)?;
        promise!(seen.is_empty(), "{why}: {:?} became visible", values(&seen));
    }
    Ok(())
}

/// Opens a transaction, sends, flushes and commits.
pub(super) fn commit(producer: &mut dyn Producer, mut records: Vec<ProducerRecord>) -> Result<()> {
    producer.begin()?;
    producer.send(&mut records)?;
    promise!(records.is_empty(), "'send' left records behind");
    producer.flush(WAIT)?;
    let outcome = producer.commit(WAIT)?;
    promise!(
        outcome == crate::CommitOutcome::Committed,
        "a healthy commit gave {outcome:?}"
    );
    Ok(())
}

/// Checks that a call failed because a newer producer took over.
pub(super) fn fenced<T: std::fmt::Debug>(outcome: Result<T>, call: &str) -> Result<()> {
    match outcome {
        Err(e) if e.kind() == ErrorKind::Fenced => Ok(()),
        other => Err(Error::internal(format!(
            "contract broken: '{call}' of an older producer gave {other:?} instead of Fenced"
        ))),
    }
}
