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
use crate::furnish::layout;
use crate::shared::Shared;
use load::Loaders;
use progress::Progress;
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Partition, Result, StoreId, TopicPartition};
use stoatflow_log::Broker;
use stoatflow_protocol::{RestoreFacts, RestorePlan};
use stoatflow_state::Backend;

/// Makes a thread (name, body).
pub type Spawn<'a> = &'a dyn Fn(&str, Box<dyn FnOnce() + Send>) -> Result<JoinHandle<()>>;

/// Who does the work.
#[derive(Clone, Copy)]
pub enum Hands<'a> {
    /// The caller, alone.
    One,
    /// The caller reads, so many threads load.
    Many(Spawn<'a>, usize),
}

/// What a restore needs.
pub struct Recovery<'a> {
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
    /// Who does it.
    pub hands: Hands<'a>,
    /// Who wants to know.
    pub listener: Option<RestoreListener>,
}

/// One partition to read.
#[derive(Clone, Debug)]
struct Task {
    store: usize,
    partition: TopicPartition,
    from: Offset,
    end: Offset,
}

impl Recovery<'_> {
    /// Reads what is missing. `false` if a stop was asked for before every store had caught up.
    ///
    /// # Errors
    /// `Unavailable`, `Incompatible`, and what the back end fails with.
    pub fn run(&self) -> Result<bool> {
        let tasks: Arc<[Task]> = plan(
            self.broker,
            self.backend.as_ref(),
            self.stores,
            self.timeout,
        )?
        .into();
        let progress = Progress::new(
            self.shared,
            self.stores,
            &tasks,
            self.listener.clone(),
            self.hands,
        )?;
        if tasks.is_empty() {
            return Ok(true);
        }
        let loaders = Loaders::new(self, &tasks, &progress)?;
        let outcome = read::read(self, &tasks, &loaders);
        // The reason of a failed loader is better than that of a reader who missed it.
        let whole = loaders.finish().and(outcome);
        // A loader that was asked to stop leaves work behind, whatever the reader had reached.
        let whole = whole.map(|all_read| all_read && progress.is_complete());
        progress.close();
        whole
    }
}

fn plan(
    broker: &dyn Broker,
    backend: &dyn Backend,
    stores: &[LoggedStore],
    timeout: Duration,
) -> Result<Vec<Task>> {
    let mut tasks = Vec::new();
    for (index, logged) in stores.iter().enumerate() {
        let Some(topic) = &logged.changelog else {
            continue;
        };
        let partitions = partitions_of(broker, topic, timeout)?;
        let ranges = broker.ranges(&partitions, timeout)?;
        let stored: HashMap<Partition, Offset> =
            backend.positions(logged.store.id())?.into_iter().collect();
        let name = logged.store.name();
        let mut wipe = false;
        let mut plans = Vec::new();
        for (partition, range) in partitions.iter().zip(&ranges) {
            let facts = RestoreFacts {
                stored: stored.get(&partition.partition).copied(),
                begin: range.begin,
                stable_end: range.stable_end,
            };
            let plan = facts.decide(name)?;
            wipe |= matches!(plan, RestorePlan::WipeThenCold(_));
            plans.push(plan);
        }
        if wipe {
            // A wipe takes the whole store, so every partition starts over.
            tracing::warn!(
                store = name,
                "the changelog no longer has what the local store lacks; rebuilding it"
            );
            backend.wipe(logged.store.id())?;
        }
        for ((partition, range), plan) in partitions.into_iter().zip(ranges).zip(plans) {
            let from = match plan {
                _ if wipe => range.begin,
                RestorePlan::Nothing => continue,
                RestorePlan::Delta(at) | RestorePlan::Cold(at) | RestorePlan::WipeThenCold(at) => {
                    at
                }
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
    Ok(tasks)
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
