//! The newest leader of each partition that any broker has told of.
//!
//! A broker that stood still, or is cut off from the others, has not heard of an election: it still takes itself for
//! the leader, and where it says a log ends, newer records follow.
//!
//! Takes metadata; says whether an answer is behind what is known, and which brokers gave such an answer. Shared by all
//! clients of an application. Never asks.

use kafka_protocol::messages::MetadataResponse;
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::kafka) struct LeaderEpochs(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    topics: BTreeMap<String, Topic>,
    /// Brokers whose last answer was behind.
    behind: BTreeSet<i32>,
}

#[derive(Debug, Default)]
struct Topic {
    /// A topic that is made anew under its name counts from 0 again.
    id: u128,
    epochs: BTreeMap<i32, i32>,
}

impl LeaderEpochs {
    /// Takes over what is newer. If the answer is behind, nothing: gives a partition whose newer leader is known.
    /// `from` is the broker that answered, where that is known.
    pub(in crate::kafka) fn learn(
        &self,
        answer: &MetadataResponse,
        from: Option<i32>,
    ) -> Result<(), String> {
        let mut known = self.0.lock();
        let outcome = known.learn(answer);
        if let Some(node) = from {
            if outcome.is_err() {
                known.behind.insert(node);
            } else {
                known.behind.remove(&node);
            }
        }
        outcome
    }

    /// Was its last answer behind what others had told?
    pub(in crate::kafka) fn is_behind(&self, node: i32) -> bool {
        self.0.lock().behind.contains(&node)
    }
}

impl Known {
    fn learn(&mut self, answer: &MetadataResponse) -> Result<(), String> {
        let told = || {
            // A broker that doesn't know a topic, or has nobody who leads it, knows no epoch either.
            let known = (answer.topics.iter()).filter(|topic| topic.error_code == 0);
            known.filter_map(|topic| Some((&topic.name.as_ref()?.0, topic)))
        };
        for (name, topic) in told() {
            let known = self.topics.get(&**name);
            let Some(known) = known.filter(|known| known.id == topic.topic_id.as_u128()) else {
                continue;
            };
            let behind = |p: &&MetadataResponsePartition| {
                let epoch = known.epochs.get(&p.partition_index);
                epoch.is_some_and(|known| (0..*known).contains(&p.leader_epoch))
            };
            if let Some(partition) = topic.partitions.iter().find(behind) {
                return Err(format!("{name}-{}", partition.partition_index));
            }
        }
        for (name, topic) in told() {
            let id = topic.topic_id.as_u128();
            let known = self.topics.entry(name.to_string()).or_default();
            if known.id != id {
                *known = Topic {
                    id,
                    ..Topic::default()
                };
            }
            for partition in &topic.partitions {
                if partition.leader_epoch >= 0 {
                    (known.epochs).insert(partition.partition_index, partition.leader_epoch);
                }
            }
        }
        Ok(())
    }
}
