//! Keys that wait for a time, by task.
//!
//! Takes keys with the task and the time they wait for; returns the ones that are due in a task. After a
//! restart a key's bytes tell its task: murmur2, by which Kafka's Java clients partition. If an entry
//! waits in another task, because a producer partitions differently, a row in the engine's store
//! `clocks` records the task: clock, 0, time, key. It is written and deleted with the entry. Windows
//! stay in their store after they were emitted, so all waiting windows have such a row, unless tasks are
//! always murmur2 of the key. Owns the index of one lane's keys and these rows.

#[cfg(test)]
mod tests;

use crate::support::time_index::TimeIndex;
use crate::{Context, LaneStore};
use bytes::{BufMut, Bytes, BytesMut};
use std::collections::HashMap;
use std::sync::Arc;
use stoatflow_core::{ClockId, Datum, Error, Result, Serde, Task, Timestamp};
use stoatflow_state::{KeyRange, Stored, time_key};

/// How many rows are read at a time when a lane starts.
const CHUNK: usize = 4096;

/// Which entries have a row with their task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Entries that wait in another task than the one that their key maps to.
    OfKeysInOtherTasks,
    /// All entries.
    OfAll,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Waiting {
    clock: ClockId,
    key: Serde,
    /// Finds the key's bytes in an entry.
    key_in: fn(&[u8]) -> &[u8],
    rows: Rows,
    lines: Vec<TimeIndex>,
}

impl Waiting {
    pub fn new(clock: ClockId, key: Serde, key_in: fn(&[u8]) -> &[u8], rows: Rows) -> Self {
        Self {
            clock,
            key,
            key_in,
            rows,
            lines: Vec::new(),
        }
    }

    /// The entries of a task.
    pub fn line(&mut self, task: Task) -> &mut TimeIndex {
        if self.lines.len() <= task.index() {
            self.lines.resize_with(task.index() + 1, TimeIndex::default);
        }
        &mut self.lines[task.index()]
    }

    /// The entries of all tasks.
    pub fn lines(&self) -> impl Iterator<Item = (Task, &TimeIndex)> {
        (0..).map(Task).zip(&self.lines)
    }

    /// The key's bytes in an entry.
    pub fn key_in<'a>(&self, place: &'a [u8]) -> &'a [u8] {
        (self.key_in)(place)
    }

    /// The bytes that decide in which lane an entry waits.
    pub fn affinity<'a>(&self, place: &'a [u8]) -> &'a [u8] {
        self.key.affinity(self.key_in(place))
    }

    /// Adds an entry; nothing happens if it is there already.
    pub fn insert(
        &mut self,
        task: Task,
        (time, place): (i64, Bytes),
        context: &mut Context<'_>,
    ) -> Result<()> {
        if self.line(task).insert(time, place.clone()) && self.has_row(context, task, &place) {
            keep(context, (self.clock, task), (time, &place))?;
        }
        Ok(())
    }

    /// Removes an entry; nothing happens if it isn't there.
    pub fn remove(
        &mut self,
        task: Task,
        (time, place): (i64, &Bytes),
        context: &mut Context<'_>,
    ) -> Result<()> {
        if self.line(task).remove(time, place) && self.has_row(context, task, place) {
            write(context, self.clock, (time, place), None)?;
        }
        Ok(())
    }

    /// Removes the first entry of a task, if it is due at `until` or before.
    pub fn pop_due(
        &mut self,
        task: Task,
        until: i64,
        context: &mut Context<'_>,
    ) -> Result<Option<(i64, Bytes)>> {
        let due = self.line(task).pop_due(until);
        if let Some((time, place)) = &due
            && self.has_row(context, task, place)
        {
            write(context, self.clock, (*time, place), None)?;
        }
        Ok(due)
    }

    fn has_row(&self, context: &Context<'_>, task: Task, place: &[u8]) -> bool {
        match self.rows {
            Rows::OfAll => {
                context.clocks.rows.is_some() && context.clocks.task_not_by_key(self.clock)
            }
            Rows::OfKeysInOtherTasks => {
                is_in_other_task(context, self.clock, task, self.affinity(place))
            }
        }
    }

    /// Adds an entry from before a restart.
    pub fn restore(&mut self, task: Task, (time, place): (i64, Bytes)) {
        self.line(task).insert(time, place);
    }
}

/// Whether an entry waits in another task than the one that its key maps to.
fn is_in_other_task(context: &Context<'_>, clock: ClockId, task: Task, affinity: &[u8]) -> bool {
    let clocks = &context.clocks;
    clocks.rows.is_some() && clocks.has_tasks(clock) && clocks.task_of(clock, affinity) != task
}

/// Notes that something waits in a task from now on, or no more. If its key maps to another task, a row
/// records the task.
pub(crate) fn note(
    context: &mut Context<'_>,
    (clock, task): (ClockId, Task),
    at: (i64, &[u8]),
    affinity: &[u8],
    waits: bool,
) -> Result<()> {
    match (is_in_other_task(context, clock, task, affinity), waits) {
        (false, _) => Ok(()),
        (true, true) => keep(context, (clock, task), at),
        (true, false) => write(context, clock, at, None),
    }
}

fn keep(context: &mut Context<'_>, (clock, task): (ClockId, Task), at: (i64, &[u8])) -> Result<()> {
    let value = Datum::Bytes(Bytes::copy_from_slice(&task.0.to_be_bytes()));
    let timestamp = Timestamp(at.0.max(0));
    write(context, clock, at, Some(Stored { value, timestamp }))
}

fn write(
    context: &mut Context<'_>,
    clock: ClockId,
    (time, place): (i64, &[u8]),
    stored: Option<Stored>,
) -> Result<()> {
    let Some((id, names)) = context.clocks.rows.clone() else {
        return Ok(());
    };
    let mut key = prefix(&names[usize::from(clock.0)], 8 + place.len());
    key.put_slice(&time_key(time, place));
    let epoch = context.epoch;
    let LaneStore { store, dirty } = context.store(id);
    store.put(epoch, dirty, &key.freeze(), stored)
}

fn prefix(name: &[u8], more: usize) -> BytesMut {
    let mut key = BytesMut::with_capacity(name.len() + 1 + more);
    key.put_slice(name);
    key.put_u8(0);
    key
}

/// Notes that a key was seen in a task. The first key in another task than it maps to leaves a row:
/// clock, 0. Readers of a store then know that a row's key doesn't tell its task.
pub(crate) fn record_key_task(
    context: &mut Context<'_>,
    clock: ClockId,
    task: Task,
    key: &[u8],
) -> Result<()> {
    let clocks = &mut context.clocks;
    if !clocks.task_not_by_key(clock)
        || clocks.has_key_in_other_task(clock)
        || clocks.task_of(clock, key) == task
    {
        return Ok(());
    }
    clocks.mark_key_in_other_task(clock);
    let Some((id, names)) = clocks.rows.clone() else {
        return Ok(());
    };
    let row = other_task_marker_key(&names[usize::from(clock.0)]);
    let (value, timestamp) = (Datum::Bytes(Bytes::new()), Timestamp(0));
    let epoch = context.epoch;
    let LaneStore { store, dirty } = context.store(id);
    store.put(epoch, dirty, &row, Some(Stored { value, timestamp }))
}

/// The key of the row that exists if keys of this clock are in other tasks than they map to.
#[must_use]
pub fn other_task_marker_key(clock: &[u8]) -> Bytes {
    prefix(clock, 0).freeze()
}

/// The tasks of the entries that waited before a restart.
#[derive(Debug)]
pub(crate) struct Tasks {
    clock: ClockId,
    known: HashMap<Bytes, Task>,
}

impl Tasks {
    /// Reads the rows.
    pub fn read(clock: ClockId, context: &mut Context<'_>) -> Result<Self> {
        let mut known = HashMap::new();
        if let Some((id, names)) = context.clocks.rows.clone() {
            let prefix = prefix(&names[usize::from(clock.0)], 1).freeze();
            let mut after = BytesMut::from(&prefix[..prefix.len() - 1]);
            after.put_u8(1);
            let mut range = KeyRange {
                from: Some(prefix.clone()),
                to: Some(after.freeze()),
                reverse: false,
            };
            let (epoch, store) = (context.epoch, Arc::clone(&context.store(id).store));
            loop {
                let found = store.scan(epoch, &range, CHUNK)?;
                let Some((last, _)) = found.last() else { break };
                range.from = Some([last.as_ref(), &[0]].concat().into());
                for (key, stored) in found {
                    if key.len() == prefix.len() {
                        continue;
                    }
                    known.insert(key.slice(prefix.len()..), task_in(&stored)?);
                }
            }
        }
        Ok(Self { clock, known })
    }

    /// The task of an entry, if it has a row.
    pub fn known(&self, (time, place): (i64, &[u8])) -> Option<Task> {
        if self.known.is_empty() {
            return None;
        }
        self.known.get(&time_key(time, place)).copied()
    }

    /// The task of an entry, where it waits from now on. It stays in its partition: if its key maps to
    /// another task because partitions were added, it gets a row.
    pub fn of(&self, context: &mut Context<'_>, at: (i64, &[u8]), affinity: &[u8]) -> Result<Task> {
        if let Some(task) = self.known(at) {
            return Ok(task);
        }
        let clocks = &context.clocks;
        if !clocks.task_not_by_key(self.clock) {
            return Ok(clocks.task(clocks.task_of(self.clock, affinity)));
        }
        let task = clocks.task_before(self.clock, affinity);
        note(context, (self.clock, task), at, affinity, true)?;
        Ok(task)
    }
}

fn task_in(stored: &Stored) -> Result<Task> {
    let task = match &stored.value {
        Datum::Bytes(bytes) => bytes.first_chunk(),
        _ => None,
    };
    let task = task.ok_or_else(|| {
        Error::state_corrupt("a row of the store of stream times says no task")
            .hint("check that nothing else writes to the changelog topic of 'clocks'")
    })?;
    Ok(Task(u16::from_be_bytes(*task)))
}
