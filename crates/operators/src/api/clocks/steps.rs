//! How stream time moves within a tick, in all lanes together.
//!
//! Takes the records that each lane sends into a stage; returns, by group of entries and task, the
//! records at which time moved, in the order of the input. A step function over the order, built once
//! per tick and read by all lanes. Never looks at a record's key or value.

use stoatflow_core::{Headers, Order, Origin, Record, Task};

/// A record that moved the time.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Its place in the order.
    pub order: Order,
    /// Its timestamp.
    pub time: i64,
    /// Index of its name; out of range if it has none.
    name: u32,
}

/// The origin and the headers of a record at which results became due: the results carry them.
pub type TriggerRecord = (Origin, Headers);

/// The steps of one group of entries.
#[derive(Clone, Debug, Default)]
pub struct GroupSteps {
    /// The steps by task.
    tasks: Vec<Vec<Step>>,
    names: Vec<TriggerRecord>,
}

impl GroupSteps {
    /// Adds a record that was sent into the stage. Ignored if this lane has sent a newer record before
    /// it. `named`: whether results may carry its origin and headers.
    #[inline]
    pub fn add(&mut self, record: &Record, named: bool) {
        let (order, time) = (record.origin.order, record.timestamp.0);
        let task = order.task().index();
        if self.tasks.len() <= task {
            self.tasks.resize_with(task + 1, Vec::new);
        }
        let steps = &mut self.tasks[task];
        // A record that waited is sent after records that follow it in the order.
        let counts = |last: &Step| last.time < time || order < last.order;
        if steps.last().is_none_or(counts) {
            let name = if named {
                self.names.push((record.origin, record.headers.clone()));
                u32::try_from(self.names.len() - 1).unwrap_or(u32::MAX)
            } else {
                u32::MAX
            };
            steps.push(Step { order, time, name });
        }
    }

    /// Adds the steps of another lane.
    fn append(&mut self, other: &mut Self) {
        if self.tasks.len() < other.tasks.len() {
            self.tasks.resize_with(other.tasks.len(), Vec::new);
        }
        let before = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.append(&mut other.names);
        for (own, other) in self.tasks.iter_mut().zip(&mut other.tasks) {
            let moved = other.drain(..).map(|step| Step {
                name: step.name.saturating_add(before),
                ..step
            });
            own.extend(moved);
        }
    }

    /// Sorts the steps, and removes those that move no time.
    fn settle(&mut self) {
        for steps in &mut self.tasks {
            // One sorted run per lane.
            steps.sort_by_key(|step| step.order.key());
            let mut highest = i64::MIN;
            steps.retain(|step| {
                let moves = step.time > highest;
                highest = highest.max(step.time);
                moves
            });
        }
    }
}

/// The steps of all groups of a stage.
#[derive(Clone, Debug, Default)]
pub struct Steps(Vec<GroupSteps>);

impl Steps {
    /// Steps of this many groups, all empty.
    #[must_use]
    pub fn new(groups: usize) -> Self {
        Self(vec![GroupSteps::default(); groups])
    }

    /// The steps of a group.
    pub fn group(&mut self, group: u16) -> &mut GroupSteps {
        &mut self.0[usize::from(group)]
    }

    /// True if no time has moved.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let mut tasks = self.0.iter().flat_map(|group| &group.tasks);
        tasks.all(Vec::is_empty)
    }

    /// Adds the steps of another lane.
    pub fn append(&mut self, mut other: Self) {
        for (own, other) in self.0.iter_mut().zip(&mut other.0) {
            own.append(other);
        }
    }

    /// Call when all lanes have added their steps: returns those that move the time of all lanes.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.0.iter_mut().for_each(GroupSteps::settle);
        self
    }

    /// The steps of a group in a task, in order, with rising times.
    #[must_use]
    pub fn of(&self, group: u16, task: Task) -> &[Step] {
        let tasks = self.0.get(usize::from(group)).map(|group| &group.tasks);
        let steps = tasks.and_then(|tasks| tasks.get(task.index()));
        steps.map_or(&[], Vec::as_slice)
    }

    /// The origin and headers that results due at a step carry.
    #[must_use]
    pub fn name(&self, group: u16, step: &Step) -> Option<&TriggerRecord> {
        let group = self.0.get(usize::from(group))?;
        group.names.get(step.name as usize)
    }

    /// The time that the tick has reached, by task.
    pub fn last(&self, group: u16) -> impl Iterator<Item = (Task, i64)> + '_ {
        let tasks = self.0.get(usize::from(group)).map(|group| &group.tasks);
        let tasks = tasks.into_iter().flatten().zip(0..);
        tasks.filter_map(|(steps, at)| Some((Task(at), steps.last()?.time)))
    }
}
