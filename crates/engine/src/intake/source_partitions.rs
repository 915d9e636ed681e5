//! The partitions that are read, and which sources read each of them.
//!
//! A *slot* is an index into this table, the same as in the consumer's assignment. One partition
//! may have several sources; each gets its own record.

use crate::intake::timestamps::Extractor;
use crate::intake::watermarks::{Progress, WatermarkOf};
use std::sync::Arc;
use stoatflow_core::{
    NodeId, Offset, Order, Origin, Record, Result, Serde, SourceId, Task, TopicPartition,
};
use stoatflow_log::ConsumerRecord;
use stoatflow_operators::{ErrorPolicy, LatePolicy};

/// One source of a partition.
#[derive(Clone, Debug)]
pub struct SourceBinding {
    /// The source.
    pub source: SourceId,
    /// Index of the topic in the source's list.
    pub topic: u16,
    /// The source's node in stage 0.
    pub entry: NodeId,
    /// Serde of keys.
    pub key: Serde,
    /// Serde of values.
    pub value: Serde,
    /// The policy for records that can't be decoded.
    pub error_policy: Option<Arc<ErrorPolicy>>,
    /// The policy for records older than the watermark; without one all are processed.
    pub late: Option<Arc<LatePolicy>>,
}

/// One partition that is read.
#[derive(Clone, Debug)]
pub struct SourcePartition {
    /// Topic and partition.
    pub partition: TopicPartition,
    /// The offset to start at.
    pub start: Offset,
    /// The end of its readable records at the start.
    pub end: Offset,
    /// True if the group has no committed offset here yet.
    pub fresh: bool,
    /// Its times at the last commit.
    pub progress: Progress,
    /// The sources that get its records.
    pub bindings: Vec<SourceBinding>,
    /// Where a record's timestamp comes from.
    pub time: Extractor,
    /// How far timestamps may be ahead of the clock, in milliseconds; `None`: no limit.
    pub max_ahead: Option<i64>,
    /// How its watermark is determined.
    pub watermark: WatermarkOf,
    /// True if it belongs to a global table.
    pub is_global: bool,
    /// True if its records are answers to an offload.
    pub is_answers: bool,
    /// The offloads that park its records: while one has no room, the partition is not read.
    pub parking_offloads: Vec<NodeId>,
}

/// All partitions, by slot.
pub type SourcePartitions = Arc<[SourcePartition]>;

impl SourcePartition {
    /// True if a record with this origin was read from this partition.
    #[must_use]
    pub fn has(&self, origin: &Origin) -> bool {
        let mut bindings = self.bindings.iter();
        self.partition.partition == origin.partition
            && bindings.any(|r| (r.source, r.topic) == (origin.source, origin.topic))
    }

    /// True if each of its sources has a handler for undecodable records.
    #[must_use]
    pub fn asks(&self) -> bool {
        !self.bindings.is_empty() && self.bindings.iter().all(|r| r.error_policy.is_some())
    }

    /// The bytes of a key that decide the lane.
    #[must_use]
    pub fn affinity<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        self.bindings
            .first()
            .map_or(key, |reader| reader.key.affinity(key))
    }
}

impl SourceBinding {
    /// Decodes a fetched record for this source.
    ///
    /// # Errors
    /// `Serde` with the coordinates of the record.
    pub fn decode(&self, slot: &SourcePartition, fetched: &ConsumerRecord) -> Result<Record> {
        let located = |e: stoatflow_core::Error, part: &str| {
            e.of_the(part).at(|at| {
                at.topic = Some(slot.partition.topic.to_string());
                at.partition = Some(slot.partition.partition);
                at.offset = Some(fetched.offset);
            })
        };
        Ok(Record {
            key: self
                .key
                .read(fetched.key.clone())
                .map_err(|e| located(e, "key"))?,
            value: self
                .value
                .read(fetched.value.clone())
                .map_err(|e| located(e, "value"))?,
            timestamp: fetched.timestamp,
            headers: fetched.headers.clone(),
            origin: self.origin(slot, fetched),
        })
    }

    /// A record's origin.
    #[must_use]
    pub fn origin(&self, slot: &SourcePartition, fetched: &ConsumerRecord) -> Origin {
        Origin {
            source: self.source,
            topic: self.topic,
            partition: slot.partition.partition,
            offset: fetched.offset,
            order: Order::new(fetched.number, Task::of(slot.partition.partition.0)),
        }
    }
}
