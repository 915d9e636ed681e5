//! Watermarks: up to where event time is complete, per partition and for the application.
//!
//! A watermark `w` says: records before `w` are not expected any more. So a window that ends at `e` closes
//! when `w >= e + grace`, and a record with a timestamp below `w` is late. (Flink's watermark is `w - 1`.)
//!
//! Takes what partitions gave and when, in the engine's monotonic time; gives each partition's watermark, the
//! application's (the least of its active partitions, never back), who holds it back, and who is so far
//! ahead of its group that it has to wait. Owns the rules of idleness and alignment; the tests beside it are
//! their tables. Never reads a clock, never sees a record.

use std::time::Duration;

#[cfg(test)]
mod tests;

/// No watermark yet. Times of records are never negative.
pub const UNKNOWN: i64 = -1;

/// How the watermark of a partition follows from its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Its highest timestamp, less so many milliseconds (none: its timestamps never go back).
    Bounded(i64),
    /// What a function says.
    Custom,
    /// It has none, and takes no part in the application's.
    None,
}

/// Whom a partition must not run ahead of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aligned {
    /// The group: all partitions with this number.
    pub group: u32,
    /// How far ahead of the group's least watermark it may be, milliseconds.
    pub max_drift: i64,
}

/// All that is said about a partition's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// See [`Strategy`].
    pub strategy: Strategy,
    /// Silent for so long, it holds nobody back; `None`: however long.
    pub idle_after: Option<Duration>,
    /// See [`Aligned`].
    pub aligned: Option<Aligned>,
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
    /// Since when it has given nothing although it was asked.
    quiet: Duration,
    idle: bool,
}

impl Partition {
    const fn takes_part(&self) -> bool {
        !matches!(self.rule.strategy, Strategy::None)
    }

    /// Whom others wait for.
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
    /// Nobody is idle before this time.
    look_at: Duration,
    /// Since when nobody is asked for records: silence means nothing then.
    unread_since: Option<Duration>,
}

impl Watermarks {
    /// Without partitions; `committed` is the application's watermark of the last commit.
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

    /// One more partition, and its watermark of the last commit. It is active; the application's watermark
    /// stays where it is until this one has come as far.
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

    /// A partition gave records; its highest timestamp is this now.
    pub fn gave(&mut self, at: usize, highest: i64, now: Duration) {
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

    /// The function of a partition said so.
    pub fn said(&mut self, at: usize, watermark: i64) {
        let known = &mut self.partitions[at].watermark;
        *known = watermark.max(*known);
    }

    /// Is anybody asked for records at all? While nobody is, nobody is silent.
    pub fn reading(&mut self, is: bool, now: Duration) {
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

    /// Who has been silent for too long? `is_waiting`: it has records that nobody has taken yet, or it isn't
    /// asked for any. True if somebody is idle that wasn't.
    pub fn look(&mut self, now: Duration, is_waiting: impl Fn(usize) -> bool) -> bool {
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
        // One after the other, as if each had been seen in time: whoever is idle first lets the rest go on. The
        // last one then leaves the application where it was itself, and not where a chance has put it.
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

    /// The application's watermark as it would be at a barrier now.
    #[must_use]
    pub fn application(&self) -> i64 {
        let active = self.partitions.iter().filter(|p| p.is_active());
        let least = active.map(|p| p.watermark).min();
        least.map_or(self.application, |least| least.max(self.application))
    }

    /// A barrier: the application's watermark is this from now on.
    pub fn advance(&mut self) -> i64 {
        self.application = self.application();
        self.application
    }

    /// A partition's watermark.
    #[must_use]
    pub fn of(&self, at: usize) -> i64 {
        self.partitions[at].watermark
    }

    /// Is it idle?
    #[must_use]
    pub fn is_idle(&self, at: usize) -> bool {
        self.partitions[at].idle
    }

    /// The watermark that the application's waits for to move on; `None`: all active partitions are equally far.
    #[must_use]
    pub fn least(&self) -> Option<i64> {
        let active = || self.partitions.iter().filter(|p| p.is_active());
        let marks = || active().map(|p| p.watermark);
        let (least, most) = (marks().min()?, marks().max()?);
        (least < most).then_some(least)
    }

    /// The active partitions whose watermark is the least: until they move, the application's doesn't.
    #[must_use]
    pub fn last(&self) -> Vec<usize> {
        let active = self.partitions.iter().filter(|p| p.is_active());
        let least = active.map(|p| p.watermark).min();
        let all = self.partitions.iter().enumerate();
        all.filter(|(_, p)| p.is_active() && Some(p.watermark) == least)
            .map(|(at, _)| at)
            .collect()
    }

    /// Is a partition one of those that others wait for, given [`Self::least`]?
    #[must_use]
    pub fn holds_back(&self, at: usize, least: Option<i64>) -> bool {
        let partition = &self.partitions[at];
        partition.is_active() && least == Some(partition.watermark)
    }

    /// Has any partition to wait for others of its group?
    #[must_use]
    pub fn has_groups(&self) -> bool {
        self.partitions.iter().any(|p| p.rule.aligned.is_some())
    }

    /// How far a partition's watermark may be; beyond that it has to wait for its group. `None`: however far.
    ///
    /// Who is idle holds nobody up, nor who has said nothing yet: a partition that never has a record would
    /// stop the others for ever.
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
