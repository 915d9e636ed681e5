//! Times as they were committed last, by the tasks that there were then.
//!
//! A source may have got more partitions since: then there are more tasks, and where murmur2 of a
//! key says its task, keys are in other ones. What a task had done by then is known by the task
//! that the key was in. Read when lanes start, before anything moves time.

use super::{LaneClocks, Time, Times};
use std::sync::Arc;
use stoatflow_core::murmur2::partition_of;
use stoatflow_core::{ClockId, Task};

impl LaneClocks {
    /// The times committed last, if there were other tasks.
    #[must_use]
    pub fn continuing(mut self, before: Option<&Arc<Times>>) -> Self {
        self.before = before.map(Arc::clone);
        self
    }

    fn times_before(&self, clock: ClockId) -> &[Time] {
        let times = self.before.as_deref().unwrap_or(&self.times);
        &times[usize::from(clock.0)]
    }

    /// What a clock showed in a task.
    pub(crate) fn before_start(&self, clock: ClockId, task: Task) -> Time {
        let times = self.times_before(clock);
        times.get(self.place(task)).copied().unwrap_or(Time::NONE)
    }

    /// The tasks that there were.
    pub(crate) fn tasks_before(&self, clock: ClockId) -> impl Iterator<Item = Task> + use<> {
        (0..self.times_before(clock).len()).map(|at| Task(u16::try_from(at).unwrap_or(0)))
    }

    /// The task that a key belonged to by its bytes.
    pub(crate) fn task_before(&self, clock: ClockId, key: &[u8]) -> Task {
        let tasks = i32::try_from(self.times_before(clock).len()).unwrap_or(1);
        Task::of(partition_of(key, tasks.max(1)))
    }
}
