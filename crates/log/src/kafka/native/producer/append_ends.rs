//! Where the topics end that nobody else writes to, as far as acknowledged records say.
//!
//! Takes what brokers acknowledge, and what another producer of the same application heard; says when a partition goes
//! on before its end: records that were acknowledged are gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{Error, Offset, Partition, TopicPartition};

#[cfg(test)]
mod tests;

/// Ends of the topics that are remembered.
#[derive(Debug, Default)]
pub(in crate::kafka::native) struct AppendEnds {
    topics: BTreeMap<Arc<str>, BTreeMap<Partition, Offset>>,
    /// The first partition that went on before its end.
    lost: Option<LostRecords>,
}

/// A partition that ended here once, and goes on there.
#[derive(Debug)]
struct LostRecords {
    partition: TopicPartition,
    end: Offset,
    first: Offset,
}

impl AppendEnds {
    /// Remembers these topics, and no others.
    pub(in crate::kafka::native) fn remember(&mut self, topics: &[Arc<str>]) {
        self.topics.retain(|known, _| topics.contains(known));
        for topic in topics {
            self.topics.entry(Arc::clone(topic)).or_default();
        }
    }

    /// A partition ends there, or behind it.
    pub(in crate::kafka::native) fn note(
        &mut self,
        topic: &str,
        partition: Partition,
        end: Offset,
    ) {
        if let Some(ends) = self.topics.get_mut(topic) {
            let known = ends.entry(partition).or_insert(end);
            *known = end.max(*known);
        }
    }

    /// Records were acknowledged, the first at this offset.
    pub(in crate::kafka::native) fn append(
        &mut self,
        topic: &str,
        partition: Partition,
        first: Offset,
        count: i64,
    ) {
        let Some(ends) = self.topics.get_mut(topic) else {
            return;
        };
        // What follows has lower offsets, too; a loss is told once.
        let before = ends.insert(partition, Offset(first.0 + count));
        if let Some(end) = before.filter(|end| first < *end) {
            self.lost.get_or_insert_with(|| LostRecords {
                partition: TopicPartition::new(topic, partition.0),
                end,
                first,
            });
        }
    }

    /// What went wrong, once.
    pub(in crate::kafka::native) fn take_loss(&mut self, address: &str) -> Option<Error> {
        let LostRecords {
            partition,
            end,
            first,
        } = self.lost.take()?;
        let lost = format!(
            "the changelog {partition} has lost records at {address}: it ended at {end}, and the broker gave the next \
                record offset {first} (unclean leader election, or the topic was deleted and created again)"
        );
        let error = Error::incompatible(lost)
            .hint("start again: the next start names what is lost, and the ways to go on");
        Some(error.at(|at| {
            at.topic = Some(partition.topic.to_string());
            at.partition = Some(partition.partition);
            at.offset = Some(end);
        }))
    }
}
