//! The source partitions: how far each is read, and what holds it back.
//!
//! Written by intake, commit and lag monitor, in the order of slots; read by the admin port.

use super::Status;
use crate::admin::open_transactions::HeldBack;
use serde::Serialize;
use std::sync::Arc;

/// One source partition.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionStatus {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// The next offset to be admitted.
    pub position: i64,
    /// The committed offset.
    pub committed: i64,
    /// One past the last readable offset, as last seen.
    pub end: i64,
    /// The highest timestamp admitted so far (-1: none).
    pub stream_time: i64,
    /// Its watermark (-1: none).
    pub watermark: i64,
    /// The watermark strategy.
    pub strategy: Arc<str>,
    /// The alignment group.
    pub group: Option<Arc<str>>,
    /// True if it is idle, so that it doesn't hold the watermark back.
    pub idle: bool,
    /// True if it waits for its alignment group.
    pub waits: bool,
    /// True if others wait for it.
    pub holds_back: bool,
    /// The open transaction that holds it back.
    pub held_back: Option<HeldBack>,
}

impl Status {
    /// All partitions, as last reported.
    pub fn partitions(&self) -> Vec<PartitionStatus> {
        self.detail.lock().partitions.clone()
    }

    /// Changes the status of partitions, which are in the order of slots.
    pub fn with_partitions(&self, change: impl FnOnce(&mut [PartitionStatus])) {
        change(&mut self.detail.lock().partitions);
    }

    /// Sets the partitions when reading begins.
    pub fn report_partitions(&self, partitions: Vec<PartitionStatus>) {
        self.detail.lock().partitions = partitions;
    }

    /// Input records that are readable but not committed.
    pub fn lag(&self) -> i64 {
        self.detail
            .lock()
            .partitions
            .iter()
            .map(|p| (p.end - p.committed).max(0))
            .sum()
    }
}
