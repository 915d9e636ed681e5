//! Evidence of a failed commit: the records that it covered.
//!
//! A line for the log, and an entry in `/debug/barriers` that survives a restart of the run. No decision
//! depends on it: recovery asks the broker.

use crate::admin::status::Status;
use serde::Serialize;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Error, Timestamp};
use stoatflow_log::CutEntry;
use stoatflow_protocol::CommitStep;

/// The end of the failed epoch in a partition, and of the epoch before it.
#[derive(Clone, Debug, Serialize)]
pub struct FailedPosition {
    /// Topic.
    pub topic: String,
    /// Partition.
    pub partition: i32,
    /// The offset that the epoch would have committed.
    pub offset: i64,
    /// The offset committed before; -1 if unknown.
    pub committed: i64,
}

/// The progress of a lane when the commit failed.
#[derive(Clone, Debug, Serialize)]
pub struct FailedLane {
    /// Its number.
    pub lane: usize,
    /// Its open epoch.
    pub epoch: u64,
    /// Records it has taken since the start.
    pub records: u64,
    /// Items in its queue.
    pub queued: i64,
}

/// A commit that failed.
#[derive(Clone, Debug, Serialize)]
pub struct CommitFailure {
    /// Its epoch.
    pub epoch: u64,
    /// The step that failed.
    pub step: String,
    /// True if it is unknown whether the broker has committed the epoch.
    pub unknown: bool,
    /// Why.
    pub error: String,
    /// Wall clock, ms.
    pub at_ms: i64,
    /// Input records of the epoch.
    pub records: u64,
    /// The offsets it was to commit.
    pub cut: Vec<FailedPosition>,
    /// All lanes at that moment.
    pub lanes: Vec<FailedLane>,
}

/// The step that failed.
#[derive(Debug)]
pub struct FailedStep<'a> {
    /// The epoch.
    pub epoch: Epoch,
    /// The step.
    pub step: CommitStep,
    /// True if the broker may have committed the epoch.
    pub unknown: bool,
    /// Why.
    pub error: &'a Error,
    /// When it failed.
    pub at: Timestamp,
}

impl CommitFailure {
    /// Collects the evidence from the failed step and the status.
    #[must_use]
    pub fn of(
        failed: &FailedStep<'_>,
        (cut, records): (&[CutEntry], u64),
        status: &Status,
    ) -> Self {
        let known = status.partitions();
        let cut = cut.iter().map(|entry| {
            let (topic, partition) = (&entry.partition.topic, entry.partition.partition.0);
            let before = known
                .iter()
                .find(|p| p.topic == **topic && p.partition == partition);
            FailedPosition {
                topic: topic.to_string(),
                partition,
                offset: entry.offset.0,
                committed: before.map_or(-1, |p| p.committed),
            }
        });
        let lanes = status.lanes.iter().enumerate().map(|(lane, l)| FailedLane {
            lane,
            epoch: l.epoch.load(Relaxed),
            records: l.records.load(Relaxed),
            queued: l.queued_items.load(Relaxed).max(0),
        });
        Self {
            epoch: failed.epoch.0,
            step: format!("{:?}", failed.step).to_lowercase(),
            unknown: failed.unknown,
            error: failed.error.to_string(),
            at_ms: failed.at.0,
            records,
            cut: cut.collect(),
            lanes: lanes.collect(),
        }
    }

    /// One line for the log.
    #[must_use]
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
