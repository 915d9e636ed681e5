//! Refuses to begin with an empty table whose topic another program has already read.
//!
//! Kafka Streams with `topology.optimization` keeps no changelog for a table that it reads from a topic.
//! An application that continues from the committed offsets would only have the rows after them. Checked
//! once: before the application's offsets topic is created.

use super::EngineSpec;
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{Error, Offset, Result, TopicPartition};
use stoatflow_log::{Broker, TopicInfo};
use stoatflow_plan::Store;

impl EngineSpec {
    /// Checks the stores whose changelogs are `missing`.
    ///
    /// # Errors
    /// `Incompatible` for such a table; errors of the broker.
    pub(super) fn refuse_missing_changelogs<'s>(
        &self,
        broker: &dyn Broker,
        sources: &BTreeMap<String, TopicInfo>,
        missing: impl Iterator<Item = &'s Store>,
    ) -> Result<()> {
        let (group, timeout) = (&self.settings.application_id, self.settings.broker_wait);
        for store in missing {
            let topic = store.source_changelog.as_ref();
            let Some(topic) = topic.and_then(|topic| sources.get(topic)) else {
                continue;
            };
            let of = |p| TopicPartition::new(Arc::clone(&topic.name), p);
            let partitions: Vec<TopicPartition> = (0..topic.partitions).map(of).collect();
            let committed = broker.committed(group, &partitions, timeout)?;
            if committed.iter().all(Option::is_none) {
                continue;
            }
            let ranges = broker.ranges(&partitions, timeout)?;
            let all = partitions.iter().zip(committed).zip(ranges);
            for ((partition, committed), range) in all {
                let at = committed.map_or(range.begin, |committed| committed.offset);
                if at > range.begin {
                    return Err(lacks_rows(
                        group,
                        store,
                        &self.changelog_of(store),
                        (partition, at),
                    ));
                }
            }
        }
        Ok(())
    }
}

fn lacks_rows(
    group: &str,
    store: &Store,
    changelog: &str,
    (partition, at): (&TopicPartition, Offset),
) -> Error {
    let topic = &partition.topic;
    Error::incompatible(format!(
        "the group '{group}' has read {partition} up to offset {at}, but the table '{}' of that topic has no \
         changelog '{changelog}': it would lack the rows before that offset",
        store.name
    ))
    .hint(format!(
        "if Kafka Streams ran with topology.optimization, set it here, too: topology.optimization=\
         reuse.ktable.source.topics restores the table from its topic. If the store had another name, give it that \
         name. To read the topic again: kafka-consumer-groups.sh --group {group} --topic {topic} --reset-offsets \
         --to-earliest --execute. If the table is to begin empty, create the topic '{changelog}'"
    ))
    .at(|at| {
        at.topic = Some(topic.to_string());
        at.partition = Some(partition.partition);
    })
}
