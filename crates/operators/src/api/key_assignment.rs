//! Which keys belong to a lane.
//!
//! Takes a key's bytes, returns its lane. Mostly keys are spread over lanes one by one. Where an
//! operator treats all keys of a task together, as Kafka Streams does, they share a lane.

use crate::{jump_hash, key_hash};
use stoatflow_core::Task;
use stoatflow_core::murmur2::partition_of;

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct KeyAssignment {
    /// This lane.
    pub lane: u32,
    /// The number of lanes.
    pub lanes: u32,
    /// The number of tasks, if the current operator needs each task in one lane; `None`: keys are spread
    /// one by one.
    pub by_task: Option<u16>,
}

impl KeyAssignment {
    /// Lane `lane` of `lanes`, with keys spread one by one.
    #[must_use]
    pub const fn new(lane: u32, lanes: u32) -> Self {
        Self {
            lane,
            lanes,
            by_task: None,
        }
    }

    /// The lane of a key with these bytes (of a windowed key: of the key within).
    #[must_use]
    pub fn lane_of(self, key: &[u8]) -> u32 {
        jump_hash(hash(key, self.by_task), self.lanes)
    }

    /// True if the key belongs to this lane.
    #[must_use]
    pub fn owns(self, key: &[u8]) -> bool {
        self.lane_of(key) == self.lane
    }

    /// Whether each lane holds all keys of its tasks.
    #[must_use]
    pub const fn has_whole_tasks(self) -> bool {
        self.lanes == 1 || self.by_task.is_some()
    }

    /// Whether this lane holds all keys of a task.
    #[must_use]
    pub fn owns_task(self, task: Task) -> bool {
        let own = || jump_hash(task_hash(task), self.lanes) == self.lane;
        self.lanes == 1 || self.by_task.is_some() && own()
    }
}

/// The hash that decides a key's lane; `by_task`: see [`KeyAssignment`].
#[must_use]
pub fn hash(key: &[u8], by_task: Option<u16>) -> u64 {
    match by_task {
        None => key_hash(key),
        // Not by the task that the record came from: if a producer partitions differently, or has begun
        // to, a key would have two lanes.
        Some(tasks) => task_hash(Task::of(partition_of(key, i32::from(tasks.max(1))))),
    }
}

/// The hash that decides a task's lane.
#[must_use]
pub fn task_hash(task: Task) -> u64 {
    key_hash(&task.0.to_be_bytes())
}
