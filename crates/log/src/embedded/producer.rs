//! Writing to the embedded log.
//!
//! Takes records, encodes them at once into chunks per partition, and hands these to the log as one
//! batch: at `commit` in a transaction, at the end of `send` in plain mode. Owns the uncommitted
//! records, and the fence that tells whether it may still write them. Never assigns offsets: the log
//! does.

use super::chunk::{self, ChunkWriter, MAX_RECORD};
use super::log::{Fence, Log, Staged, Topic};
use crate::murmur2::partition_of;
use crate::{CommitOutcome, CutEntry, Producer, ProducerMode, ProducerRecord};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Partition, Result, TopicPartition};

/// So many records without a key in a row go to one partition, so that they share a chunk.
const RECORDS_PER_PARTITION: u32 = 128;

#[derive(Debug)]
struct Target {
    /// The `Arc` of the last record for this topic; usually the next one has the same, so that one
    /// pointer comparison finds it.
    name: Arc<str>,
    topic: Arc<Topic>,
    open: Vec<Vec<ChunkWriter>>,
    keyless: u32,
    remembered: bool,
    acknowledged: Vec<Option<i64>>,
    expected: Vec<Option<i64>>,
}

/// A writer to the embedded log.
#[derive(Debug)]
pub(super) struct EmbeddedProducer {
    log: Arc<Log>,
    fence: Option<Fence>,
    transactional: bool,
    open: bool,
    targets: Vec<Target>,
    last: usize,
    offsets: Vec<(String, CutEntry)>,
    remembered: Vec<Arc<str>>,
}

impl EmbeddedProducer {
    pub(super) fn new(log: Arc<Log>, mode: &ProducerMode) -> Result<Self> {
        let fence = Some(log.take_over(mode.id())?);
        Ok(Self::with(log, fence, mode.is_transactional()))
    }

    /// A writer that is never fenced: for loading data outside transactions.
    pub(super) fn unguarded(log: Arc<Log>) -> Self {
        Self::with(log, None, false)
    }

    const fn with(log: Arc<Log>, fence: Option<Fence>, transactional: bool) -> Self {
        Self {
            log,
            fence,
            transactional,
            open: false,
            targets: Vec::new(),
            last: 0,
            offsets: Vec::new(),
            remembered: Vec::new(),
        }
    }

    fn check(&self) -> Result<()> {
        self.fence.as_ref().map_or(Ok(()), Fence::check)
    }

    fn expect_open(&self, call: &str) -> Result<()> {
        if self.open {
            return Ok(());
        }
        Err(Error::internal(format!(
            "'{call}' was called outside a transaction"
        )))
    }

    fn target(&mut self, name: &Arc<str>) -> Result<usize> {
        if self
            .targets
            .get(self.last)
            .is_some_and(|t| Arc::ptr_eq(&t.name, name))
        {
            return Ok(self.last);
        }
        let found = self.targets.iter().position(|t| t.name == *name);
        self.last = if let Some(found) = found {
            self.targets[found].name = name.clone();
            found
        } else {
            let topic = self.log.target(name)?;
            let partitions = usize::try_from(topic.partitions()).unwrap_or(0);
            self.targets.push(Target {
                name: name.clone(),
                topic,
                open: (0..partitions).map(|_| Vec::new()).collect(),
                keyless: 0,
                remembered: self.remembered.contains(name),
                acknowledged: vec![None; partitions],
                expected: vec![None; partitions],
            });
            self.targets.len() - 1
        };
        Ok(self.last)
    }

    /// Encodes one record into its partition's open chunk.
    pub(super) fn stage(&mut self, record: &ProducerRecord) -> Result<()> {
        let weight = chunk::weight(record);
        if weight > MAX_RECORD {
            return Err(Error::serde(format!(
                "a record of {weight} bytes for topic '{}' is too large",
                record.topic
            ))
            .hint(format!("keep records below {MAX_RECORD} bytes")));
        }
        let index = self.target(&record.topic)?;
        let target = &mut self.targets[index];
        let partitions = target.topic.partitions();
        let partition = match (record.partition, &record.key) {
            (Some(p), _) if (0..partitions).contains(&p.0) => p.0,
            (Some(p), _) => {
                return Err(self
                    .log
                    .partition(&TopicPartition {
                        topic: record.topic.clone(),
                        partition: p,
                    })
                    .map_or_else(
                        |missing| missing,
                        |_| Error::internal("a partition appeared while a record was staged"),
                    ));
            }
            (None, Some(key)) => partition_of(key, partitions),
            (None, None) => {
                target.keyless = target.keyless.wrapping_add(1);
                ((target.keyless.wrapping_sub(1) / RECORDS_PER_PARTITION)
                    % partitions.cast_unsigned())
                .cast_signed()
            }
        };
        let chunks = &mut target.open[partition.unsigned_abs() as usize];
        match chunks.last_mut() {
            Some(chunk) if !chunk.is_full() => chunk.push(record),
            _ => {
                let mut chunk = ChunkWriter::new();
                chunk.push(record);
                chunks.push(chunk);
            }
        }
        Ok(())
    }

    /// Writes the staged records, with the offsets, as one batch.
    pub(super) fn publish(&mut self) -> Result<()> {
        let mut staged = Vec::new();
        for target in &mut self.targets {
            for (partition, chunks) in (0u32..).zip(&mut target.open) {
                if !chunks.is_empty() {
                    staged.push(Staged {
                        topic: target.topic.clone(),
                        partition,
                        chunks: std::mem::take(chunks),
                    });
                }
            }
            target.expected.fill(None);
        }
        let offsets = std::mem::take(&mut self.offsets);
        self.log.write(self.fence.as_ref(), &staged, &offsets)?;
        for part in staged {
            let target = self
                .targets
                .iter_mut()
                .find(|t| Arc::ptr_eq(&t.topic, &part.topic));
            if let Some(target) = target.filter(|t| t.remembered) {
                target.acknowledged[part.partition as usize] = Some(part.topic.end(part.partition));
            }
        }
        Ok(())
    }

    fn drop_staged(&mut self) {
        for target in &mut self.targets {
            target.open.iter_mut().for_each(Vec::clear);
            target.expected.fill(None);
        }
        self.offsets.clear();
    }
}

impl Producer for EmbeddedProducer {
    fn sends_are_fenced(&self) -> bool {
        self.fence.is_some()
    }

    fn begin(&mut self) -> Result<()> {
        self.check()?;
        if self.open {
            return Err(Error::internal("'begin' was called inside a transaction"));
        }
        self.open = true;
        Ok(())
    }

    fn send(&mut self, records: &mut Vec<ProducerRecord>) -> Result<()> {
        self.check()?;
        if self.transactional {
            self.expect_open("send")?;
        }
        for record in records.drain(..) {
            self.stage(&record)?;
        }
        if self.transactional {
            return Ok(());
        }
        // Offsets wait for `commit`; the records are written now.
        let offsets = std::mem::take(&mut self.offsets);
        let published = self.publish();
        self.offsets = offsets;
        published
    }

    fn flush(&mut self, _timeout: Duration) -> Result<()> {
        self.check()?;
        // The offsets that the records get if nobody else writes to these topics before `commit`, which
        // holds for the changelogs they are remembered for. `commit` replaces them by the real ones.
        for target in self.targets.iter_mut().filter(|t| t.remembered) {
            for (partition, (chunks, expected)) in
                (0u32..).zip(target.open.iter().zip(&mut target.expected))
            {
                let count: i64 = chunks.iter().map(|chunk| i64::from(chunk.count())).sum();
                *expected = (count > 0).then(|| target.topic.end(partition) + count);
            }
        }
        Ok(())
    }

    fn offsets(&mut self, group: &str, cut: &[CutEntry], _timeout: Duration) -> Result<()> {
        self.check()?;
        self.expect_open("offsets")?;
        self.offsets
            .extend(cut.iter().map(|entry| (group.to_owned(), entry.clone())));
        Ok(())
    }

    fn commit(&mut self, _timeout: Duration) -> Result<CommitOutcome> {
        self.expect_open("commit")?;
        self.open = false;
        let published = self.publish();
        if published.is_err() {
            self.drop_staged();
        }
        published.map(|()| CommitOutcome::Committed)
    }

    fn abort(&mut self, _timeout: Duration) -> Result<()> {
        self.open = false;
        self.drop_staged();
        self.check()
    }

    fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)> {
        let Some(target) = self
            .targets
            .iter()
            .find(|t| *t.name == *topic && t.remembered)
        else {
            return Vec::new();
        };
        let ends = target
            .acknowledged
            .iter()
            .zip(&target.expected)
            .map(|(known, expected)| expected.or(*known));
        (0..)
            .zip(ends)
            .filter_map(|(p, end)| Some((Partition(p), Offset(end?))))
            .collect()
    }

    fn remember(&mut self, topics: &[Arc<str>]) {
        self.remembered = topics.to_vec();
        for target in &mut self.targets {
            target.remembered = topics.contains(&target.name);
        }
    }
}
