//! Stream time as one lane sees it.
//!
//! Takes the timestamps that operators see; returns each operator's stream time: the highest timestamp
//! so far (Kafka Streams' `observedStreamTime`), by task, so that a record of one partition never makes
//! a record of another one late. Owns this lane's view. At the barrier the engine merges the views of
//! all lanes and stores them with the commit, so that a restart neither accepts late records again nor
//! emits closed windows twice. Never reads the machine's clock.
//!
//! A record sees the time that a single lane would have: the highest timestamp of the records that
//! reached the operator in its task up to this record, in any lane. The records of other lanes are known
//! before the records of a tick are processed ([`Steps`]), because a stage boundary precedes every
//! operator whose time must be exact.
//!
//! With `time.semantics = watermark` records don't move time: the engine passes the watermark at each
//! barrier, and an operator's clock is raised to it just before its `advance`, after its parents have
//! emitted what was due by it. The highest timestamp of the records is kept as well, for windows that
//! close on quiet topics.

mod before;
mod other_lanes;
mod steps;
#[cfg(test)]
mod tests;
mod time;

pub use steps::{GroupSteps, Step, Steps};

use bytes::Bytes;
use std::sync::Arc;
use stoatflow_core::murmur2::partition_of;
use stoatflow_core::{ClockId, Order, Record, StoreId, Task, Timestamp};
pub use time::{RecordTimes, Time, Times, merge_times};

/// How a clock is moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockRule {
    /// The group of entries whose records move it, if those are known before they are processed.
    pub group: Option<u16>,
    /// The number of tasks.
    pub tasks: u16,
    /// True if a record's task is always murmur2 of its key, because an exchange partitions so.
    pub by_key: bool,
    /// True if the node has no topic of its own (a scheduled source) and uses the application's time.
    pub by_application: bool,
    /// True if all records with a key of one source move it, in any lane. Dispatch notes at each record
    /// how far.
    pub dispatched: bool,
}

/// All clocks of the plan, as one lane sees them.
#[derive(Clone, Debug)]
pub struct LaneClocks {
    times: Times,
    /// The times committed last, if the number of tasks was different then.
    before: Option<Arc<Times>>,
    rules: Vec<ClockRule>,
    /// What all lanes know of the current tick, by group and task, and how many steps of it each clock
    /// has passed.
    steps: Option<Arc<Steps>>,
    passed: Vec<Vec<usize>>,
    /// The times of clocks with a group at the beginning of the tick.
    at_begin: Times,
    /// The times at the records of the current batch, in their order, and the index of the last lookup.
    at_records: Vec<RecordTimes>,
    looked_up: usize,
    /// By clock: whether this lane has seen a key in another task than its bytes map to.
    keys_in_other_tasks: Vec<bool>,
    alone: bool,
    /// Wall time at which the engine began the batch (or the advance).
    pub wall: Timestamp,
    /// Minimum wall time between two passes that close windows, if they are timed as in Kafka Streams
    /// (one second there); 0: with every record.
    pub emit_interval_ms: Option<i64>,
    /// Minimum wall time between two passes that emit unmatched rows of joins, likewise.
    pub join_emit_interval_ms: Option<i64>,
    /// `time.semantics = watermark`: time is the watermark, which moves at barriers, and not the highest
    /// timestamp of the records.
    pub by_watermark: bool,
    /// Records before this time are no longer expected and count as late; -1: not known yet.
    pub watermark: i64,
    /// The store that keeps the times, and the key of each clock's row in it.
    pub rows: Option<(StoreId, Arc<[Bytes]>)>,
}

impl LaneClocks {
    /// Clocks of a lane; `alone`: there is no other lane.
    #[must_use]
    pub fn new(clocks: usize, alone: bool) -> Self {
        Self {
            times: vec![Vec::new(); clocks],
            before: None,
            rules: vec![ClockRule::default(); clocks],
            steps: None,
            passed: vec![Vec::new(); clocks],
            at_begin: Vec::new(),
            at_records: Vec::new(),
            looked_up: 0,
            keys_in_other_tasks: vec![false; clocks],
            alone,
            wall: Timestamp::UNKNOWN,
            emit_interval_ms: None,
            join_emit_interval_ms: None,
            by_watermark: false,
            watermark: -1,
            rows: None,
        }
    }

    /// Sets how each clock is moved.
    #[must_use]
    pub fn ruled(mut self, rules: &[ClockRule]) -> Self {
        self.rules.clear();
        self.rules.extend_from_slice(rules);
        // All tasks have a time, even those without records, so that readers know the number of tasks.
        for (times, rule) in self.times.iter_mut().zip(rules) {
            let tasks = if self.by_watermark {
                1
            } else {
                usize::from(rule.tasks)
            };
            if times.len() < tasks {
                times.resize(tasks, Time::NONE);
            }
        }
        self
    }

    /// True if there is no other lane.
    #[must_use]
    pub const fn is_alone(&self) -> bool {
        self.alone
    }

    /// Whether operators emit what is due while they process records, and not only in `advance`.
    #[must_use]
    pub const fn moves_with_records(&self) -> bool {
        !self.by_watermark
    }

    /// Whether records of other lanes, too, make this lane's results due.
    #[must_use]
    pub const fn follows_others(&self) -> bool {
        !self.alone && !self.by_watermark
    }

    /// The task that time is kept for: all tasks share one watermark.
    #[must_use]
    pub const fn task(&self, task: Task) -> Task {
        if self.by_watermark { Task(0) } else { task }
    }

    const fn place(&self, task: Task) -> usize {
        self.task(task).0 as usize
    }

    fn time(&self, clock: ClockId, task: Task) -> Time {
        let times = &self.times[usize::from(clock.0)];
        times.get(self.place(task)).copied().unwrap_or(Time::NONE)
    }

    fn time_mut(&mut self, clock: ClockId, task: Task) -> &mut Time {
        let place = self.place(task);
        let times = &mut self.times[usize::from(clock.0)];
        if times.len() <= place {
            times.resize(place + 1, Time::NONE);
        }
        &mut times[place]
    }

    /// The tasks that a clock keeps times for.
    pub fn tasks(&self, clock: ClockId) -> impl Iterator<Item = Task> + use<> {
        (0..self.times[usize::from(clock.0)].len()).map(|at| Task(u16::try_from(at).unwrap_or(0)))
    }

    /// The number of tasks, each with its own stream time.
    #[must_use]
    pub fn task_count(&self, clock: ClockId) -> u16 {
        if self.by_watermark {
            1
        } else {
            self.rules[usize::from(clock.0)].tasks.max(1)
        }
    }

    /// True if there are several tasks, each with its own stream time.
    #[must_use]
    pub fn has_tasks(&self, clock: ClockId) -> bool {
        self.task_count(clock) > 1
    }

    /// True if there are several tasks, and a record's key alone doesn't determine its task.
    #[must_use]
    pub fn task_not_by_key(&self, clock: ClockId) -> bool {
        self.has_tasks(clock) && !self.rules[usize::from(clock.0)].by_key
    }

    /// Whether a key was seen in another task than its bytes map to.
    #[must_use]
    pub(crate) fn has_key_in_other_task(&self, clock: ClockId) -> bool {
        self.keys_in_other_tasks[usize::from(clock.0)]
    }

    /// Notes that a key was seen in another task than its bytes map to.
    pub(crate) fn mark_key_in_other_task(&mut self, clock: ClockId) {
        self.keys_in_other_tasks[usize::from(clock.0)] = true;
    }

    /// The task that a key's bytes map to.
    #[must_use]
    pub fn task_of(&self, clock: ClockId, key: &[u8]) -> Task {
        let tasks = self.rules[usize::from(clock.0)].tasks;
        Task::of(partition_of(key, i32::from(tasks.max(1))))
    }

    /// The stream time of a clock in a task; -1: none yet.
    #[must_use]
    pub fn stream(&self, clock: ClockId, task: Task) -> i64 {
        self.time(clock, task).stream
    }

    /// The lowest stream time of the tasks that have one; -1 if none has.
    #[must_use]
    pub fn lowest(&self, clock: ClockId) -> i64 {
        let times = self.times[usize::from(clock.0)].iter();
        let seen = times.map(|time| time.stream).filter(|time| *time >= 0);
        seen.min().unwrap_or(-1)
    }

    /// The highest stream time of all tasks.
    #[must_use]
    pub fn highest(&self, clock: ClockId) -> i64 {
        let times = self.times[usize::from(clock.0)].iter();
        times.map(|time| time.stream).max().unwrap_or(-1)
    }

    /// Event time: the watermark, or the stream time of the application's clock. -1: none yet.
    #[must_use]
    pub fn event_time(&self, application: ClockId) -> i64 {
        if self.by_watermark {
            self.watermark
        } else {
            self.highest(application)
        }
    }

    /// Event time in a task of a processor with this clock; without a clock, or with one time for all
    /// tasks, that of [`Self::event_time`]. -1: none yet.
    #[must_use]
    pub fn task_time(&self, application: ClockId, clock: Option<ClockId>, task: Task) -> i64 {
        match clock {
            Some(clock)
                if !self.by_watermark && !self.rules[usize::from(clock.0)].by_application =>
            {
                self.stream(clock, task)
            }
            _ => self.event_time(application),
        }
    }

    /// Called for each processed record: moves a clock (never back) to the record's timestamp and to
    /// those of the records before it in its task, if records move the clock; returns the clock's time.
    pub fn observe(&mut self, clock: ClockId, record: &Record) -> i64 {
        self.observe_at(clock, record.origin.order, record.timestamp.0)
    }

    /// As [`Self::observe`], for a timestamp at a place in the order.
    pub fn observe_at(&mut self, clock: ClockId, order: Order, timestamp: i64) -> i64 {
        self.pass(clock, order, true);
        self.see(clock, order.task(), timestamp)
    }

    /// Raises the time of a task to this timestamp; with a watermark, only the highest timestamp of its
    /// records.
    pub fn see(&mut self, clock: ClockId, task: Task, timestamp: i64) -> i64 {
        let by_watermark = self.by_watermark;
        let time = self.time_mut(clock, task);
        if by_watermark {
            time.newest = time.newest.max(timestamp);
        } else {
            time.stream = time.stream.max(timestamp);
        }
        time.stream
    }

    /// The time of a record's task just before it, including earlier records of other lanes.
    pub fn before(&mut self, clock: ClockId, record: &Record) -> i64 {
        self.pass(clock, record.origin.order, false);
        self.stream(clock, record.task())
    }

    /// Begins a batch with the times at its records, in ascending order.
    pub fn begin_batch(&mut self, times: Vec<RecordTimes>) {
        self.at_records = times;
        self.looked_up = 0;
    }

    /// The times at a record of the current batch.
    fn at_record(&mut self, order: Order) -> Option<RecordTimes> {
        let place = order.key();
        // Mostly the same record again, or the next one.
        for at in self.looked_up..self.looked_up + 2 {
            if let Some(times) = self.at_records.get(at).filter(|at| at.place == place) {
                self.looked_up = at;
                return Some(*times);
            }
        }
        let found = self.at_records.binary_search_by_key(&place, |at| at.place);
        self.looked_up = found.ok()?;
        self.at_records.get(self.looked_up).copied()
    }

    /// The stream time of a task of Kafka Streams at a place in the order: the highest timestamp of its
    /// sources up to there. `time`: the clock of records that came through exchanges.
    pub fn task_stream_time(&mut self, time: Option<ClockId>, order: Order) -> Option<i64> {
        if let Some(clock) = time
            && self.steps.is_some()
            && self.rules[usize::from(clock.0)].group.is_some()
        {
            self.pass(clock, order, true);
            return Some(self.stream(clock, order.task())).filter(|time| *time >= 0);
        }
        let at_record = self.at_record(order).map(|times| times.stream);
        let seen = || time.map(|clock| self.stream(clock, order.task()));
        at_record.or_else(seen).filter(|time| *time >= 0)
    }

    /// The highest timestamp among the records that did not move a clock; -1: none.
    #[must_use]
    pub fn newest(&self, clock: ClockId) -> i64 {
        self.time(clock, Task(0)).newest
    }

    /// Moves a clock, regardless of its rule; never back.
    pub fn raise_to(&mut self, clock: ClockId, task: Task, to: i64) {
        let time = self.time_mut(clock, task);
        time.stream = time.stream.max(to);
    }

    /// Moves a clock to the watermark, if the watermark moves it.
    pub fn follow(&mut self, clock: ClockId) {
        if self.by_watermark {
            self.raise_to(clock, Task(0), self.watermark);
        }
    }

    /// Raises the watermark; never lowers it.
    pub fn see_watermark(&mut self, watermark: i64) {
        self.watermark = self.watermark.max(watermark);
    }

    /// Requests a watermark of at least this, through the application's clock.
    pub fn request_watermark(&mut self, application: ClockId, at_least: i64) {
        let time = self.time_mut(application, Task(0));
        time.newest = time.newest.max(at_least);
    }

    /// The time up to which the operator has done one-time work, such as emitting closed windows.
    #[must_use]
    pub fn mark(&self, clock: ClockId, task: Task) -> i64 {
        self.time(clock, task).mark
    }

    /// Raises the mark; never lowers it.
    pub fn set_mark(&mut self, clock: ClockId, task: Task, mark: i64) {
        let time = self.time_mut(clock, task);
        time.mark = time.mark.max(mark);
    }

    /// The times of all clocks, by number.
    #[must_use]
    pub const fn times(&self) -> &Times {
        &self.times
    }

    /// Merges the times of all lanes into this lane's view.
    pub fn merge(&mut self, times: &Times) {
        merge_times(&mut self.times, times);
    }
}
