//! The simulated broker's consumer.
//!
//! Returns visible records, slot by slot in round-robin order. Never waits: virtual time doesn't advance
//! meanwhile.

use crate::broker::SimBroker;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Result, TopicPartition};
use stoatflow_log::{Consumer, ConsumerRecord};

#[derive(Debug)]
struct Slot {
    partition: TopicPartition,
    position: Offset,
    paused: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SimConsumer {
    broker: SimBroker,
    slots: Vec<Slot>,
    turn: usize,
}

impl SimConsumer {
    pub fn new(broker: SimBroker) -> Self {
        Self {
            broker,
            slots: Vec::new(),
            turn: 0,
        }
    }

    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Reads up to `max` records from one slot.
    pub fn read(&mut self, at: usize, max: usize, into: &mut Vec<ConsumerRecord>) -> Result<()> {
        let slot = &mut self.slots[at];
        if slot.paused {
            return Ok(());
        }
        let state = self.broker.lock();
        let log = state.log(&slot.partition)?;
        for _ in 0..max {
            let Some((offset, kept)) = log.next(slot.position) else {
                break;
            };
            into.push(ConsumerRecord {
                slot: u32::try_from(at).unwrap_or(u32::MAX),
                offset,
                timestamp: kept.timestamp,
                key: kept.key.clone(),
                value: kept.value.clone(),
                headers: kept.headers.clone(),
                number: 0,
            });
            slot.position = Offset(offset.0 + 1);
        }
        // Skip invisible offsets, up to the next record or the stable end.
        let next = log
            .next(slot.position)
            .map_or_else(|| log.stable_end(), |(offset, _)| offset);
        slot.position = slot.position.max(next);
        Ok(())
    }
}

impl Consumer for SimConsumer {
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> Result<()> {
        let state = self.broker.lock();
        for (partition, _) in partitions {
            state.log(partition)?;
        }
        let slot = |(partition, position): &(TopicPartition, Offset)| Slot {
            partition: partition.clone(),
            position: *position,
            paused: false,
        };
        self.slots = partitions.iter().map(slot).collect();
        Ok(())
    }

    fn poll(
        &mut self,
        max: usize,
        _timeout: Duration,
        into: &mut Vec<ConsumerRecord>,
    ) -> Result<()> {
        let full = into.len() + max;
        for _ in 0..self.slots.len() {
            self.turn = (self.turn + 1) % self.slots.len();
            self.read(self.turn, full - into.len(), into)?;
        }
        Ok(())
    }

    fn positions(&self) -> Vec<Offset> {
        self.slots.iter().map(|s| s.position).collect()
    }

    fn caught_up(&self, slot: u32) -> bool {
        let state = self.broker.lock();
        let slot = self.slots.get(slot as usize);
        slot.is_some_and(|slot| {
            let log = state.log(&slot.partition);
            log.is_ok_and(|log| slot.position >= log.stable_end())
        })
    }

    fn pause(&mut self, slots: &[u32], paused: bool) -> Result<()> {
        for slot in slots {
            match self.slots.get_mut(*slot as usize) {
                Some(slot) => slot.paused = paused,
                None => return Err(Error::internal(format!("slot {slot} is not assigned"))),
            }
        }
        Ok(())
    }
}
