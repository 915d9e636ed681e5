//! Which partition goes to which source: the table that turns a fetched record into records.

use crate::intake::timestamps::Extractor;
use crate::intake::watermarks::{Progress, WatermarkOf};
use std::sync::Arc;
use stoatflow_core::{
    NodeId, Offset, Order, Origin, Record, Result, Serde, SourceId, Task, TopicPartition,
};
use stoatflow_log::ConsumerRecord;
use stoatflow_operators::{Judge, LatePolicy};

/// One source that reads a slot's topic.
#[derive(Clone, Debug)]
pub struct SourceBinding {
    /// The source.
    pub source: SourceId,
    /// Index of the topic in that source's list.
    pub topic: u16,
    /// Its node in stage 0.
    pub entry: NodeId,
    /// Serde of keys.
    pub key: Serde,
    /// Serde of values.
    pub value: Serde,
    /// Who decides about records that can't be decoded.
    pub judge: Option<Arc<Judge>>,
    /// Who decides about records that are older than the watermark; all go in where nobody does.
    pub late: Option<Arc<LatePolicy>>,
}

/// One partition that is read.
#[derive(Clone, Debug)]
pub struct SourcePartition {
    /// Which.
    pub partition: TopicPartition,
    /// Where reading starts.
    pub start: Offset,
    /// Has the group no position here yet?
    pub fresh: bool,
    /// How far its time was at the last commit.
    pub progress: Progress,
    /// Who gets its records.
    pub bindings: Vec<SourceBinding>,
    /// How the time of its records is found.
    pub time: Extractor,
    /// How far it may be ahead of the clock, in milliseconds; `None`: however far.
    pub max_ahead: Option<i64>,
    /// What is expected of their order.
    pub watermark: WatermarkOf,
    /// Where the topic of a global table ended at the start.
    pub global_end: Option<Offset>,
    /// Does it bring answers to an offload? Then where its topic ended at the start.
    pub answers_end: Option<Offset>,
    /// The offloads that park its records: while one of them has no room, it is not read.
    pub parks_at: Vec<NodeId>,
}

/// All partitions, in the order of the consumer's assignment.
pub type SourcePartitions = Arc<[SourcePartition]>;

impl SourcePartition {
    /// Does a record with this origin come from here?
    #[must_use]
    pub fn has(&self, origin: &Origin) -> bool {
        let mut bindings = self.bindings.iter();
        self.partition.partition == origin.partition
            && bindings.any(|r| (r.source, r.topic) == (origin.source, origin.topic))
    }

    /// Does everybody who reads it have a handler for records that can't be read?
    #[must_use]
    pub fn asks(&self) -> bool {
        !self.bindings.is_empty() && self.bindings.iter().all(|r| r.judge.is_some())
    }

    /// The part of a key's bytes that decides the lane.
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
        let located = |e: stoatflow_core::Error| {
            e.at(|at| {
                at.topic = Some(slot.partition.topic.to_string());
                at.partition = Some(slot.partition.partition);
                at.offset = Some(fetched.offset);
            })
        };
        Ok(Record {
            key: self.key.read(fetched.key.clone()).map_err(located)?,
            value: self.value.read(fetched.value.clone()).map_err(located)?,
            timestamp: fetched.timestamp,
            headers: fetched.headers.clone(),
            origin: self.origin(slot, fetched),
        })
    }

    /// Where a record comes from.
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
