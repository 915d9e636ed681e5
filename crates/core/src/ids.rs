//! A newtype for every number that means something, so that a lane can't be passed where a stage is
//! meant.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number!(
    /// The unit of commit: everything between two barriers.
    Epoch(u64)
);
number!(
    /// One unit of concurrency; owns a queue, never state.
    Lane(u32)
);
number!(
    /// A part of the topology between two exchanges. Stage 0 reads the sources.
    StageId(u16)
);
number!(
    /// A physical node, unique in the whole plan (index into `PhysicalPlan::nodes`).
    NodeId(u32)
);
number!(
    /// A state store (index into `PhysicalPlan::stores`).
    StoreId(u16)
);
number!(
    /// A source node (index into `PhysicalPlan::sources`).
    SourceId(u16)
);
number!(
    /// A sink node (index into `PhysicalPlan::sinks`).
    SinkId(u16)
);
number!(
    /// A user function (index into the table of callables that Python passes with the plan).
    UdfId(u32)
);
number!(
    /// A processor of the user (index into the table of processors that Python passes with the plan).
    ProcessorId(u32)
);
number!(
    /// A clock of stream time (index into `PhysicalPlan::clocks`).
    ClockId(u16)
);
number!(
    /// A partition of a topic.
    Partition(i32)
);
number!(
    /// The position of a record in a partition.
    Offset(i64)
);
number!(
    /// Event or wall time in milliseconds since 1970.
    Timestamp(i64)
);

impl Epoch {
    /// The epoch after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Timestamp {
    /// Before every record: Kafka Streams' "no timestamp seen yet".
    pub const UNKNOWN: Self = Self(-1);
}

/// A topic and one of its partitions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TopicPartition {
    /// The topic.
    pub topic: std::sync::Arc<str>,
    /// The partition.
    pub partition: Partition,
}

impl TopicPartition {
    /// Names a partition.
    pub fn new(topic: impl Into<std::sync::Arc<str>>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition: Partition(partition),
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}
