//! The last commits and the barrier under way.
//!
//! Written by the commit thread, read by the admin port: durations by step, and quantiles.

use super::Status;
use crate::admin::status::duration_buckets::DurationBuckets;
use serde::Serialize;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Timestamp};
use stoatflow_protocol::CommitStep;

/// How many past commits `/debug/barriers` shows.
pub(super) const COMMITS_KEPT: usize = 64;

/// One commit, for `/debug/barriers`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CommitStatus {
    /// The epoch.
    pub epoch: u64,
    /// Input records in it.
    pub records: u64,
    /// Output and changelog records in it.
    pub outputs: u64,
    /// From the barrier to the last lane's seal, microseconds.
    pub align_us: u64,
    /// Flush, offsets and transaction, microseconds.
    pub commit_us: u64,
    /// Part of it: until every record was acknowledged.
    pub flush_us: u64,
    /// Part of it: until the offsets were acknowledged.
    pub offsets_us: u64,
    /// Applying to the local stores, microseconds.
    pub apply_us: u64,
    /// When the commit was done (wall clock, ms).
    pub at_ms: i64,
    /// The steps of the commit, in their order.
    pub steps: Vec<StepStatus>,
    /// What each lane did at the end of the epoch.
    pub lanes: Vec<LaneEnd>,
}

/// A step of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepStatus {
    /// Its name.
    pub step: String,
    /// How long it took, microseconds.
    pub us: u64,
}

/// The end of an epoch in a lane, as microseconds since the barrier was inserted. Each step begins at the
/// end of the previous one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LaneEnd {
    /// The lane.
    pub lane: u32,
    /// It had processed the records before the barrier.
    pub reached_us: u64,
    /// It had passed the barrier in all stages: work that is due was done, exchanged records processed.
    pub passed_us: u64,
    /// All other lanes had passed, too.
    pub aligned_us: u64,
    /// Its writes were sealed.
    pub sealed_us: u64,
}

/// The name of a step, as `/debug/barriers` shows it.
pub fn step_name(step: CommitStep) -> String {
    format!("{step:?}").to_lowercase()
}

impl CommitStatus {
    /// Adds the duration of a step.
    pub fn took(&mut self, step: CommitStep, us: u64) {
        match step {
            CommitStep::Apply => self.apply_us += us,
            CommitStep::Changelog | CommitStep::Flush => self.flush_us += us,
            CommitStep::Offsets => self.offsets_us += us,
            CommitStep::Commit | CommitStep::Announce => {}
        }
        if step != CommitStep::Apply {
            self.commit_us += us;
        }
        let step = step_name(step);
        self.steps.push(StepStatus { step, us });
    }
}

/// The latest barrier, for `/debug/barriers`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BarrierStatus {
    /// The open epoch at dispatch.
    pub open_epoch: u64,
    /// The epoch being aligned or committed, if any.
    pub in_flight: Option<u64>,
    /// The current step of the commit.
    pub step: Option<String>,
    /// The last committed epoch.
    pub committed: Option<u64>,
    /// Arrivals per stage of the epoch being aligned (the last entry: seals).
    pub arrivals: Vec<u64>,
}

impl Status {
    /// The latest commits, oldest first.
    pub fn recent_commits(&self) -> Vec<CommitStatus> {
        self.detail.lock().commits.iter().cloned().collect()
    }

    /// Records a commit that is done.
    pub fn committed(&self, commit: CommitStatus) {
        (self.dead_letters).committed(Epoch(commit.epoch), Timestamp(commit.at_ms));
        self.commits.fetch_add(1, Relaxed);
        self.records_committed.fetch_add(commit.records, Relaxed);
        let mut detail = self.detail.lock();
        if detail.commits.len() == COMMITS_KEPT {
            detail.commits.pop_front();
        }
        let took = commit.align_us + commit.commit_us + commit.apply_us;
        // Saturating: a value out of the histogram's bounds is recorded as the bound.
        detail.commit_seconds.saturating_record(took);
        detail.commit_buckets.record(took);
        let steps = (commit.steps.iter()).map(|taken| (taken.step.as_str(), taken.us));
        for (phase, us) in [("align", commit.align_us)].into_iter().chain(steps) {
            let known = detail.phase_buckets.iter().position(|(of, _)| of == phase);
            let at = known.unwrap_or_else(|| {
                let first = (phase.to_owned(), DurationBuckets::default());
                detail.phase_buckets.push(first);
                detail.phase_buckets.len() - 1
            });
            detail.phase_buckets[at].1.record(us);
        }
        detail.commits.push_back(commit);
    }

    /// Commit duration at a quantile, microseconds.
    pub fn commit_quantile_us(&self, quantile: f64) -> u64 {
        self.detail
            .lock()
            .commit_seconds
            .value_at_quantile(quantile)
    }

    /// Durations of commits, in buckets.
    pub fn commit_buckets(&self) -> DurationBuckets {
        self.detail.lock().commit_buckets
    }

    /// Durations of phases of commits, in buckets.
    pub fn commit_phases(&self) -> Vec<(String, DurationBuckets)> {
        self.detail.lock().phase_buckets.clone()
    }

    /// Records how old the oldest record of a commit was when the commit was done. One with a later
    /// timestamp than that counts as 0.
    pub fn committed_record_of(&self, timestamp: Timestamp, now: Timestamp) {
        let ms = now.0.saturating_sub(timestamp.0).max(0).unsigned_abs();
        let us = ms.saturating_mul(1_000);
        self.detail.lock().record_buckets.record(us);
    }

    /// Ages of the oldest records of commits, in buckets.
    pub fn record_latency(&self) -> DurationBuckets {
        self.detail.lock().record_buckets
    }

    /// The latest barrier.
    pub fn barrier(&self) -> BarrierStatus {
        self.detail.lock().barrier.clone()
    }

    /// Changes the status of the latest barrier.
    pub fn with_barrier(&self, change: impl FnOnce(&mut BarrierStatus)) {
        change(&mut self.detail.lock().barrier);
    }
}
