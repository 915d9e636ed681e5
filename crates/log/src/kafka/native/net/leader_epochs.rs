//! The newest leader epoch of each partition, from the metadata of all brokers.
//!
//! A broker that was paused, or is cut off from the controllers, misses elections: it still acts as the
//! leader, and reports a log end that newer records follow.
//!
//! Takes metadata; finds out whether it is stale, and which brokers answered with stale metadata. Shared
//! by all clients of an application. Sends no requests.

use kafka_protocol::messages::MetadataResponse;
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
mod tests;

/// The newest leader epochs; see the module.
#[derive(Debug, Default)]
pub(in crate::kafka) struct LeaderEpochs(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    topics: BTreeMap<String, Topic>,
    /// Brokers whose last metadata was stale.
    behind: BTreeSet<i32>,
}

#[derive(Debug, Default)]
struct Topic {
    /// A recreated topic has another id, and its leader epochs start at 0.
    id: u128,
    epochs: BTreeMap<i32, i32>,
}

impl LeaderEpochs {
    /// Stores newer epochs. Stale metadata changes nothing; the error names a partition with an older
    /// epoch. `from` is the broker that answered, if known.
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

    /// Whether the last metadata of this broker was stale.
    pub(in crate::kafka) fn is_behind(&self, node: i32) -> bool {
        self.0.lock().behind.contains(&node)
    }
}

impl Known {
    fn learn(&mut self, answer: &MetadataResponse) -> Result<(), String> {
        let told = || {
            // A topic with an error has no leader epochs.
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
