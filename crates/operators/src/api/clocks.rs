//! Stream time as one lane sees it.
//!
//! Takes the timestamps that operators see, gives each operator's stream time: the highest timestamp so far
//! (Kafka Streams' `observedStreamTime`), by task: what happens in one partition makes no record of another
//! one late. Owns this lane's view. At the barrier the engine merges the views of all lanes and keeps them
//! with the commit, so that a restart neither takes late records again nor gives closed windows twice.
//! Never reads the machine's clock.
//!
//! For a record, time is what a single lane would have: the highest timestamp of the records that reached
//! the operator in its task up to it, in whichever lane they are. What other lanes have is known before the
//! records of a tick are processed ([`Steps`]), because a stage boundary stands before every operator whose
//! time must be exact.
//!
//! With `time.semantics = watermark` records move nothing: the engine says the watermark at each barrier,
//! and an operator's clock is raised to it just before its `advance`, when its parents have given what was
//! due by it. What the newest record is stays known all the same, for windows that close on quiet topics.

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
pub use time::{Time, Times, TimesAt, merge_times};

/// What a clock goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockRule {
    /// The group of entries whose records move it, if that is known before they are processed.
    pub group: Option<u16>,
    /// How many tasks there are.
    pub tasks: u16,
    /// Is murmur2 of its key always the task of a record, because an exchange says so?
    pub by_key: bool,
    /// Has the node no topic of its own (a scheduled source)? Then it goes by the application's time.
    pub by_application: bool,
    /// Is it moved by all records with a key of one source, whatever lane they are in? Dispatch has noted
    /// at each record to where.
    pub dispatched: bool,
}

/// All clocks of the plan, as one lane sees them.
#[derive(Clone, Debug)]
pub struct LaneClocks {
    times: Times,
    /// The times committed last, if there were other tasks.
    before: Option<Arc<Times>>,
    rules: Vec<ClockRule>,
    /// What all lanes know of the tick at hand, by group and task, and how much of it each clock has passed.
    steps: Option<Arc<Steps>>,
    passed: Vec<Vec<usize>>,
    /// What clocks with a group showed when the tick began.
    at_begin: Times,
    /// The times at the records of the batch at hand, in their order, and which was looked up last.
    at_records: Vec<TimesAt>,
    looked_up: usize,
    /// Of which clocks this lane has seen keys in another task than they say.
    away: Vec<bool>,
    alone: bool,
    /// Wall time, as the engine saw it when it began the batch (or the advance).
    pub wall: Timestamp,
    /// Least wall time between two passes that close windows, where these are to be as in Kafka
    /// Streams (one second there); 0: with every record.
    pub emit_interval_ms: Option<i64>,
    /// Least wall time between two passes that give unmatched rows of joins, likewise.
    pub join_emit_interval_ms: Option<i64>,
    /// `time.semantics = watermark`: time is the watermark, which moves at barriers, and not what records
    /// say.
    pub by_watermark: bool,
    /// Records before this time are not expected any more: one that comes is late. -1: not known yet.
    pub watermark: i64,
    /// The store that times are kept in, and what its rows are called, by clock.
    pub rows: Option<(StoreId, Arc<[Bytes]>)>,
}

impl LaneClocks {
    /// So many clocks; is the lane alone?
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
            away: vec![false; clocks],
            alone,
            wall: Timestamp::UNKNOWN,
            emit_interval_ms: None,
            join_emit_interval_ms: None,
            by_watermark: false,
            watermark: -1,
            rows: None,
        }
    }

    /// What each clock goes by.
    #[must_use]
    pub fn ruled(mut self, rules: &[ClockRule]) -> Self {
        self.rules.clear();
        self.rules.extend_from_slice(rules);
        // All tasks have a time, even one that got no record: the reader knows how many there are.
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

    /// Is there no other lane?
    #[must_use]
    pub const fn is_alone(&self) -> bool {
        self.alone
    }

    /// Do operators give what is due while they process records, and not only within `advance`?
    #[must_use]
    pub const fn moves_with_records(&self) -> bool {
        !self.by_watermark
    }

    /// Is it due at a record of another lane, too, when this one gives what is due?
    #[must_use]
    pub const fn follows_others(&self) -> bool {
        !self.alone && !self.by_watermark
    }

    /// By which task time is kept: one watermark is the time of all of them.
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

    /// The tasks that a clock has seen something of.
    pub fn tasks(&self, clock: ClockId) -> impl Iterator<Item = Task> + use<> {
        (0..self.times[usize::from(clock.0)].len()).map(|at| Task(u16::try_from(at).unwrap_or(0)))
    }

    /// How many tasks there are, each with a time of its own.
    #[must_use]
    pub fn task_count(&self, clock: ClockId) -> u16 {
        if self.by_watermark {
            1
        } else {
            self.rules[usize::from(clock.0)].tasks.max(1)
        }
    }

    /// Are there several tasks, each with a time of its own?
    #[must_use]
    pub fn has_tasks(&self, clock: ClockId) -> bool {
        self.task_count(clock) > 1
    }

    /// Does more than a record's key say which of several tasks it is in?
    #[must_use]
    pub fn is_apart(&self, clock: ClockId) -> bool {
        self.has_tasks(clock) && !self.rules[usize::from(clock.0)].by_key
    }

    /// Was a key seen in another task than it says?
    #[must_use]
    pub(crate) fn seen_away(&self, clock: ClockId) -> bool {
        self.away[usize::from(clock.0)]
    }

    /// One was.
    pub(crate) fn see_away(&mut self, clock: ClockId) {
        self.away[usize::from(clock.0)] = true;
    }

    /// The task that a key belongs to by its bytes.
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

    /// The lowest stream time of the tasks that have one; -1: none has.
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

    /// The time of events: the watermark, or the stream time of the application's clock. -1: none yet.
    #[must_use]
    pub fn event_time(&self, application: ClockId) -> i64 {
        if self.by_watermark {
            self.watermark
        } else {
            self.highest(application)
        }
    }

    /// The time of events in a task of a processor with this clock; without one, and where there is one time
    /// for all tasks, that of [`Self::event_time`]. -1: none yet.
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

    /// A record is processed: moves a clock (never back) to its timestamp, and to those of the records
    /// before it in its task, if records move it; gives its time.
    pub fn observe(&mut self, clock: ClockId, record: &Record) -> i64 {
        self.observe_at(clock, record.origin.order, record.timestamp.0)
    }

    /// The same for what is seen at a place in the order.
    pub fn observe_at(&mut self, clock: ClockId, order: Order, timestamp: i64) -> i64 {
        self.pass(clock, order, true);
        self.see(clock, order.task(), timestamp)
    }

    /// Something with this time was seen in a task.
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

    /// The time in a record's task just before it: records of other lanes have moved it.
    pub fn before(&mut self, clock: ClockId, record: &Record) -> i64 {
        self.pass(clock, record.origin.order, false);
        self.stream(clock, record.task())
    }

    /// A batch begins: these are the times at its records, in ascending order.
    pub fn begin_batch(&mut self, times: Vec<TimesAt>) {
        self.at_records = times;
        self.looked_up = 0;
    }

    /// The times at a record of the batch at hand.
    fn at_record(&mut self, order: Order) -> Option<TimesAt> {
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

    /// The stream time of a task of Kafka Streams at a place in the order: the highest timestamp that
    /// its sources had up to there. `time`: the clock of what came through exchanges.
    pub fn of_task(&mut self, time: Option<ClockId>, order: Order) -> Option<i64> {
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

    /// Moves a clock, whatever moves it otherwise; never back.
    pub fn move_on(&mut self, clock: ClockId, task: Task, to: i64) {
        let time = self.time_mut(clock, task);
        time.stream = time.stream.max(to);
    }

    /// Moves a clock to the watermark, if that is what moves it.
    pub fn follow(&mut self, clock: ClockId) {
        if self.by_watermark {
            self.move_on(clock, Task(0), self.watermark);
        }
    }

    /// The watermark is this from now on; never back.
    pub fn see_watermark(&mut self, watermark: i64) {
        self.watermark = self.watermark.max(watermark);
    }

    /// Asks for a watermark of at least this, with the application's clock.
    pub fn ask_watermark(&mut self, application: ClockId, at_least: i64) {
        let time = self.time_mut(application, Task(0));
        time.newest = time.newest.max(at_least);
    }

    /// Up to where the operator has done what is done once.
    #[must_use]
    pub fn mark(&self, clock: ClockId, task: Task) -> i64 {
        self.time(clock, task).mark
    }

    /// Moves the mark, never back.
    pub fn set_mark(&mut self, clock: ClockId, task: Task, mark: i64) {
        let time = self.time_mut(clock, task);
        time.mark = time.mark.max(mark);
    }

    /// All of them, by number.
    #[must_use]
    pub const fn times(&self) -> &Times {
        &self.times
    }

    /// Takes what all lanes know.
    pub fn merge(&mut self, times: &Times) {
        merge_times(&mut self.times, times);
    }
}
