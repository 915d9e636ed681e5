//! Furnishing the sources: which topics are read, from where, and how.
//!
//! Takes the plan's sources, gives the partitions to read with their positions and readers. Waits for
//! the broker within its budget. Never makes a source topic.

use super::Blueprint;
use crate::dispatch::decode_stream_time;
use crate::shared::Shared;
use crate::slots::{Reader, Slot, Slots};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Offset, Result, Timestamp, TopicPartition};
use stoatflow_log::{Broker, TopicInfo};
use stoatflow_plan::Reset;

impl Blueprint {
    /// Waits for the broker within its budget and gives the source topics.
    pub(super) fn reach_topics(
        &self,
        shared: &Shared,
    ) -> Result<Option<BTreeMap<String, TopicInfo>>> {
        let broker = &self.components.broker;
        let clock = &self.components.clock;
        let names: Vec<&str> = self
            .plan
            .sources
            .iter()
            .flat_map(|s| s.topics.iter().map(String::as_str))
            .collect();
        let began = clock.monotonic();
        loop {
            if shared.is_stopping() {
                return Ok(None);
            }
            match broker.topics(&names, Duration::from_secs(3)) {
                Ok(infos) => return found(&names, infos, &broker.address()).map(Some),
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    let waited = clock.monotonic().saturating_sub(began);
                    if waited >= self.settings.broker_wait {
                        return Err(Error::unavailable(format!(
                            "no broker answered at {} within {:.0} s",
                            broker.address(),
                            self.settings.broker_wait.as_secs_f64()
                        ))
                        .hint("start the broker or correct bootstrap.servers; broker.wait.timeout.ms sets how long to keep trying")
                        .caused_by(error));
                    }
                    tracing::warn!(
                        address = broker.address(),
                        "the broker does not answer yet; trying again"
                    );
                    shared.wait_for_credit(Duration::from_millis(500));
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn slots(
        &self,
        broker: &dyn Broker,
        topics: &BTreeMap<String, TopicInfo>,
    ) -> Result<Slots> {
        let timeout = self.settings.broker_wait;
        let mut slots: BTreeMap<TopicPartition, Slot> = BTreeMap::new();
        let mut resets: BTreeMap<TopicPartition, Reset> = BTreeMap::new();
        let default = if self.settings.reset_to_earliest {
            Reset::Earliest
        } else {
            Reset::Latest
        };
        for source in &self.plan.sources {
            for (index, topic) in source.topics.iter().enumerate() {
                for p in 0..topics[topic].partitions {
                    let partition = TopicPartition::new(Arc::clone(&topics[topic].name), p);
                    resets.insert(partition.clone(), source.reset.unwrap_or(default));
                    let slot = slots.entry(partition.clone()).or_insert_with(|| Slot {
                        partition,
                        start: Offset(0),
                        stream_time: Timestamp::UNKNOWN,
                        readers: Vec::new(),
                    });
                    slot.readers.push(Reader {
                        source: source.id,
                        topic: u16::try_from(index).unwrap_or(u16::MAX),
                        entry: source.entry,
                        key: self.foreign.serde(&source.key)?,
                        value: self.foreign.serde(&source.value)?,
                    });
                }
            }
        }
        let partitions: Vec<TopicPartition> = slots.keys().cloned().collect();
        let committed = broker.committed(&self.settings.application_id, &partitions, timeout)?;
        let ranges = broker.ranges(&partitions, timeout)?;
        for ((slot, committed), range) in slots.values_mut().zip(committed).zip(ranges) {
            slot.start = match (&committed, resets[&slot.partition]) {
                (Some(c), _) => c.offset.max(range.begin),
                (None, Reset::Earliest) => range.begin,
                (None, Reset::Latest) => range.stable_end,
            };
            if let Some(c) = committed {
                slot.stream_time = decode_stream_time(&c.metadata);
            }
        }
        Ok(slots.into_values().collect())
    }
}

fn found(
    names: &[&str],
    infos: Vec<Option<TopicInfo>>,
    address: &str,
) -> Result<BTreeMap<String, TopicInfo>> {
    let missing: Vec<&str> = names
        .iter()
        .zip(&infos)
        .filter(|(_, i)| i.is_none())
        .map(|(n, _)| *n)
        .collect();
    if !missing.is_empty() {
        return Err(Error::missing_topic(format!("source topic(s) {} do not exist at {address}", quoted(&missing)))
            .hint("create them (the engine never creates source topics, so that a typo is seen), or fix the names in the topology")
            .at(|at| at.topic = Some(missing[0].to_owned())));
    }
    Ok(names
        .iter()
        .map(|n| (*n).to_owned())
        .zip(infos.into_iter().flatten())
        .collect())
}

fn quoted(names: &[&str]) -> String {
    names
        .iter()
        .map(|n| format!("'{n}'"))
        .collect::<Vec<_>>()
        .join(", ")
}
