//! Watermarks: up to where event time is complete, per partition and for the application.
//!
//! A watermark `w` says that records before `w` are no longer expected. So a window that ends at
//! `e` closes when `w >= e + grace`, and a record with a timestamp below `w` is late. (Flink's
//! watermark is `w - 1`.)
//!
//! Takes which partitions had records and when (monotonic time); computes each partition's watermark,
//! the application's (the lowest of its active partitions, never going back), which partitions hold it
//! back, and which are so far ahead of their alignment group that they must wait. The tests contain the
//! rules of idleness and alignment as tables. Never reads a clock or a record.

use std::time::Duration;

#[cfg(test)]
mod tests;

/// No watermark yet. Times of records are never negative.
pub const UNKNOWN: i64 = -1;

/// How a partition's watermark follows from its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Its highest timestamp minus this many milliseconds (0: timestamps never go back).
    Bounded(i64),
    /// A user function returns it.
    Custom,
    /// No watermark; the partition doesn't count for the application's.
    None,
}

/// An alignment group, which a partition must not run ahead of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlignmentGroup {
    /// The number of the group.
    pub group: u32,
    /// How far ahead of the group's lowest watermark it may be, milliseconds.
    pub max_drift: i64,
}

/// All rules of a partition's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// See [`Strategy`].
    pub strategy: Strategy,
    /// After this long without records it is idle and doesn't hold others back; `None`: never.
    pub idle_after: Option<Duration>,
    /// See [`AlignmentGroup`].
    pub aligned: Option<AlignmentGroup>,
}

impl Rule {
    /// Without idleness and alignment.
    #[must_use]
    pub const fn of(strategy: Strategy) -> Self {
        Self {
            strategy,
            idle_after: None,
            aligned: None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Partition {
    rule: Rule,
    watermark: i64,
    /// Since when it has had no records although it was polled.
    quiet: Duration,
    idle: bool,
}

impl Partition {
    const fn takes_part(&self) -> bool {
        !matches!(self.rule.strategy, Strategy::None)
    }

    /// True if others wait for it.
    const fn is_active(&self) -> bool {
        self.takes_part() && !self.idle
    }

    fn idle_at(&self) -> Option<Duration> {
        let after = self.rule.idle_after.filter(|_| self.is_active())?;
        Some(self.quiet.saturating_add(after))
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Watermarks {
    partitions: Vec<Partition>,
    application: i64,
    /// No partition becomes idle before this time.
    look_at: Duration,
    /// Since when no partition is polled; meanwhile a lack of records doesn't mean that it is idle.
    unread_since: Option<Duration>,
}

impl Watermarks {
    /// Starts without partitions; `committed` is the application's watermark of the last commit.
    #[must_use]
    pub const fn new(committed: i64) -> Self {
        Self {
            partitions: Vec::new(),
            application: if committed < UNKNOWN {
                UNKNOWN
            } else {
                committed
            },
            look_at: Duration::ZERO,
            unread_since: None,
        }
    }

    /// Adds a partition with its committed watermark. It is active; the application's watermark
    /// stands still until this one has reached it.
    pub fn add(&mut self, rule: Rule, committed: i64, now: Duration) -> usize {
        self.partitions.push(Partition {
            rule,
            watermark: committed.max(UNKNOWN),
            quiet: now,
            idle: false,
        });
        self.look_at = Duration::ZERO;
        self.partitions.len() - 1
    }

    /// Call when a partition had records; `highest` is its highest timestamp now.
    pub fn on_records(&mut self, at: usize, highest: i64, now: Duration) {
        let partition = &mut self.partitions[at];
        partition.quiet = now;
        if std::mem::replace(&mut partition.idle, false) {
            self.look_at = Duration::ZERO;
        }
        if let Strategy::Bounded(delay) = partition.rule.strategy {
            let watermark = highest.saturating_sub(delay);
            partition.watermark = watermark.max(partition.watermark);
        }
    }

    /// Call when the function of a partition has returned this watermark.
    pub fn on_watermark(&mut self, at: usize, watermark: i64) {
        let known = &mut self.partitions[at].watermark;
        *known = watermark.max(*known);
    }

    /// Sets whether partitions are polled. While they aren't, none becomes idle.
    pub fn set_polling(&mut self, is: bool, now: Duration) {
        match (is, self.unread_since) {
            (false, None) => self.unread_since = Some(now),
            (true, Some(since)) => {
                self.unread_since = None;
                let paused = now.saturating_sub(since);
                for partition in &mut self.partitions {
                    partition.quiet = partition.quiet.saturating_add(paused).min(now);
                }
            }
            _ => {}
        }
    }

    /// Marks partitions as idle. `is_waiting`: true for a partition that has records that aren't taken
    /// yet, or that isn't polled. True if a partition became idle.
    pub fn find_idle(&mut self, now: Duration, is_waiting: impl Fn(usize) -> bool) -> bool {
        if now < self.look_at || self.unread_since.is_some() {
            return false;
        }
        let mut next = Duration::MAX;
        let mut silent = Vec::new();
        for (at, partition) in self.partitions.iter_mut().enumerate() {
            let Some(due) = partition.idle_at() else {
                continue;
            };
            if is_waiting(at) {
                partition.quiet = now;
            } else if due <= now {
                silent.push((due, partition.watermark, at));
                continue;
            }
            next = next.min(partition.idle_at().unwrap_or(Duration::MAX));
        }
        self.look_at = next;
        // One after the other, as if each had been noticed in time: when one becomes idle the others can
        // advance. The last one then leaves the application's watermark at its own.
        silent.sort_unstable();
        for (_, _, at) in &silent {
            self.partitions[*at].idle = true;
            self.application = self.application();
        }
        !silent.is_empty()
    }

    /// Raises the application's watermark to at least this.
    pub fn raise(&mut self, to: i64) {
        self.application = self.application.max(to);
    }

    /// The application's watermark at a barrier now.
    #[must_use]
    pub fn application(&self) -> i64 {
        let active = self.partitions.iter().filter(|p| p.is_active());
        let least = active.map(|p| p.watermark).min();
        least.map_or(self.application, |least| least.max(self.application))
    }

    /// Advances the application's watermark at a barrier, and returns it.
    pub fn advance(&mut self) -> i64 {
        self.application = self.application();
        self.application
    }

    /// A partition's watermark.
    #[must_use]
    pub fn of(&self, at: usize) -> i64 {
        self.partitions[at].watermark
    }

    /// True if the partition is idle.
    #[must_use]
    pub fn is_idle(&self, at: usize) -> bool {
        self.partitions[at].idle
    }

    /// The watermark that holds the application's back; `None`: all active partitions are equal.
    #[must_use]
    pub fn minimum(&self) -> Option<i64> {
        let active = || self.partitions.iter().filter(|p| p.is_active());
        let marks = || active().map(|p| p.watermark);
        let (least, most) = (marks().min()?, marks().max()?);
        (least < most).then_some(least)
    }

    /// The active partitions with the lowest watermark: until they advance, the application's doesn't.
    #[must_use]
    pub fn slowest(&self) -> Vec<usize> {
        let active = self.partitions.iter().filter(|p| p.is_active());
        let least = active.map(|p| p.watermark).min();
        let all = self.partitions.iter().enumerate();
        all.filter(|(_, p)| p.is_active() && Some(p.watermark) == least)
            .map(|(at, _)| at)
            .collect()
    }

    /// True if a partition holds others back, given [`Self::minimum`].
    #[must_use]
    pub fn holds_back(&self, at: usize, least: Option<i64>) -> bool {
        let partition = &self.partitions[at];
        partition.is_active() && least == Some(partition.watermark)
    }

    /// True if there are alignment groups.
    #[must_use]
    pub fn has_groups(&self) -> bool {
        self.partitions.iter().any(|p| p.rule.aligned.is_some())
    }

    /// How far a partition's watermark may go before it must wait for its group. `None`: without
    /// limit.
    ///
    /// Idle partitions and those without a watermark don't hold the others up: a partition that never
    /// has a record would stop them forever.
    #[must_use]
    pub fn bound(&self, at: usize) -> Option<i64> {
        let aligned = self.partitions[at].rule.aligned?;
        let in_group = |p: &&Partition| {
            p.is_active()
                && p.watermark > UNKNOWN
                && p.rule.aligned.is_some_and(|a| a.group == aligned.group)
        };
        let least = self.partitions.iter().filter(in_group);
        let least = least.map(|p| p.watermark).min()?;
        Some(least.saturating_add(aligned.max_drift))
    }
}
