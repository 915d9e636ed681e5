//! Commits: how many, how long, and how old their records are.

use super::Engine;
use super::families::{Families, in_seconds, one, seconds};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

impl Engine {
    pub(super) fn commits(&self, families: &mut Families<'_>) -> fmt::Result {
        let status = &self.status;
        families.counter("commits", "Commits done", one(status.commits.load(Relaxed)))?;
        families.counter(
            "restarts",
            "Automatic restarts because the broker was unreachable",
            one(status.restarts.load(Relaxed)),
        )?;
        let quantiles = [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("1", 1.0)];
        let quantiles = quantiles.map(|(name, q)| {
            (
                vec![("quantile", name.to_owned())],
                seconds(status.commit_quantile_us(q), 1e6),
            )
        });
        families.gauge(
            "commit_duration_quantile_seconds",
            "From barrier to local store, since the start",
            quantiles,
        )?;
        families.durations(
            "commit_duration_seconds",
            "How long commits took, from barrier to local store",
            one(status.commit_buckets().into()),
        )?;
        let phases = status.commit_phases().into_iter();
        families.durations(
            "commit_phase_duration_seconds",
            "How long phases of commits took: align waits for the lanes, the others are the steps of the commit",
            phases.map(|(phase, took)| (vec![("phase", phase)], took.into())),
        )?;
        families.durations(
            "record_latency_seconds",
            "Age of the oldest record of a commit when it was done, by the record's timestamp",
            one(status.record_latency().into()),
        )?;
        let last = status.recent_commits().pop();
        families.gauge(
            "last_commit_timestamp_seconds",
            "When the last commit was done, in seconds since 1970",
            last.as_ref()
                .map(|last| (Vec::new(), in_seconds(last.at_ms))),
        )?;
        let last = last.unwrap_or_default();
        let phases = [
            ("align", last.align_us),
            ("commit", last.commit_us),
            ("apply", last.apply_us),
        ];
        let phases = phases.map(|(name, us)| (vec![("phase", name.to_owned())], seconds(us, 1e6)));
        families.gauge("last_commit_seconds", "The last commit, by phase", phases)?;
        let barrier = status.barrier();
        families.gauge(
            "open_epoch",
            "The epoch that admits records",
            one(barrier.open_epoch),
        )?;
        families.gauge(
            "committed_epoch",
            "The last committed epoch",
            barrier.committed.map(|e| (Vec::new(), e)),
        )
    }
}
