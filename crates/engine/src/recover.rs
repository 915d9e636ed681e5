//! Recover: brings every store up to its changelog before any input is read.
//!
//! Takes the positions that the local data stands for, reads what is missing of all stores and
//! partitions through one consumer side by side, gives the back end batches with the position they
//! reach. Never runs beside processing.

use crate::commit::LoggedStore;
use crate::furnish::layout;
use crate::shared::Shared;
use crate::status::RestoreProgress;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Partition, Result, StoreId, TopicPartition};
use stoatflow_log::{Broker, Fetched};
use stoatflow_protocol::{RestoreFacts, RestorePlan};
use stoatflow_state::{Backend, Write};

/// Records per batch handed to the back end; large enough for sorted bulk loading to pay.
const BATCH: usize = 50_000;

/// One partition to read.
#[derive(Debug)]
struct Task {
    store: usize,
    partition: TopicPartition,
    from: Offset,
    end: Offset,
}

/// Reads what is missing. Returns early (Ok) when a stop is asked for.
///
/// # Errors
/// `Unavailable`, `Incompatible`, and what the back end fails with.
pub fn restore(
    shared: &Shared,
    broker: &dyn Broker,
    backend: &dyn Backend,
    stores: &[LoggedStore],
    group: &str,
    timeout: Duration,
) -> Result<()> {
    let tasks = plan(broker, backend, stores, timeout)?;
    let mut progress: Vec<RestoreProgress> = stores
        .iter()
        .filter(|s| s.changelog.is_some())
        .map(|s| RestoreProgress {
            store: s.store.name().to_owned(),
            ..RestoreProgress::default()
        })
        .collect();
    let index: HashMap<&str, usize> = stores
        .iter()
        .filter(|s| s.changelog.is_some())
        .enumerate()
        .map(|(i, s)| (s.store.name(), i))
        .collect();
    for task in &tasks {
        let total = u64::try_from(task.end.0 - task.from.0).unwrap_or(0);
        progress[index[stores[task.store].store.name()]].total += total;
    }
    for entry in &mut progress {
        entry.complete = entry.total == 0;
        shared.status.restoring(entry.clone());
    }
    if tasks.is_empty() {
        return Ok(());
    }
    let mut consumer = broker.consumer(group)?;
    consumer.assign(
        &tasks
            .iter()
            .map(|t| (t.partition.clone(), t.from))
            .collect::<Vec<_>>(),
    )?;
    let mut pending: Vec<Vec<Write>> = tasks.iter().map(|_| Vec::new()).collect();
    let mut finished = vec![false; tasks.len()];
    let mut fetched: Vec<Fetched> = Vec::new();
    let mut silent = Duration::ZERO;
    let mut seen: Vec<Offset> = Vec::new();
    while !finished.iter().all(|f| *f) {
        if shared.is_stopping() {
            return Ok(());
        }
        let step = Duration::from_millis(100);
        consumer.poll(BATCH, step, &mut fetched)?;
        // Progress is a moved position, not only a record: a long aborted stretch brings none.
        let positions = consumer.positions();
        silent = if positions == seen {
            silent + step
        } else {
            Duration::ZERO
        };
        seen.clone_from(&positions);
        if silent > timeout {
            return Err(Error::unavailable(format!(
                "no changelog record came from {} for {} s during restore",
                broker.address(),
                timeout.as_secs()
            )));
        }
        for record in fetched.drain(..) {
            let task = &tasks[record.slot as usize];
            if record.offset < task.end
                && let Some(key) = record.key
            {
                let layout = stores[task.store].store.layout();
                let write = layout
                    .from_changelog(key, record.value, record.timestamp)
                    .map_err(|e| {
                        e.at(|at| {
                            at.topic = Some(task.partition.topic.to_string());
                            at.partition = Some(task.partition.partition);
                            at.offset = Some(record.offset);
                        })
                    })?;
                pending[record.slot as usize].push(write);
            }
        }
        for (slot, position) in positions.into_iter().enumerate() {
            let task = &tasks[slot];
            let arrived = position >= task.end && !finished[slot];
            if arrived || pending[slot].len() >= BATCH {
                let writes = std::mem::take(&mut pending[slot]);
                let reached = position.min(task.end);
                let done = writes.len() as u64;
                backend.restore(
                    stores[task.store].store.id(),
                    writes,
                    &[(task.partition.partition, reached)],
                )?;
                let entry = &mut progress[index[stores[task.store].store.name()]];
                entry.done += done;
            }
            finished[slot] |= arrived;
        }
        report(shared, &mut progress, &tasks, &finished, stores, &index);
    }
    Ok(())
}

fn report(
    shared: &Shared,
    progress: &mut [RestoreProgress],
    tasks: &[Task],
    finished: &[bool],
    stores: &[LoggedStore],
    index: &HashMap<&str, usize>,
) {
    for (name, at) in index {
        let open = tasks
            .iter()
            .zip(finished)
            .any(|(t, f)| !f && stores[t.store].store.name() == *name);
        progress[*at].complete = !open;
        shared.status.restoring(progress[*at].clone());
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
