//! Snapshots of the counters, for rates.

use crate::admin::function_calls::FunctionCost;
use crate::admin::status::Status;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_log::ClientCounts;

/// Time between two samples.
pub(in crate::admin) const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// Samples kept: two minutes.
const MAX_SAMPLES: usize = 25;

/// Counters of a lane.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::admin) struct LaneSample {
    pub busy: Duration,
    pub records: u64,
}

/// Lag of a partition.
#[derive(Clone, Debug)]
pub(in crate::admin) struct PartitionSample {
    pub topic: String,
    pub partition: i32,
    pub lag: i64,
}

/// All counters at one time.
#[derive(Clone, Debug)]
pub(in crate::admin) struct Sample {
    /// Monotonic.
    pub at: Duration,
    pub records_in: u64,
    /// Outputs and changelog records.
    pub records_sent: u64,
    pub records_committed: u64,
    pub commits: u64,
    /// The application's watermark; -1: none.
    pub watermark: i64,
    pub throttled: Duration,
    pub lanes: Vec<LaneSample>,
    /// Records that entered each node.
    pub nodes: Vec<u64>,
    pub functions: Vec<FunctionCost>,
    pub partitions: Vec<PartitionSample>,
    /// By role.
    pub clients: Vec<ClientCounts>,
    /// Node, reason, count.
    pub drops: Vec<(String, &'static str, u64)>,
}

impl Sample {
    pub(in crate::admin) fn take(status: &Status, now: Duration) -> Self {
        let lanes = status.lanes.iter().map(|lane| {
            let since = Duration::from_millis(lane.busy_since_ms.load(Relaxed));
            // The current batch counts too: a function that never returns must not look idle.
            let current = match since.is_zero() {
                true => Duration::ZERO,
                false => now.saturating_sub(since),
            };
            LaneSample {
                busy: Duration::from_nanos(lane.busy_ns.load(Relaxed)) + current,
                records: lane.records.load(Relaxed),
            }
        });
        let partitions = status.partitions().into_iter().map(|p| PartitionSample {
            lag: (p.end - p.committed).max(0),
            topic: p.topic,
            partition: p.partition,
        });
        Self {
            at: now,
            records_in: status.records_in.load(Relaxed),
            records_sent: status.records_out.load(Relaxed) + status.changelog_out.load(Relaxed),
            records_committed: status.records_committed.load(Relaxed),
            commits: status.commits.load(Relaxed),
            watermark: status.watermark.load(Relaxed),
            throttled: Duration::from_millis(status.broker_throttle_ms.load(Relaxed)),
            lanes: lanes.collect(),
            nodes: status
                .nodes
                .iter()
                .map(|count| count.load(Relaxed))
                .collect(),
            functions: status.calls.spent(),
            partitions: partitions.collect(),
            clients: status.clients(),
            drops: status.drops(),
        }
    }
}

/// The samples of the last two minutes, oldest first.
#[derive(Debug, Default)]
pub(in crate::admin) struct Samples(Mutex<VecDeque<Sample>>);

impl Samples {
    pub(in crate::admin) fn take(&self, status: &Status, now: Duration) {
        let sample = Sample::take(status, now);
        let mut kept = self.0.lock();
        if kept.len() == MAX_SAMPLES {
            kept.pop_front();
        }
        kept.push_back(sample);
    }

    /// The newest sample of at least this age, else the oldest one.
    pub(in crate::admin) fn before(&self, now: Duration, age: Duration) -> Option<Sample> {
        let kept = self.0.lock();
        let old_enough = kept.iter().rev().find(|s| s.at + age <= now);
        old_enough.or_else(|| kept.front()).cloned()
    }
}
