//! The port to what a sink's partitioner must know of topics.
//!
//! Takes a topic, gives how many partitions it has. Implemented by the engine over its broker.

use std::fmt::Debug;
use stoatflow_core::Result;

/// How many partitions topics have.
pub trait PartitionCounts: Send + Sync + Debug {
    /// Of this topic. May ask the broker the first time; remembers.
    ///
    /// # Errors
    /// `MissingTopic`, `Unavailable`, `Unauthorized`.
    fn partitions(&self, topic: &str) -> Result<u32>;
}
