//! A changelog partition whose next record got an offset before the known end: acknowledged records are
//! gone.

use stoatflow_core::{Error, Offset, TopicPartition};

/// A partition that ended at `end`, and whose next record got the offset `first`.
#[derive(Debug)]
pub(in crate::kafka) struct LostRecords {
    pub partition: TopicPartition,
    pub end: Offset,
    pub first: Offset,
}

impl LostRecords {
    /// The error; topic and partition are among its coordinates.
    pub(in crate::kafka) fn error(self, address: &str) -> Error {
        let Self {
            partition,
            end,
            first,
        } = self;
        let lost = format!(
            "the changelog {partition} has lost records at {address}: it ended at {end}, and the broker gave the next \
                record offset {first} (unclean leader election, or the topic was deleted and created again)"
        );
        let error = Error::incompatible(lost)
            .hint("start again: the next start names what is lost, and the ways to go on");
        error.at(|at| {
            at.topic = Some(partition.topic.to_string());
            at.partition = Some(partition.partition);
            at.offset = Some(end);
        })
    }
}
