//! When the next barrier goes in: often enough for latency, seldom enough for throughput.
//!
//! Who has read all there is commits as soon as the commit before is done: what waits is what just came, and
//! most of a commit's time is the broker's. Who is behind commits every `commit.interval.ms`: its results are late
//! anyway, and every commit that it saves lets it catch up sooner. A full overlay or budget brings a commit
//! forward, so does whoever asks for one, and a punctuation that is due; an idle engine sends none but a rare one
//! that shows a fenced instance that it is fenced.

use std::time::Duration;

/// An epoch whose records are asked for at its end asks so long before it is over, or as long as the answer
/// usually takes.
const LEAD: Duration = Duration::from_micros(500);
/// And waits for the answer for so long beyond it, or half of what it usually takes: what comes right behind a barrier
/// waits for the next one.
const GRACE: Duration = Duration::from_micros(500);

/// What is known of the records that were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetch {
    /// They come as they come.
    #[default]
    Unscheduled,
    /// The epoch's are asked for at its end, and have not come yet.
    Pending,
    /// The epoch's were asked for at its end, and are here.
    Arrived,
}

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
    /// Is there more to read than has been admitted?
    pub behind: bool,
    /// Has somebody asked for a commit, or is something due by the clock (a punctuation)?
    pub asked: bool,
    /// Is the engine stopping?
    pub stopping: bool,
    /// Have records come that were asked for?
    pub fetch: Fetch,
    /// How long they usually take to come.
    pub usual_answer: Duration,
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
            || facts.since_barrier >= self.ends(facts)
    }

    /// When an epoch asks for its records if it does so at its end: so long after the last barrier.
    #[must_use]
    pub fn asks(&self, facts: &ScheduleFacts) -> Duration {
        let gap = self.gap(facts);
        gap.saturating_sub(facts.usual_answer.min(gap / 2).max(LEAD))
    }

    /// When an epoch with records ends: so long after the last barrier.
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
