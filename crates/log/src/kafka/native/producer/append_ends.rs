//! The ends of topics that only this application writes to, according to acknowledgements.
//!
//! Takes the broker's acknowledgements, and ends from another producer of the same application; detects
//! a partition whose next record gets an offset before its end: acknowledged records are gone.

use crate::kafka::lost_records::LostRecords;
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{Error, Offset, Partition, TopicPartition};

#[cfg(test)]
mod tests;

/// Ends of the remembered topics.
#[derive(Debug, Default)]
pub(in crate::kafka::native) struct AppendEnds {
    topics: BTreeMap<Arc<str>, BTreeMap<Partition, Offset>>,
    /// The first partition that lost records.
    lost: Option<LostRecords>,
}

impl AppendEnds {
    /// Remembers these topics, and no others.
    pub(in crate::kafka::native) fn remember(&mut self, topics: &[Arc<str>]) {
        self.topics.retain(|known, _| topics.contains(known));
        for topic in topics {
            self.topics.entry(Arc::clone(topic)).or_default();
        }
    }

    /// Notes that a partition ends at this offset or later.
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

    /// Records were acknowledged, the first one at this offset.
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
        // Later records have lower offsets, too; a loss is reported once.
        let before = ends.insert(partition, Offset(first.0 + count));
        if let Some(end) = before.filter(|end| first < *end) {
            self.lost.get_or_insert_with(|| LostRecords {
                partition: TopicPartition::new(topic, partition.0),
                end,
                first,
            });
        }
    }

    /// The loss as an error, once.
    pub(in crate::kafka::native) fn take_loss(&mut self, address: &str) -> Option<Error> {
        self.lost.take().map(|lost| lost.error(address))
    }
}
