//! How stream time moves within a tick, in all lanes together.
//!
//! Takes the records that each lane sends into a stage, gives by group of entries and task the records at which time
//! moved, in the order of the input. A step function over the order: made once per tick, read by all lanes. Never
//! looks at a record's key or value.

use stoatflow_core::{Headers, Order, Origin, Task};

/// A record that moved the time.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where it came from, and its place in the order.
    pub origin: Origin,
    /// Its timestamp.
    pub time: i64,
    /// Its headers: what becomes due at it comes out with these.
    pub headers: Headers,
}

impl Step {
    /// Its place in the order.
    #[must_use]
    pub const fn order(&self) -> Order {
        self.origin.order
    }
}

/// The steps of one group of entries, by task.
#[derive(Clone, Debug, Default)]
pub struct GroupSteps(Vec<Vec<Step>>);

impl GroupSteps {
    /// A record went into the stage. It counts unless this lane has sent a newer one before.
    pub fn add(&mut self, origin: Origin, time: i64, headers: &Headers) {
        let task = origin.order.task().index();
        if self.0.len() <= task {
            self.0.resize_with(task + 1, Vec::new);
        }
        let steps = &mut self.0[task];
        // What waited comes later than what it stands before.
        let counts = |last: &Step| last.time < time || origin.order < last.order();
        if steps.last().is_none_or(counts) {
            steps.push(Step {
                origin,
                time,
                headers: headers.clone(),
            });
        }
    }

    /// Adds what another lane has.
    fn append(&mut self, other: &mut Self) {
        if self.0.len() < other.0.len() {
            self.0.resize_with(other.0.len(), Vec::new);
        }
        for (own, other) in self.0.iter_mut().zip(&mut other.0) {
            own.append(other);
        }
    }

    /// Brings them into order, and leaves out what moves no time.
    fn settle(&mut self) {
        for steps in &mut self.0 {
            // Runs, one of each lane.
            steps.sort_by_key(|step| step.order().key());
            let mut highest = i64::MIN;
            steps.retain(|step| {
                let moves = step.time > highest;
                highest = highest.max(step.time);
                moves
            });
        }
    }
}

/// All groups of a stage.
#[derive(Clone, Debug, Default)]
pub struct Steps(Vec<GroupSteps>);

impl Steps {
    /// Of so many groups.
    #[must_use]
    pub fn new(groups: usize) -> Self {
        Self(vec![GroupSteps::default(); groups])
    }

    /// A group.
    pub fn group(&mut self, group: u16) -> &mut GroupSteps {
        &mut self.0[usize::from(group)]
    }

    /// Has nothing moved?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let mut tasks = self.0.iter().flat_map(|group| &group.0);
        tasks.all(Vec::is_empty)
    }

    /// Adds what another lane has.
    pub fn append(&mut self, mut other: Self) {
        for (own, other) in self.0.iter_mut().zip(&mut other.0) {
            own.append(other);
        }
    }

    /// All lanes have added theirs: what moves the time of all of them.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.0.iter_mut().for_each(GroupSteps::settle);
        self
    }

    /// In order, with rising times.
    #[must_use]
    pub fn of(&self, group: u16, task: Task) -> &[Step] {
        let tasks = self.0.get(usize::from(group)).map(|group| &group.0);
        let steps = tasks.and_then(|tasks| tasks.get(task.index()));
        steps.map_or(&[], Vec::as_slice)
    }

    /// What time has come to, by task.
    pub fn last(&self, group: u16) -> impl Iterator<Item = (Task, i64)> + '_ {
        let tasks = self.0.get(usize::from(group)).map(|group| &group.0);
        let tasks = tasks.into_iter().flatten().zip(0..);
        tasks.filter_map(|(steps, at)| Some((Task(at), steps.last()?.time)))
    }
}
