//! Decides when the next barrier is inserted: often enough for latency, rarely enough for
//! throughput.
//!
//! An engine that has read everything commits as soon as the previous commit is done: only new records
//! wait, and most of a commit's time is the broker's. One that lags commits every `commit.interval.ms`:
//! its results are late anyway, and fewer commits let it catch up sooner. A full overlay or budget, a
//! commit request and a due punctuation bring a commit forward. An idle engine commits rarely, only to
//! find out whether it was fenced.

use std::time::Duration;

/// An epoch that fetches its records at its end does so this long before the end, or as long before as a
/// fetch usually takes.
const LEAD: Duration = Duration::from_micros(500);
/// Such an epoch waits for the response this long beyond its end, or half the usual time of a fetch:
/// records that arrive after a barrier wait for the next one.
const GRACE: Duration = Duration::from_micros(500);

/// The state of a delayed fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetch {
    /// Fetches aren't delayed.
    #[default]
    Unscheduled,
    /// The epoch's records are requested at its end, and haven't arrived.
    Pending,
    /// The epoch's records have arrived.
    Arrived,
}

/// The facts that a decision is based on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScheduleFacts {
    /// Time since the last barrier.
    pub since_barrier: Duration,
    /// True if an epoch is still being committed.
    pub committing: bool,
    /// Records admitted since the last barrier.
    pub records: u64,
    /// Bytes admitted since the last barrier.
    pub bytes: u64,
    /// How long the last commit took.
    pub last_commit: Duration,
    /// True if there is more to read than has been admitted.
    pub behind: bool,
    /// True if a commit was requested, or something is due by the clock (a punctuation).
    pub asked: bool,
    /// True if the engine is stopping.
    pub stopping: bool,
    /// The state of the delayed fetch.
    pub fetch: Fetch,
    /// How long a fetch usually takes.
    pub usual_answer: Duration,
}

/// The schedule's settings.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// `commit.interval.ms`.
    pub max_interval: Duration,
    /// `commit.min.interval.ms`.
    pub min_interval: Duration,
    /// The epoch size that brings the barrier forward.
    pub max_bytes: u64,
    /// How often an idle engine commits, to find out whether it was fenced.
    pub idle_interval: Duration,
}

impl Schedule {
    /// True if a barrier is due.
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
            || facts.since_barrier >= self.ends(facts)
    }

    /// How long after the last barrier an epoch fetches its records, if it does so at its end.
    #[must_use]
    pub fn asks(&self, facts: &ScheduleFacts) -> Duration {
        let gap = self.gap(facts);
        gap.saturating_sub(facts.usual_answer.min(gap / 2).max(LEAD))
    }

    /// How long after the last barrier an epoch with records ends.
    #[must_use]
    pub fn ends(&self, facts: &ScheduleFacts) -> Duration {
        match facts.fetch {
            Fetch::Unscheduled => self.gap(facts),
            Fetch::Pending => self.gap(facts) + GRACE.max(facts.usual_answer / 2),
            Fetch::Arrived => self.asks(facts),
        }
    }

    /// The time between two barriers.
    #[must_use]
    pub fn gap(&self, facts: &ScheduleFacts) -> Duration {
        if facts.behind {
            return self.max_interval;
        }
        (facts.last_commit)
            .max(self.min_interval)
            .min(self.max_interval)
    }
}

#[cfg(test)]
mod tests;
