//! Restores local stores from their changelogs, before any input is read.
//!
//! Starts from the offsets that the local data already contains and reads the rest of all stores and
//! partitions in parallel. Reading and loading overlap: while one run is sorted and written, the next is
//! read; the memory between the two is bounded. Runs of one store are loaded in order. The restore ends
//! once every store has caught up.

pub mod events;
mod load;
mod mailbox;
mod progress;
mod read;
#[cfg(test)]
mod tests;

pub use events::{RestoreEvent, RestoreListener, RestoreStep};

use crate::commit::{LoggedStore, SourceTopic};
use crate::runtime::shared::Shared;
use load::Loaders;
use progress::Progress;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Partition, Result, StoreId, Timestamp, TopicPartition};
use stoatflow_log::{Broker, Range};
use stoatflow_protocol::{Age, RestoreFacts, RestorePlan, WipeReason};
use stoatflow_state::Backend;

/// Starts a thread, with a name and a body.
pub type Spawn<'a> = &'a dyn Fn(&str, Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>>;

/// Which threads do the work.
#[derive(Clone, Copy)]
pub enum Parallelism<'a> {
    /// The caller reads and loads.
    Sequential,
    /// The caller reads, this many threads load.
    Threads(Spawn<'a>, usize),
}

/// What a restore needs.
pub struct Restore<'a> {
    /// Stop requests, clock and status.
    pub shared: &'a Arc<Shared>,
    /// Where the changelogs are.
    pub broker: &'a dyn Broker,
    /// Where their records go.
    pub backend: &'a Arc<dyn Backend>,
    /// The stores to restore.
    pub stores: &'a [LoggedStore],
    /// The consumer group.
    pub group: &'a str,
    /// How long the broker may send nothing.
    pub timeout: Duration,
    /// Memory budget for records between broker and back end.
    pub memory: usize,
    /// The broker's time before changelog ends were requested; `None` if tombstones are kept forever.
    pub now: Option<Timestamp>,
    /// Committed offsets of the sources, for tables that are restored from their source topic.
    pub committed: &'a HashMap<TopicPartition, Offset>,
    /// Offsets that each commit adds to a changelog after its last record (the commit marker).
    pub markers: i64,
    /// Which threads do the work.
    pub parallelism: Parallelism<'a>,
    /// Receives progress.
    pub listener: Option<RestoreListener>,
}

/// Stores (by index) that are emptied first, and why.
type Wiped = Vec<(usize, WipeReason)>;

/// One changelog partition to read.
#[derive(Clone, Debug)]
struct Task {
    store: usize,
    partition: TopicPartition,
    from: Offset,
    end: Offset,
    /// True if the store's indexes must be updated with each record.
    indexed: bool,
}

impl Restore<'_> {
    /// Reads what the stores lack. `false` if a stop was requested before every store had caught up.
    ///
    /// # Errors
    /// `Unavailable`, `Incompatible`, and errors of the back end.
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
        // A loader's error says more than that of the reader that it stopped.
        let whole = loaders.finish().and(outcome);
        // A loader that was stopped leaves work behind, even if the reader has read everything.
        let whole = whole.map(|all_read| all_read && progress.is_complete());
        progress.close();
        if matches!(whole, Ok(true)) {
            self.note_current()?;
        }
        whole
    }

    /// Records that every store had all of its changelog at that time.
    fn note_current(&self) -> Result<()> {
        let logged = self.stores.iter().filter(|s| s.restored_from().is_some());
        let stores: Vec<StoreId> = logged.map(|s| s.store.id()).collect();
        match self.now {
            Some(now) => self.backend.note_current(&stores, now),
            None => Ok(()),
        }
    }

    /// What to read, and the stores that were emptied first.
    fn plan(&self) -> Result<(Vec<Task>, Wiped)> {
        let (broker, backend) = (self.broker, self.backend.as_ref());
        let logged = || {
            let stores = self.stores.iter().enumerate();
            stores.filter_map(|(index, s)| Some((index, s, s.restored_from()?)))
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
            let source = logged.source.as_ref();
            let mut wipe = self.other_topic(id, source, &stored)?;
            let (mut plans, mut ends) = (Vec::new(), Vec::new());
            for (partition, range) in partitions.iter().zip(&ranges) {
                let stored = (stored.get(&partition.partition).copied()).filter(|_| wipe.is_none());
                let end = match source {
                    None => range.stable_end,
                    Some(_) => self.end_of_source(partition, range, stored),
                };
                ends.push(end);
                let facts = RestoreFacts {
                    stored,
                    begin: range.begin,
                    stable_end: end,
                    markers: source.map_or(self.markers, |_| 0),
                    age,
                };
                let plan = facts.decide(name)?;
                if let RestorePlan::WipeThenCold(_, why) = plan {
                    wipe = Some(why);
                }
                plans.push(plan);
            }
            if let Some(why) = wipe {
                // A wipe empties the whole store, so every partition starts over.
                tracing::warn!(
                    store = name,
                    "rebuilding the local store: {}",
                    describe(why)
                );
                backend.wipe(id)?;
                wiped.push((index, why));
            }
            if wipe.is_some() || stored.is_empty() {
                // The store is current from now on, so its age counts from now.
                self.now
                    .map_or(Ok(()), |now| backend.note_current(&[id], now))?;
            }
            if wipe.is_some() || stored.is_empty() {
                let topic = source.map(|source| &*source.topic);
                backend.note_source_topic(id, topic)?;
            }
            let first = tasks.len();
            let ranges = ranges.iter().zip(ends);
            for ((partition, (range, end)), plan) in partitions.into_iter().zip(ranges).zip(plans) {
                let from = match plan {
                    _ if wipe.is_some() => range.begin,
                    RestorePlan::Nothing => continue,
                    RestorePlan::Delta(at)
                    | RestorePlan::Cold(at)
                    | RestorePlan::WipeThenCold(at, _) => at,
                };
                if from < end {
                    tasks.push(Task {
                        store: index,
                        partition,
                        from,
                        end,
                        indexed: false,
                    });
                }
            }
            let own = &mut tasks[first..];
            if let Some(indexes) = &logged.indexes
                && (wipe.is_some() || !own.is_empty())
            {
                let records = own.iter().map(|task| task.end.0 - task.from.0).sum();
                let cold = wipe.is_some() || stored.is_empty();
                let indexed = indexes.restoring(backend, records, cold)?;
                own.iter_mut().for_each(|task| task.indexed = indexed);
            }
        }
        Ok((tasks, wiped))
    }
}

impl Restore<'_> {
    /// Checks whether the local rows came from another topic than the store is restored from now.
    fn other_topic(
        &self,
        store: StoreId,
        source: Option<&SourceTopic>,
        stored: &HashMap<Partition, Offset>,
    ) -> Result<Option<WipeReason>> {
        let known = self.backend.source_topic(store)?;
        let same = known.as_deref() == source.map(|source| &*source.topic);
        Ok((!same && !stored.is_empty()).then_some(WipeReason::OtherTopic))
    }

    /// A table is restored up to the committed offset of its source; later records are input. If the
    /// committed offset was moved back, the table keeps its rows.
    fn end_of_source(
        &self,
        partition: &TopicPartition,
        range: &Range,
        stored: Option<Offset>,
    ) -> Offset {
        let committed = self.committed.get(partition).copied();
        let end = committed.unwrap_or(range.begin).min(range.stable_end);
        end.max(stored.unwrap_or(end))
    }
}

/// The reason as text.
const fn describe(why: WipeReason) -> &'static str {
    match why {
        WipeReason::Truncated => "the changelog no longer has the records that it lacks",
        WipeReason::OtherTopic => {
            "it was restored from another topic: topology.optimization has changed"
        }
        WipeReason::TooOld => {
            "it is older than its changelog keeps tombstones (delete.retention.ms), so deleted rows \
                would come back"
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
