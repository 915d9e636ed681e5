//! Recover: brings every store up to its changelog before any input is read.
//!
//! Takes the positions that the local data stands for, reads what is missing of all stores and
//! partitions side by side, gives the back end runs of records with the positions they reach. Reading
//! and loading overlap: while one run is sorted and written, the next one is read; what waits between
//! the two is bounded in bytes. Owns the order: runs of one store are loaded one after the other.
//! Never runs beside processing, and never says that it is done before every store has caught up.

mod load;
mod progress;
mod read;
#[cfg(test)]
mod tests;

pub use progress::{RestoreEvent, RestoreListener, RestoreStep};

use crate::commit::LoggedStore;
use crate::runtime::shared::Shared;
use crate::startup::layout;
use load::Loaders;
use progress::Progress;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Partition, Result, StoreId, Timestamp, TopicPartition};
use stoatflow_log::Broker;
use stoatflow_protocol::{Age, RestoreFacts, RestorePlan, WipeReason};
use stoatflow_state::Backend;

/// Makes a thread (name, body).
pub type Spawn<'a> = &'a dyn Fn(&str, Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>>;

/// Who does the work.
#[derive(Clone, Copy)]
pub enum Parallelism<'a> {
    /// The caller, alone.
    Sequential,
    /// The caller reads, so many threads load.
    Threads(Spawn<'a>, usize),
}

/// What a restore needs.
pub struct Restore<'a> {
    /// Stop requests, clock and status.
    pub shared: &'a Arc<Shared>,
    /// Where changelogs are.
    pub broker: &'a dyn Broker,
    /// Where they go.
    pub backend: &'a Arc<dyn Backend>,
    /// What is restored.
    pub stores: &'a [LoggedStore],
    /// The name of the reader.
    pub group: &'a str,
    /// How long silence of the broker is waited out.
    pub timeout: Duration,
    /// Memory for what is between broker and back end.
    pub memory: usize,
    /// The broker's time, before the ends of changelogs are asked for; `None` where deletions are kept for good.
    pub now: Option<Timestamp>,
    /// Offsets behind the last record that a commit leaves in a changelog.
    pub markers: i64,
    /// Who does it.
    pub parallelism: Parallelism<'a>,
    /// Who wants to know.
    pub listener: Option<RestoreListener>,
}

/// Stores that are emptied before they are read again, by their place.
type Wiped = Vec<(usize, WipeReason)>;

/// One partition to read.
#[derive(Clone, Debug)]
struct Task {
    store: usize,
    partition: TopicPartition,
    from: Offset,
    end: Offset,
}

impl Restore<'_> {
    /// Reads what is missing. `false` if a stop was asked for before every store had caught up.
    ///
    /// # Errors
    /// `Unavailable`, `Incompatible`, and what the back end fails with.
    pub fn run(&self) -> Result<bool> {
        let (tasks, wiped) = self.plan()?;
        let tasks: Arc<[Task]> = tasks.into();
        let progress = Progress::new(self, &tasks, &wiped)?;
        if tasks.is_empty() {
            self.note_current()?;
            return Ok(true);
        }
        let loaders = Loaders::new(self, &tasks, &progress)?;
        let outcome = read::read(self, &tasks, &loaders);
        // The reason of a failed loader is better than that of a reader who missed it.
        let whole = loaders.finish().and(outcome);
        // A loader that was asked to stop leaves work behind, whatever the reader had reached.
        let whole = whole.map(|all_read| all_read && progress.is_complete());
        progress.close();
        if matches!(whole, Ok(true)) {
            self.note_current()?;
        }
        whole
    }

    /// Every store lacks nothing of what its changelog had when the time was taken.
    fn note_current(&self) -> Result<()> {
        let logged = self.stores.iter().filter(|s| s.changelog.is_some());
        let stores: Vec<StoreId> = logged.map(|s| s.store.id()).collect();
        match self.now {
            Some(now) => self.backend.note_current(&stores, now),
            None => Ok(()),
        }
    }

    /// What is to be read, and the stores that were emptied for it.
    fn plan(&self) -> Result<(Vec<Task>, Wiped)> {
        let (broker, backend) = (self.broker, self.backend.as_ref());
        let logged = || {
            let stores = self.stores.iter().enumerate();
            stores.filter_map(|(index, s)| Some((index, s, s.changelog.as_ref()?)))
        };
        let kept = match self.now {
            None => vec![None; logged().count()],
            Some(_) => {
                let topics: Vec<&str> = logged().map(|(.., topic)| topic.as_ref()).collect();
                broker.tombstone_retention(&topics, self.timeout)?
            }
        };
        let (mut tasks, mut wiped) = (Vec::new(), Wiped::new());
        for ((index, logged, topic), kept) in logged().zip(kept) {
            let (id, name) = (logged.store.id(), logged.store.name());
            let partitions = partitions_of(broker, topic, self.timeout)?;
            let ranges = broker.ranges(&partitions, self.timeout)?;
            let stored: HashMap<Partition, Offset> = backend.positions(id)?.into_iter().collect();
            let age = Age {
                current_at: backend.current_at(id)?,
                now: self.now,
                kept,
            };
            let mut wipe = None;
            let mut plans = Vec::new();
            for (partition, range) in partitions.iter().zip(&ranges) {
                let facts = RestoreFacts {
                    stored: stored.get(&partition.partition).copied(),
                    begin: range.begin,
                    stable_end: range.stable_end,
                    markers: self.markers,
                    age,
                };
                let plan = facts.decide(name)?;
                if let RestorePlan::WipeThenCold(_, why) = plan {
                    wipe = Some(why);
                }
                plans.push(plan);
            }
            if let Some(why) = wipe {
                // A wipe takes the whole store, so every partition starts over.
                tracing::warn!(
                    store = name,
                    "rebuilding the local store: {}",
                    describe(why)
                );
                backend.wipe(id)?;
                wiped.push((index, why));
            }
            if wipe.is_some() || stored.is_empty() {
                // What is read from now on may be gone on with for as long as deletions are kept from now on.
                self.now
                    .map_or(Ok(()), |now| backend.note_current(&[id], now))?;
            }
            for ((partition, range), plan) in partitions.into_iter().zip(ranges).zip(plans) {
                let from = match plan {
                    _ if wipe.is_some() => range.begin,
                    RestorePlan::Nothing => continue,
                    RestorePlan::Delta(at)
                    | RestorePlan::Cold(at)
                    | RestorePlan::WipeThenCold(at, _) => at,
                };
                if from < range.stable_end {
                    tasks.push(Task {
                        store: index,
                        partition,
                        from,
                        end: range.stable_end,
                    });
                }
            }
        }
        Ok((tasks, wiped))
    }
}

/// In words.
const fn describe(why: WipeReason) -> &'static str {
    match why {
        WipeReason::Truncated => "the changelog no longer has what it lacks",
        WipeReason::TooOld => {
            "it is older than its changelog keeps deletions (delete.retention.ms), so rows deleted meanwhile would come back"
        }
    }
}

fn partitions_of(
    broker: &dyn Broker,
    topic: &Arc<str>,
    timeout: Duration,
) -> Result<Vec<TopicPartition>> {
    let info = broker.topics(&[topic], timeout)?.pop().flatten();
    let info = info.ok_or_else(|| {
        Error::missing_topic(format!("the changelog topic '{topic}' does not exist"))
    })?;
    Ok((0..info.partitions)
        .map(|p| TopicPartition::new(Arc::clone(topic), p))
        .collect())
}

/// Names a store's place in the state directory and the format of its data.
#[must_use]
pub fn store_layout(
    id: StoreId,
    store: &stoatflow_plan::Store,
    key: &str,
    value: &str,
) -> stoatflow_state::StoreLayout {
    stoatflow_state::StoreLayout {
        id,
        name: store.name.clone(),
        format: format!("{}:{key}:{value}", layout(store.kind).format()),
    }
}
