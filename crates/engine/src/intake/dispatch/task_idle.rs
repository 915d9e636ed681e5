//! Who has nothing in front of the lanes and is waited for, so that records come in the order of their timestamps.
//!
//! As Kafka Streams (KIP-695): a partition with more on the broker, or of which nothing is known yet, is waited for as
//! long as it takes; one of which all has been read, for `max.task.idle.ms`. Takes what the reader knows of its
//! partitions; says whether anybody is waited for, and for how long. Costs nothing per record: partitions are
//! looked at when their buffers become empty or get something.

use crate::intake::source_partitions::SourcePartitions;
use std::time::Duration;

/// When a wait that lasts is said.
const STRANGE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
struct Partition {
    /// Waited for at all? Global tables are not, nor answers: they have no time.
    counts: bool,
    empty: bool,
    /// Is there more on the broker, or is nothing known of that?
    behind: bool,
    /// May the reader know more of it than at the last look?
    unsure: bool,
    /// Since when there has been nothing here, nor on the broker.
    since: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct TaskIdle {
    idle: Option<Duration>,
    partitions: Vec<Partition>,
    names: SourcePartitions,
    /// Since when somebody who is behind has kept others, and whether it has been said.
    kept: Option<(Duration, bool)>,
}

impl TaskIdle {
    pub fn new(slots: &SourcePartitions, idle: Option<Duration>) -> Self {
        let partition = |counts| Partition {
            counts,
            empty: true,
            behind: true,
            unsure: true,
            since: Duration::ZERO,
        };
        Self {
            idle,
            partitions: slots
                .iter()
                .map(|s| partition(s.global_end.is_none() && s.answers_end.is_none()))
                .collect(),
            names: SourcePartitions::clone(slots),
            kept: None,
        }
    }

    /// It has got something.
    pub fn on_buffered(&mut self, slot: usize) {
        let partition = &mut self.partitions[slot];
        partition.empty = false;
        partition.unsure = true;
    }

    /// Its last one is gone; true if it is waited for now.
    pub fn on_drained(&mut self, slot: usize, now: Duration) -> bool {
        let partition = &mut self.partitions[slot];
        partition.empty = true;
        partition.since = now;
        self.is_awaited(slot, now)
    }

    /// Asks the reader about those of whom it may know more.
    pub fn refresh(&mut self, now: Duration, caught_up: impl Fn(u32) -> bool) {
        for (at, partition) in (0..).zip(&mut self.partitions) {
            if partition.unsure && partition.counts {
                let behind = !caught_up(at);
                if partition.behind && !behind {
                    partition.since = now;
                }
                partition.behind = behind;
                partition.unsure = behind;
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

    /// Is anybody waited for?
    pub fn is_waiting(&self, now: Duration) -> bool {
        (0..self.partitions.len()).any(|slot| self.is_awaited(slot, now))
    }

    /// Is somebody waited for of whom there is more on the broker, or nothing known?
    pub fn is_waiting_for_data(&self) -> bool {
        self.idle.is_some() && self.behind().next().is_some()
    }

    /// Is there more of anybody on the broker, as far as the reader knows?
    pub fn is_lagging(&self) -> bool {
        self.partitions.iter().any(|p| p.counts && p.behind)
    }

    fn behind(&self) -> impl Iterator<Item = usize> {
        let partitions = (0..).zip(&self.partitions);
        partitions
            .filter(|(_, p)| p.counts && p.empty && p.behind)
            .map(|(at, _)| at)
    }

    /// How long until somebody is waited for no longer; `None` if time alone ends no wait.
    pub fn time_left(&self, now: Duration) -> Option<Duration> {
        let idle = self.idle.filter(|idle| !idle.is_zero())?;
        let ends = self.partitions.iter().filter_map(|p| {
            let waited = now.saturating_sub(p.since);
            (p.counts && p.empty && !p.behind && waited < idle).then(|| idle.saturating_sub(waited))
        });
        ends.min()
    }

    /// Says once who keeps others for long, while these have records and `reading` goes on.
    pub fn warn_about_long_wait(&mut self, now: Duration, others_have_some: bool) {
        if !others_have_some || !self.is_waiting_for_data() {
            self.kept = None;
            return;
        }
        let (since, said) = *self.kept.get_or_insert((now, false));
        if said || now.saturating_sub(since) < STRANGE {
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
            "records wait in front of the lanes: there is more of {} on the broker, and it does not come. Is its broker \
             away? With max.task.idle.ms = -1 nobody is waited for, and records may come out of order",
            names.join(", ")
        );
    }
}
