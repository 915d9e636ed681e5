//! The port to the partition counts of topics, for a sink's partitioner.
//!
//! Takes a topic, returns its number of partitions. Implemented by the engine over its broker.

use std::fmt::Debug;
use stoatflow_core::Result;

/// How many partitions topics have.
pub trait PartitionCounts: Send + Sync + Debug {
    /// The count of this topic. May ask the broker the first time; remembers it.
    ///
    /// # Errors
    /// `MissingTopic`, `Unavailable`, `Unauthorized`.
    fn partitions(&self, topic: &str) -> Result<u32>;
}
