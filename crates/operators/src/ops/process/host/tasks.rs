//! The task of a processor's call, and which rows of its stores it sees there.
//!
//! A record has a task; a timer has the task of the record that registered it. A stream-time schedule
//! runs once per task, and its scans return the keys of that task, as in Kafka Streams.

use super::Host;
use crate::ops::process::key_task_rows;
use crate::ops::process::processor_env::Connected;
use crate::ops::process::task_scans::{Row, TaskScans};
use bytes::Bytes;
use stoatflow_core::{Result, Task};
use stoatflow_state::KeyRange;

impl<'h> Host<'h, '_> {
    /// For a stream-time schedule: in a task, or over all of them.
    pub fn within(self, task: Option<Task>, now: i64, scans: &'h mut TaskScans) -> Self {
        Self {
            task,
            now: Some(now),
            scans: task.is_some().then_some(scans),
            ..self
        }
    }

    /// For a timer, which sees all keys.
    pub fn at_timer(self, task: Task, now: i64) -> Self {
        Self {
            task: Some(task),
            now: Some(now),
            ..self
        }
    }

    /// The task of the record, schedule or timer that the processor is called for.
    pub(super) fn own_task(&self) -> Option<Task> {
        let of_record = self.place.filter(|_| !self.env.ticks);
        of_record.map(|place| place.task()).or(self.task)
    }

    /// The task for an access to a key of a store: that of the call, or else that of the key.
    pub(super) fn task(&self, store: &Connected, key: &Bytes) -> Task {
        let affinity = store.key.affinity(key);
        let known = || {
            store
                .key_tasks
                .as_ref()
                .and_then(|tasks| tasks.of(affinity))
        };
        let by_key = || self.context.clocks.task_of(store.clock, affinity);
        self.own_task().or_else(known).unwrap_or_else(by_key)
    }

    /// The task whose stream time a timer waits for.
    pub(super) fn timer_task(&self, store: &Connected, key: &Bytes) -> Task {
        (self.env).timer_task(self.own_task(), store, key, self.context.clocks)
    }

    /// Checks at a put whether the key's task is the one that its partitioner would choose.
    pub(super) fn watch_key(&mut self, store: &Connected, key: &Bytes) -> Result<()> {
        if let (Some(tasks), Some(task)) = (&store.key_tasks, self.own_task()) {
            for misfit in tasks.see(store.key.affinity(key), task) {
                key_task_rows::write(&store.name, misfit, self.context)?;
            }
        }
        Ok(())
    }

    /// At a write: cached scans of the key's task become invalid.
    pub(super) fn wrote(&mut self, at: usize, store: &Connected, key: &Bytes) {
        let tasks = self.tasks();
        if let Some(scans) = &mut self.scans {
            scans.write(at, store.task_of(key, tasks));
        }
    }

    /// The rows of a range; in a task, only those of its keys.
    pub(super) fn rows(
        &mut self,
        at: usize,
        store: &Connected,
        range: &KeyRange,
    ) -> Result<Vec<Row>> {
        let task = self.task.filter(|_| !store.global);
        let tasks = self.tasks();
        if let (Some(scans), Some(task)) = (&self.scans, task)
            && let Some(rows) = scans.get(at, range, task)
        {
            return Ok(rows);
        }
        let epoch = self.context.epoch;
        let kept = &self.context.store(store.id).store;
        let rows = kept.scan(epoch, range, usize::MAX)?;
        Ok(match (&mut self.scans, task) {
            (Some(scans), Some(task)) => {
                scans.split(at, range, task, rows, |key| store.task_of(key, tasks))
            }
            _ => rows,
        })
    }

    fn tasks(&self) -> u16 {
        self.env
            .time
            .map_or(1, |clock| self.context.clocks.task_count(clock))
    }

    /// Removes the keys of other tasks from the result of a scan within a schedule.
    pub(super) fn keep_own<T>(
        &self,
        store: &Connected,
        found: &mut Vec<T>,
        key: impl Fn(&T) -> &Bytes,
    ) {
        if let (Some(_), Some(task), false) = (&self.scans, self.task, store.global) {
            let tasks = self.tasks();
            found.retain(|one| store.task_of(key(one), tasks) == task);
        }
    }
}
