//! The events that a restore listener receives.

use std::sync::Arc;
use stoatflow_core::{Offset, TopicPartition};

/// What happened to one changelog partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreEvent {
    /// The store.
    pub store: String,
    /// The partition of its changelog.
    pub partition: TopicPartition,
    /// What happened.
    pub step: RestoreStep,
}

/// A step of one changelog partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreStep {
    /// It will be read.
    Started {
        /// The first offset that the store lacks.
        from: Offset,
        /// One past the last one.
        end: Offset,
    },
    /// A batch was loaded.
    Batch {
        /// The offset after it.
        reached: Offset,
        /// Records of the batch.
        records: u64,
    },
    /// It has caught up.
    Ended {
        /// Records in total.
        records: u64,
    },
    /// A stop or an error came first; the next start continues from here.
    Suspended {
        /// Records so far.
        records: u64,
    },
}

/// Receives restore events. Called from one thread, in order.
pub type RestoreListener = Arc<dyn Fn(&RestoreEvent) + Send + Sync>;
