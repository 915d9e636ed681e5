//! Ends epochs: decides when a barrier is inserted, and what it carries.
//!
//! Sends a barrier to every lane, and the offsets of the epoch to the outbox.
//! [`stoatflow_protocol::Schedule`] decides when; this file collects its facts.

use super::Dispatch;
use crate::commit::outbox::OutboxItem;
use crate::runtime::failpoint::Failpoint;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{Offset, Result};
use stoatflow_log::CutEntry;
use stoatflow_protocol::{Fetch, ScheduleFacts};

impl Dispatch {
    pub(crate) fn is_committing(&self) -> bool {
        self.shared.committed().0 + 1 < self.epoch.0
    }

    fn facts(&self, stopping: bool) -> ScheduleFacts {
        ScheduleFacts {
            since_barrier: self
                .shared
                .clock
                .monotonic()
                .saturating_sub(self.last_barrier),
            committing: self.is_committing(),
            // Answers to calls of an earlier epoch need a commit, as records do.
            records: self.epoch_records
                + u64::from(self.skipped || self.fresh || self.shared.run.has_answers()),
            bytes: self.epoch_bytes,
            last_commit: Duration::from_micros(self.shared.last_commit_us.load(Relaxed)),
            behind: !self.up_to_date,
            asked: self.shared.is_commit_requested()
                || self.gate.wants_commit()
                || self.punctuation_due()
                || self.times.is_due(),
            stopping,
            fetch: self.fetch,
            usual_answer: self.usual_answer,
        }
    }

    /// True if a punctuation or timer is due by the clock, even without records.
    #[must_use]
    pub fn punctuation_due(&self) -> bool {
        self.shared.until_punctuation() == Some(Duration::ZERO)
    }

    /// Inserts a barrier if the schedule says so; true if it did. `leader_epoch` is
    /// [`Consumer::leader_epoch`](stoatflow_log::Consumer::leader_epoch).
    ///
    /// # Errors
    /// Errors of failpoints.
    pub fn barrier_if_due(
        &mut self,
        stopping: bool,
        leader_epoch: impl Fn(u32, Offset) -> Option<i32>,
    ) -> Result<bool> {
        let due = self.schedule.is_due(&self.facts(stopping));
        if due {
            if stopping {
                self.shared.failpoints.reach(Failpoint::ShutdownBarrier)?;
            }
            self.barrier_with(leader_epoch);
        }
        Ok(due)
    }

    /// Inserts a barrier now. The epoch before must be committed.
    pub fn barrier(&mut self) {
        self.barrier_with(|_, _| None);
    }

    fn barrier_with(&mut self, leader_epoch: impl Fn(u32, Offset) -> Option<i32>) {
        assert!(
            !self.is_committing(),
            "a barrier while epoch {} is being committed",
            self.epoch.0 - 1
        );
        self.flush_staged();
        self.check_answers();
        self.shared.commit_begins();
        let now = self.shared.clock.monotonic();
        let watermark = self.times.barrier();
        self.times
            .warn_about_stalled_watermark(self.epoch_records, now, &self.slots);
        let cut = (0_u32..).zip(self.slots.iter()).zip(&self.cut);
        let cut = cut.map(|((at, slot), offset)| {
            let mut progress = self.times.progress(at as usize);
            // If nothing was read yet, the leader epoch of the last commit still holds.
            progress.leader_epoch = if *offset == slot.start {
                slot.progress.leader_epoch
            } else {
                leader_epoch(at, *offset).unwrap_or(-1)
            };
            CutEntry {
                partition: slot.partition.clone(),
                offset: *offset,
                metadata: progress.encode(),
            }
        });
        self.shared.outbox.push(OutboxItem::Cut {
            epoch: self.epoch,
            cut: cut.collect(),
            records: self.epoch_records,
            oldest: self.epoch_oldest.take(),
            at: now,
        });
        let mark = self.ticks.barrier(watermark, now);
        self.push_mark(mark);
        self.report_partitions(watermark);
        let ended = self.epoch;
        self.epoch = self.epoch.next();
        self.epoch_records = 0;
        self.epoch_bytes = 0;
        self.uncommitted.begin(&self.shared.status);
        (self.skipped, self.fresh) = (false, false);
        self.last_barrier = now;
        self.fetch = Fetch::Unscheduled;
        let worked = self.shared.status.worked();
        self.work = worked.saturating_sub(self.worked);
        self.worked = worked;
        self.up_to_date = false;
        let open = self.epoch.0;
        self.shared.status.with_barrier(|b| {
            b.open_epoch = open;
            b.in_flight = Some(ended.0);
        });
    }

    /// How long the next fetch may be delayed; `None` if it must not be. If nothing is visible before
    /// the commit and lanes have little to do, one fetch and one wake-up of all threads at the end of
    /// each epoch add no delay (ADR 0017).
    #[must_use]
    pub fn fetch_delay(&self) -> Option<Duration> {
        /// With more work than this per epoch, lanes should start before its end.
        const MUCH: Duration = Duration::from_micros(500);
        // Cheap checks first: this runs in every step of intake.
        let may = self.limits.hidden_until_commit && self.work <= MUCH && self.gate.is_open();
        if !may || self.has_buffered() || self.task_idle.is_lagging() || self.is_waiting() {
            return None;
        }
        let facts = self.facts(false);
        if facts.asked {
            return None;
        }
        let facts = ScheduleFacts {
            behind: false,
            ..facts
        };
        let left = (self.schedule.asks(&facts)).saturating_sub(facts.since_barrier);
        // While the previous epoch commits, the end of an overdue epoch can't be predicted.
        (!left.is_zero() || !facts.committing).then_some(left)
    }

    /// Sets the state of the delayed fetch, and how long a fetch usually takes.
    pub const fn on_fetch_state(&mut self, fetch: Fetch, usually: Duration) {
        self.fetch = fetch;
        self.usual_answer = usually;
    }

    /// How long a poll may wait before a barrier could be due.
    #[must_use]
    pub fn max_wait(&self) -> Duration {
        const LONGEST: Duration = Duration::from_millis(50);
        // While an epoch commits, the time of the next barrier is unknown: check again after this.
        const SHORTEST: Duration = Duration::from_millis(1);
        // A barrier whose time is known must not be delayed by a whole millisecond.
        const MOMENT: Duration = Duration::from_micros(100);
        let punctuation = self.shared.until_punctuation().unwrap_or(LONGEST);
        let now = self.shared.clock.monotonic();
        let (task_idle, tick) = (self.task_idle.time_left(now), self.until_tick(now));
        let longest = punctuation
            .min(task_idle.unwrap_or(LONGEST))
            .min(tick.unwrap_or(LONGEST))
            .clamp(SHORTEST, LONGEST);
        if self.epoch_records == 0 {
            return longest;
        }
        let facts = self.facts(false);
        let gap = self
            .schedule
            .ends(&facts)
            .saturating_sub(facts.since_barrier);
        let shortest = if facts.committing { SHORTEST } else { MOMENT };
        gap.clamp(shortest, longest)
    }
}
