//! When the next barrier goes in: often enough for latency, seldom enough for throughput.
//!
//! The gap adapts to what a commit costs: `max(min interval, factor × last commit)`, never more than
//! `commit.interval.ms`. A full overlay or budget brings it forward, so does whoever asks for a commit,
//! and a punctuation that is due; an idle engine sends none but a rare one that shows a fenced instance
//! that it is fenced.

use std::time::Duration;

/// A commit may take this share of the gap: with 4, at most a fifth of the time is spent committing.
const FACTOR: u32 = 4;

/// What is known when the question is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScheduleFacts {
    /// Time since the last barrier.
    pub since_barrier: Duration,
    /// Is an epoch still being committed?
    pub committing: bool,
    /// Records admitted since the last barrier.
    pub records: u64,
    /// Bytes admitted since the last barrier.
    pub bytes: u64,
    /// How long the last commit took.
    pub last_commit: Duration,
    /// Has somebody asked for a commit, or is something due by the clock (a punctuation)?
    pub asked: bool,
    /// Is the engine stopping?
    pub stopping: bool,
}

/// The schedule's settings.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// `commit.interval.ms`.
    pub max_interval: Duration,
    /// `commit.min.interval.ms`.
    pub min_interval: Duration,
    /// Epoch size that brings the barrier forward.
    pub max_bytes: u64,
    /// How often an idle engine commits nothing, to learn that it is fenced.
    pub idle_interval: Duration,
}

impl Schedule {
    /// Is it time for a barrier?
    #[must_use]
    pub fn is_due(&self, facts: &ScheduleFacts) -> bool {
        if facts.committing {
            return false;
        }
        let asked = facts.asked && facts.since_barrier >= self.min_interval;
        if facts.records == 0 {
            return !facts.stopping && (asked || facts.since_barrier >= self.idle_interval);
        }
        facts.stopping
            || asked
            || facts.bytes >= self.max_bytes
            || facts.since_barrier >= self.gap(facts.last_commit)
    }

    /// The gap that a commit of this cost asks for.
    #[must_use]
    pub fn gap(&self, last_commit: Duration) -> Duration {
        (last_commit * FACTOR)
            .max(self.min_interval)
            .min(self.max_interval)
    }
}

#[cfg(test)]
mod tests;
