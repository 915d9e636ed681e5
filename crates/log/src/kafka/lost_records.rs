//! A changelog partition that went on before its end: records that were acknowledged are gone.

use stoatflow_core::{Error, Offset, TopicPartition};

/// A partition that ended here once, and goes on there.
#[derive(Debug)]
pub(in crate::kafka) struct LostRecords {
    pub partition: TopicPartition,
    pub end: Offset,
    pub first: Offset,
}

impl LostRecords {
    /// For whoever writes to this broker: topic and partition are among its coordinates.
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
