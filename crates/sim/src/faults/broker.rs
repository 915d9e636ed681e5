//! The broker as one process sees it: slow, unreachable, or gone.
//!
//! Passes calls of the broker interface through [`Instance`]. A fetch may return fewer records than
//! there are, only those of some partitions, or nothing, as over a network.

use super::FaultPoint;
use super::producer::FaultyProducer;
use crate::broker::{Ends, SimBroker};
use crate::consumer::SimConsumer;
use crate::world::Instance;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Offset, Result, Timestamp, TopicPartition};
use stoatflow_log::{
    Broker, ClusterExpiry, Committed, Consumer, ConsumerRecord, NewTopic, Producer, ProducerMode,
    Range, TopicInfo,
};

/// How often a process meets a broker that missed an election, in ten thousand.
const STALE_LEADER_CHANCE: u32 = 500;

/// See the module.
#[derive(Debug)]
pub(crate) struct FaultyBroker {
    instance: Arc<Instance>,
    /// The ends of logs according to a broker that missed an election, while that broker answers.
    stale: Mutex<Option<Ends>>,
}

impl FaultyBroker {
    pub fn new(instance: Arc<Instance>) -> Self {
        let world = &instance.world;
        let ends = world.stale_ends();
        let stale = world.fault_happens(STALE_LEADER_CHANCE).then(|| {
            world.count("stale leaders");
            world.event(format!("#{} meets a stale leader", instance.number));
            ends
        });
        Self {
            stale: Mutex::new(stale),
            instance,
        }
    }

    fn broker(&self) -> &SimBroker {
        &self.instance.world.broker
    }

    /// Makes a call; if it fails, it takes its whole timeout.
    fn call<T>(
        &self,
        point: FaultPoint,
        timeout: Duration,
        act: impl FnOnce(&SimBroker) -> Result<T>,
    ) -> Result<T> {
        let outcome = self.instance.call(point, || act(self.broker()));
        if outcome.is_err() {
            self.instance.world.clock.advance(timeout);
        }
        outcome
    }
}

impl Broker for FaultyBroker {
    fn address(&self) -> String {
        self.broker().address()
    }

    fn topics(&self, names: &[&str], timeout: Duration) -> Result<Vec<Option<TopicInfo>>> {
        self.call(FaultPoint::Topics, timeout, |b| b.topics(names, timeout))
    }

    fn expiry(&self) -> ClusterExpiry {
        self.instance.world.expiry
    }

    fn tombstone_retention(
        &self,
        topics: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Option<Duration>>> {
        let kept = self.call(FaultPoint::Topics, timeout, |b| {
            b.tombstone_retention(topics, timeout)
        })?;
        Ok(if self.instance.world.tombstones_kept_forever {
            vec![None; topics.len()]
        } else {
            kept
        })
    }

    fn topic_names(&self, timeout: Duration) -> Result<Vec<Arc<str>>> {
        self.call(FaultPoint::Topics, timeout, |b| b.topic_names(timeout))
    }

    fn create_topics(&self, topics: &[NewTopic], timeout: Duration) -> Result<()> {
        self.call(FaultPoint::CreateTopics, timeout, |b| {
            b.create_topics(topics, timeout)
        })
    }

    fn delete_topics(&self, names: &[&str], timeout: Duration) -> Result<()> {
        self.call(FaultPoint::DeleteTopics, timeout, |b| {
            b.delete_topics(names, timeout)
        })
    }

    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Option<Committed>>> {
        self.call(FaultPoint::Committed, timeout, |b| {
            b.committed(group, partitions, timeout)
        })
    }

    fn learn_leaders(&self, _topics: &[&str], timeout: Duration) -> Result<()> {
        self.call(FaultPoint::Topics, timeout, |_| Ok(()))?;
        if !self.instance.world.trusts_stale_metadata {
            *self.stale.lock() = None;
        }
        Ok(())
    }

    fn ranges(&self, partitions: &[TopicPartition], timeout: Duration) -> Result<Vec<Range>> {
        let mut ranges = self.call(FaultPoint::Ranges, timeout, |b| {
            b.ranges(partitions, timeout)
        })?;
        if let Some(stale) = &*self.stale.lock() {
            for (partition, range) in partitions.iter().zip(&mut ranges) {
                if let Some(end) = stale.get(partition) {
                    range.stable_end = range.stable_end.min(*end);
                }
            }
        }
        Ok(ranges)
    }

    fn offsets_for_times(
        &self,
        partitions: &[TopicPartition],
        since: Timestamp,
        timeout: Duration,
    ) -> Result<Vec<Option<Offset>>> {
        self.call(FaultPoint::Ranges, timeout, |b| {
            b.offsets_for_times(partitions, since, timeout)
        })
    }

    fn consumer(&self, _group: &str, _partitions: usize) -> Result<Box<dyn Consumer>> {
        let consumer = self.call(FaultPoint::OpenConsumer, Duration::ZERO, |b| {
            Ok(SimConsumer::new(b.clone()))
        })?;
        Ok(Box::new(FaultyConsumer {
            instance: Arc::clone(&self.instance),
            consumer,
            short_polls: 0,
        }))
    }

    fn producer(&self, mode: &ProducerMode, timeout: Duration) -> Result<Box<dyn Producer>> {
        let producer = self.call(FaultPoint::OpenProducer, timeout, |b| {
            Ok(b.open_producer(mode))
        })?;
        Ok(Box::new(FaultyProducer::new(
            Arc::clone(&self.instance),
            producer.writing_outside(self.instance.world.outside),
        )))
    }
}

/// Maximum number of fetches in a row that return few records: the network is slow, not dead.
const MAX_SHORT_POLLS: u32 = 6;

struct FaultyConsumer {
    instance: Arc<Instance>,
    consumer: SimConsumer,
    short_polls: u32,
}

impl Consumer for FaultyConsumer {
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> Result<()> {
        self.consumer.assign(partitions)
    }

    fn poll(
        &mut self,
        max: usize,
        timeout: Duration,
        into: &mut Vec<ConsumerRecord>,
    ) -> Result<()> {
        let Self {
            instance,
            consumer,
            short_polls,
        } = self;
        let world = &instance.world;
        instance.call(FaultPoint::Poll, || {
            let before = into.len();
            let fate = world.below(4);
            *short_polls = if fate == 1 || *short_polls == MAX_SHORT_POLLS {
                0
            } else {
                *short_polls + 1
            };
            match fate {
                _ if *short_polls == 0 => consumer.poll(max, timeout, into)?,
                // No response yet.
                0 => {}
                // A short response with some partitions.
                _ => {
                    for _ in 0..world.below(3) {
                        let left = max - (into.len() - before);
                        let slot = world.below(consumer.slots());
                        if consumer.slots() > 0 {
                            consumer.read(slot, world.below(12).min(left), into)?;
                        }
                    }
                }
            }
            world.event(format!(
                "#{} fetched {}",
                instance.number,
                into.len() - before
            ));
            Ok(())
        })
    }

    fn positions(&self) -> Vec<Offset> {
        self.consumer.positions()
    }

    fn caught_up(&self, slot: u32) -> bool {
        self.consumer.caught_up(slot)
    }

    fn pause(&mut self, slots: &[u32], paused: bool) -> Result<()> {
        self.consumer.pause(slots, paused)
    }
}
