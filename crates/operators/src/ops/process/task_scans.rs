//! Caches scans of a store while a schedule runs task by task.
//!
//! A scan reads the rows of all tasks. Keeps what the first task's call has read, split by task, and
//! returns each later task its part, as long as none of its keys were written meanwhile. So the calls
//! for all tasks cost one scan, as in Kafka Streams, where each task has a store of its own. Holds rows
//! only while schedules run and all lanes stand still. Never reads a store.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use stoatflow_core::Task;
use stoatflow_state::{KeyRange, Stored};

#[cfg(test)]
mod tests;

/// A key and its value.
pub(crate) type Row = (Bytes, Stored);

/// From, to, and whether in reverse order.
type Range = (Option<Bytes>, Option<Bytes>, bool);

/// Scans of one store.
#[derive(Debug, Default)]
struct Scans {
    /// By range: the rows of each task.
    parts: BTreeMap<Range, BTreeMap<Task, Vec<Row>>>,
    /// Tasks whose keys were written since the first scan.
    written: BTreeSet<Task>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TaskScans {
    /// By index of the store in the processor's list.
    stores: BTreeMap<usize, Scans>,
}

fn place(range: &KeyRange) -> Range {
    (range.from.clone(), range.to.clone(), range.reverse)
}

impl TaskScans {
    /// The rows of a task in a range, if they were read and not written since.
    pub fn get(&self, store: usize, range: &KeyRange, task: Task) -> Option<Vec<Row>> {
        let scans = self.stores.get(&store)?;
        if scans.written.contains(&task) {
            return None;
        }
        let parts = scans.parts.get(&place(range))?;
        Some(parts.get(&task).cloned().unwrap_or_default())
    }

    /// Adds the rows of a range for all tasks; returns those of `task`.
    pub fn split(
        &mut self,
        store: usize,
        range: &KeyRange,
        task: Task,
        rows: Vec<Row>,
        task_of: impl Fn(&Bytes) -> Task,
    ) -> Vec<Row> {
        let mut parts = BTreeMap::<Task, Vec<Row>>::new();
        for row in rows {
            parts.entry(task_of(&row.0)).or_default().push(row);
        }
        let own = parts.get(&task).cloned().unwrap_or_default();
        let scans = self.stores.entry(store).or_default();
        scans.parts.insert(place(range), parts);
        own
    }

    /// A key of this task is written.
    pub fn write(&mut self, store: usize, task: Task) {
        if let Some(scans) = self.stores.get_mut(&store) {
            scans.written.insert(task);
        }
    }

    /// Drops everything after schedules have run.
    pub fn clear(&mut self) {
        self.stores.clear();
    }
}
