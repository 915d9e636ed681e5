//! The times committed last, by the tasks that existed then.
//!
//! If a source has got more partitions since, there are more tasks, and keys that are assigned by
//! murmur2 have moved to other tasks. The progress of a task up to then belongs to the task that the key
//! was in. Read when lanes start, before anything moves time.

use super::{LaneClocks, Time, Times};
use std::sync::Arc;
use stoatflow_core::murmur2::partition_of;
use stoatflow_core::{ClockId, Task};

impl LaneClocks {
    /// Sets the times committed last, if the number of tasks was different then.
    #[must_use]
    pub fn continuing(mut self, before: Option<&Arc<Times>>) -> Self {
        self.before = before.map(Arc::clone);
        self
    }

    fn times_before(&self, clock: ClockId) -> &[Time] {
        let times = self.before.as_deref().unwrap_or(&self.times);
        &times[usize::from(clock.0)]
    }

    /// The times of a clock in a task at the last commit.
    pub(crate) fn before_start(&self, clock: ClockId, task: Task) -> Time {
        let times = self.times_before(clock);
        times.get(self.place(task)).copied().unwrap_or(Time::NONE)
    }

    /// The tasks at the last commit.
    pub(crate) fn tasks_before(&self, clock: ClockId) -> impl Iterator<Item = Task> + use<> {
        (0..self.times_before(clock).len()).map(|at| Task(u16::try_from(at).unwrap_or(0)))
    }

    /// The task that a key's bytes mapped to at the last commit.
    pub(crate) fn task_before(&self, clock: ClockId, key: &[u8]) -> Task {
        let tasks = i32::try_from(self.times_before(clock).len()).unwrap_or(1);
        Task::of(partition_of(key, tasks.max(1)))
    }
}
