//! Partitions with an empty buffer that others wait for, to keep the order of timestamps
//! (`max.task.idle.ms`, KIP-695).
//!
//! As in Kafka Streams, dispatch waits without limit for a partition that has more on the broker or
//! whose end isn't known yet, and for `max.task.idle.ms` for one that was read to its end. Costs nothing
//! per record: partitions are checked when their buffer becomes empty or receives records.

use crate::intake::source_partitions::SourcePartitions;
use std::time::Duration;

/// A wait longer than this is logged.
const LOG_WAITS_ABOVE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
struct Partition {
    /// True if dispatch may wait for it. Not for global tables and answers, which have no time.
    counts: bool,
    empty: bool,
    /// True if the broker has more, or its end is unknown.
    behind: bool,
    /// True if the consumer may know more than at the last check.
    needs_check: bool,
    /// Since when its buffer has been empty and the broker has had nothing.
    since: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct TaskIdle {
    idle: Option<Duration>,
    partitions: Vec<Partition>,
    names: SourcePartitions,
    /// Since when a lagging partition has held up others, and whether that was logged.
    kept: Option<(Duration, bool)>,
}

impl TaskIdle {
    pub fn new(slots: &SourcePartitions, idle: Option<Duration>) -> Self {
        let partition = |counts| Partition {
            counts,
            empty: true,
            behind: true,
            needs_check: true,
            since: Duration::ZERO,
        };
        Self {
            idle,
            partitions: slots
                .iter()
                .map(|s| partition(!s.is_global && !s.is_answers))
                .collect(),
            names: SourcePartitions::clone(slots),
            kept: None,
        }
    }

    /// Call when a buffer has received records.
    pub fn on_buffered(&mut self, slot: usize) {
        let partition = &mut self.partitions[slot];
        partition.empty = false;
        partition.needs_check = true;
    }

    /// Call when a buffer has become empty; true if dispatch now waits for the partition.
    pub fn on_drained(&mut self, slot: usize, now: Duration) -> bool {
        let partition = &mut self.partitions[slot];
        partition.empty = true;
        partition.since = now;
        self.is_awaited(slot, now)
    }

    /// Asks the consumer about partitions whose state may have changed.
    pub fn refresh(&mut self, now: Duration, caught_up: impl Fn(u32) -> bool) {
        for (at, partition) in (0..).zip(&mut self.partitions) {
            if partition.needs_check && partition.counts {
                let behind = !caught_up(at);
                if partition.behind && !behind {
                    partition.since = now;
                }
                partition.behind = behind;
                partition.needs_check = behind;
            }
        }
    }

    fn is_awaited(&self, slot: usize, now: Duration) -> bool {
        let partition = &self.partitions[slot];
        self.idle.is_some_and(|idle| {
            partition.counts
                && partition.empty
                && (partition.behind || now.saturating_sub(partition.since) < idle)
        })
    }

    /// True if dispatch waits for a partition.
    pub fn is_waiting(&self, now: Duration) -> bool {
        (0..self.partitions.len()).any(|slot| self.is_awaited(slot, now))
    }

    /// True if dispatch waits for a partition that has more on the broker, or whose end is unknown.
    pub fn is_waiting_for_data(&self) -> bool {
        self.idle.is_some() && self.behind().next().is_some()
    }

    /// True if the broker has more of some partition, as far as the consumer knows.
    pub fn is_lagging(&self) -> bool {
        self.partitions.iter().any(|p| p.counts && p.behind)
    }

    fn behind(&self) -> impl Iterator<Item = usize> {
        let partitions = (0..).zip(&self.partitions);
        partitions
            .filter(|(_, p)| p.counts && p.empty && p.behind)
            .map(|(at, _)| at)
    }

    /// Time until the next wait for a partition ends; `None` if no wait ends by time alone.
    pub fn time_left(&self, now: Duration) -> Option<Duration> {
        let idle = self.idle.filter(|idle| !idle.is_zero())?;
        let ends = self.partitions.iter().filter_map(|p| {
            let waited = now.saturating_sub(p.since);
            (p.counts && p.empty && !p.behind && waited < idle).then(|| idle.saturating_sub(waited))
        });
        ends.min()
    }

    /// Logs once which partitions have held up others for long.
    pub fn warn_about_long_wait(&mut self, now: Duration, others_have_some: bool) {
        if !others_have_some || !self.is_waiting_for_data() {
            self.kept = None;
            return;
        }
        let (since, said) = *self.kept.get_or_insert((now, false));
        if said || now.saturating_sub(since) < LOG_WAITS_ABOVE {
            return;
        }
        self.kept = Some((since, true));
        let names: Vec<_> = self
            .behind()
            .take(5)
            .map(|slot| self.names[slot].partition.to_string())
            .collect();
        tracing::warn!(
            target: "stoatflow::dispatch",
            "records wait in front of the lanes: there is more of {} on the broker, and it does not \
                come. Is its broker \
             away? With max.task.idle.ms = -1 nothing is waited for, and records may come out of order",
            names.join(", ")
        );
    }
}
