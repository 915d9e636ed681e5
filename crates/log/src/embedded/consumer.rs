//! Reading the embedded log.
//!
//! Takes an assignment, returns committed records in offset order, the partitions taking turns. Owns a
//! position and a half-read chunk per partition. Never sees uncommitted records: it reads up to the
//! partition ends, which only commits move.

use super::chunk::ChunkReader;
use super::errors::corrupt;
use super::log::{Log, Topic};
use crate::{Consumer, ConsumerRecord};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Result, TopicPartition};

#[derive(Debug)]
struct Slot {
    topic: Arc<Topic>,
    partition: u32,
    next: i64,
    paused: bool,
    chunk: Option<ChunkReader>,
}

impl Slot {
    fn ready(&self) -> bool {
        !self.paused && self.next < self.topic.end(self.partition)
    }
}

/// A reader of the embedded log.
#[derive(Debug)]
pub(super) struct EmbeddedConsumer {
    log: Arc<Log>,
    slots: Vec<Slot>,
    turn: usize,
}

impl EmbeddedConsumer {
    pub(super) fn new(log: Arc<Log>) -> Self {
        Self {
            log,
            slots: Vec::new(),
            turn: 0,
        }
    }

    fn take(&mut self, max: usize, into: &mut Vec<ConsumerRecord>) -> Result<()> {
        let full = into.len() + max;
        let count = self.slots.len();
        for step in 0..count {
            let index = (self.turn + step) % count;
            if self.slots[index].ready() {
                fill(&self.log, &mut self.slots[index], index, full, into)?;
            }
            if into.len() >= full {
                self.turn = index + 1;
                return Ok(());
            }
        }
        Ok(())
    }
}

fn fill(
    log: &Log,
    slot: &mut Slot,
    index: usize,
    full: usize,
    into: &mut Vec<ConsumerRecord>,
) -> Result<()> {
    drain(slot, index, full, into)?;
    if into.len() >= full || !slot.ready() {
        return Ok(());
    }
    let (topic, partition) = (slot.topic.clone(), slot.partition);
    // The end as of now: the iterator reads a snapshot, and others may append meanwhile.
    let end = topic.end(partition);
    let read = log.chunks(&topic, partition, slot.next, |base, bytes| {
        let mut chunk = ChunkReader::new(Bytes::copy_from_slice(bytes))?;
        let behind = u32::try_from(slot.next - base)
            .ok()
            .filter(|n| *n < chunk.left());
        chunk.skip(behind.ok_or_else(|| corrupt("a chunk does not continue its partition"))?)?;
        slot.chunk = Some(chunk);
        drain(slot, index, full, into)?;
        Ok(into.len() < full && slot.ready())
    });
    // Deleted while it was being read: its records are gone, not damaged.
    if topic.is_deleted() {
        return Ok(());
    }
    read?;
    if into.len() < full && slot.next < end {
        return Err(corrupt("a partition ends before its end"));
    }
    Ok(())
}

fn drain(slot: &mut Slot, index: usize, full: usize, into: &mut Vec<ConsumerRecord>) -> Result<()> {
    let Some(chunk) = &mut slot.chunk else {
        return Ok(());
    };
    while into.len() < full {
        let Some(record) = chunk.next()? else {
            slot.chunk = None;
            return Ok(());
        };
        into.push(ConsumerRecord {
            slot: u32::try_from(index).unwrap_or(u32::MAX),
            offset: Offset(slot.next),
            timestamp: record.timestamp,
            key: record.key,
            value: record.value,
            headers: record.headers,
            number: 0,
        });
        slot.next += 1;
    }
    Ok(())
}

impl Consumer for EmbeddedConsumer {
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> Result<()> {
        let mut slots = Vec::with_capacity(partitions.len());
        for (name, offset) in partitions {
            let (topic, partition) = self.log.partition(name)?;
            let end = topic.end(partition);
            if !(0..=end).contains(&offset.0) {
                return Err(Error::incompatible(format!("{name} holds the offsets 0 to {end}, the saved position is {offset}"))
                    .hint("the topic was made anew: reset the application's offsets and state, or bring the old topic back"));
            }
            slots.push(Slot {
                topic,
                partition,
                next: offset.0,
                paused: false,
                chunk: None,
            });
        }
        self.slots = slots;
        self.turn = 0;
        Ok(())
    }

    fn poll(
        &mut self,
        max: usize,
        timeout: Duration,
        into: &mut Vec<ConsumerRecord>,
    ) -> Result<()> {
        if max == 0 {
            return Ok(());
        }
        if !self.slots.iter().any(Slot::ready) {
            self.log
                .wait(timeout, || self.slots.iter().any(Slot::ready));
        }
        self.take(max, into)
    }

    fn positions(&self) -> Vec<Offset> {
        self.slots.iter().map(|slot| Offset(slot.next)).collect()
    }

    fn caught_up(&self, slot: u32) -> bool {
        let slot = self.slots.get(slot as usize);
        slot.is_some_and(|slot| slot.next >= slot.topic.end(slot.partition))
    }

    fn pause(&mut self, slots: &[u32], paused: bool) -> Result<()> {
        for slot in slots {
            let found = self.slots.get_mut(*slot as usize);
            found
                .ok_or_else(|| Error::internal(format!("slot {slot} is not assigned")))?
                .paused = paused;
        }
        Ok(())
    }
}
