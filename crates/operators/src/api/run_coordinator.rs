//! What the lanes of one run share: schedules of punctuations, timers, batches, parking lots, async calls,
//! locks.
//!
//! Takes schedules from processors of any lane and returns the due ones to the lane that
//! punctuates. Owns Kafka Streams' rules of time: due times lie on a grid, a schedule fires once
//! however many points of the grid time has passed, and its next one is the first point after that
//! time. By event time each task has its own next one, and the grid begins at 0, so the first
//! firing comes with the first record; by the wall clock it begins one interval after now. Never
//! calls a punctuator. (`ops::process::timers` fills the timer queues.)

use crate::ops::process::key_tasks::KeyTasks;
use crate::ops::process::timers::TimerQueue;
use crate::{Punctuation, Punctuator, ScheduleId};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Error, NodeId, Result, StoreId, Task};

#[cfg(test)]
mod tests;

/// One run of an application.
#[derive(Debug, Default)]
pub struct RunCoordinator {
    application_id: String,
    schedules: Mutex<Table>,
    /// Of processors with timers.
    timer_queues: Mutex<BTreeMap<NodeId, Arc<TimerQueue>>>,
    /// Are there any?
    timed: AtomicBool,
    /// Of stores that processors write.
    key_tasks: Mutex<BTreeMap<StoreId, Arc<KeyTasks>>>,
    /// Stores for which a schedule ran over the keys of all tasks; those that were not reported yet.
    undivided: Mutex<(BTreeSet<String>, Vec<String>)>,
    /// Scheduled sources that have more ticks to make than one cut takes.
    behind: Mutex<BTreeSet<NodeId>>,
    /// Has another run of this process gone before?
    goes_on: AtomicBool,
    /// Of `map_batches`.
    pub(crate) batches: crate::ops::batches::map_batches::Waiting,
    /// Of `offload`.
    pub(crate) parking_lots: crate::ops::offload::ParkingLots,
    /// Has an async call been answered since the last barrier began?
    answered: AtomicBool,
    /// Does it end, whatever waits?
    ended: AtomicBool,
    /// Of async calls.
    pub(crate) overload: crate::ops::async_ops::Overload,
    /// Of processors.
    pub(crate) locks: Arc<crate::LockTable>,
}

#[derive(Debug, Default)]
struct Table {
    all: BTreeMap<u32, Schedule>,
    last: u32,
}

#[derive(Debug)]
struct Schedule {
    node: NodeId,
    /// It was the n-th call in `init`.
    place: Option<u32>,
    kind: Punctuation,
    interval_ms: i64,
    /// By task; the wall clock is the same in all, and has one.
    next: Vec<i64>,
    punctuator: Arc<dyn Punctuator>,
}

impl Schedule {
    /// The times of a task, or of all.
    fn next_of(&mut self, task: Option<Task>) -> &mut [i64] {
        match task {
            Some(task) => self.next.get_mut(task.index()..=task.index()),
            None => Some(&mut self.next[..]),
        }
        .unwrap_or_default()
    }

    /// Its earliest time, in a task or in any.
    fn earliest(&mut self, task: Option<Task>) -> i64 {
        self.next_of(task).iter().copied().min().unwrap_or(i64::MAX)
    }
}

/// A call of `schedule`.
#[derive(Debug)]
pub(crate) struct Asked {
    pub node: NodeId,
    /// The n-th call in `init`, if it is one.
    pub place: Option<u32>,
    pub kind: Punctuation,
    pub interval_ms: i64,
    pub start_ms: Option<i64>,
    /// Does the lane that asks run the punctuations? Then its punctuator is the one to call.
    pub runs: bool,
    pub punctuator: Arc<dyn Punctuator>,
}

/// What the clocks say when a schedule is made.
#[derive(Clone, Debug)]
pub(crate) struct Now {
    pub wall: i64,
    /// By task, up to which stream time punctuations were run before, in an earlier run too; -1: never.
    pub punctuated: Vec<i64>,
}

impl RunCoordinator {
    /// Without any schedule.
    #[must_use]
    pub fn new(application_id: &str) -> Self {
        Self {
            application_id: application_id.to_owned(),
            ..Self::default()
        }
    }

    /// An async call was answered: a barrier gives its result, records or not.
    pub fn answered(&self) {
        self.answered.store(true, Relaxed);
    }

    /// Was one answered since [`Self::answers_are_given`]?
    #[must_use]
    pub fn has_answers(&self) -> bool {
        self.answered.load(Relaxed)
    }

    /// A barrier is under way: it brings what was answered so far.
    pub fn answers_are_given(&self) {
        self.answered.store(false, Relaxed);
    }

    /// A barrier has waited for lanes for long: none of them may wait for room among its async calls.
    pub fn hurry(&self, late: bool) {
        self.overload.hurry(late);
    }

    /// Was it said so?
    #[must_use]
    pub fn is_hurried(&self) -> bool {
        self.overload.is_hurried()
    }

    /// Are more async calls under way than may be, so that nothing more is to be read?
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.overload.is_over()
    }

    /// Nothing is worth waiting for any more.
    pub fn end(&self) {
        self.ended.store(true, Relaxed);
        self.locks.end();
    }

    /// Was it said so?
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// `application.id`.
    #[must_use]
    pub fn application_id(&self) -> &str {
        &self.application_id
    }

    /// What is known of a processor's timers; the first lane to ask has it made.
    pub(crate) fn timer_queue(
        &self,
        node: NodeId,
        open: impl FnOnce() -> Result<TimerQueue>,
    ) -> Result<Arc<TimerQueue>> {
        let mut all = self.timer_queues.lock();
        if let Some(known) = all.get(&node) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(open()?);
        all.insert(node, Arc::clone(&made));
        self.timed.store(true, Relaxed);
        Ok(made)
    }

    /// In which tasks the keys of a store are; the first lane to ask finds out what is known.
    pub(crate) fn key_tasks(
        &self,
        store: StoreId,
        open: impl FnOnce() -> Result<KeyTasks>,
    ) -> Result<Arc<KeyTasks>> {
        let mut all = self.key_tasks.lock();
        if let Some(known) = all.get(&store) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(open()?);
        all.insert(store, Arc::clone(&made));
        Ok(made)
    }

    /// A schedule ran over the keys of all tasks, because those of this store don't say in which
    /// task they are.
    pub(crate) fn ran_undivided(&self, store: &str) {
        let (known, new) = &mut *self.undivided.lock();
        if known.insert(store.to_owned()) {
            new.push(store.to_owned());
        }
    }

    /// Stores whose keys don't say in which task they are, each once.
    #[must_use]
    pub fn take_undivided(&self) -> Vec<String> {
        std::mem::take(&mut self.undivided.lock().1)
    }

    /// The wall time at which a timer is due by the clock; in the past if some wait for the next cut and for
    /// no clock, `i64::MAX` if there is none. Registrations of all lanes are in it at once.
    #[must_use]
    pub fn next_timer(&self) -> i64 {
        if !self.timed.load(Relaxed) {
            return i64::MAX;
        }
        let all = self.timer_queues.lock();
        let next = all
            .values()
            .map(|timer_queue| timer_queue.next_wall())
            .min();
        next.unwrap_or(i64::MAX)
    }

    /// The wall time by which a lane must give what it has collected for a batch; `i64::MAX`: none has.
    #[must_use]
    pub fn next_batch(&self) -> i64 {
        self.batches.next()
    }

    /// The wall time at which a record that is parked has waited long enough; `i64::MAX`: none will.
    #[must_use]
    pub fn next_parked(&self) -> i64 {
        self.parking_lots.next_due()
    }

    /// How many more records may be sent on their way to an offload.
    #[must_use]
    pub fn room_at(&self, offload: NodeId) -> u64 {
        self.parking_lots.room(offload)
    }

    /// There is an offload, with room for so many records.
    pub fn has_room_for(&self, offload: NodeId, lanes: u32, most: u64) {
        self.parking_lots.of(offload, lanes, most);
    }

    /// So many records that an offload may park are on their way to a lane.
    pub fn sent_to_park(&self, offload: NodeId, records: u64) {
        self.parking_lots.sent(offload, records);
    }

    /// So many of them have gone through it, or don't go.
    pub fn came_to_park(&self, offload: NodeId, records: u64) {
        self.parking_lots.arrived(offload, records);
    }

    /// Are there answers to an offload that came before this run, and are not read yet?
    pub fn set_answers_wait(&self, wait: bool) {
        self.parking_lots.set_answers_wait(wait);
    }

    /// How full the parking lots are.
    #[must_use]
    pub fn occupancy(&self) -> Vec<crate::ops::offload::Occupancy> {
        self.parking_lots.occupancy()
    }

    /// Do timers wait for the next cut, and for no clock?
    #[must_use]
    pub fn timers_wait(&self) -> bool {
        self.timed.load(Relaxed)
            && self
                .timer_queues
                .lock()
                .values()
                .any(|timer_queue| timer_queue.waits())
    }

    /// This run takes over from another one of the same process.
    pub fn go_on(&self) {
        self.goes_on.store(true, Relaxed);
    }

    pub(crate) fn goes_on(&self) -> bool {
        self.goes_on.load(Relaxed)
    }

    /// A scheduled source has made what one cut takes: is there more?
    pub(crate) fn set_behind(&self, node: NodeId, behind: bool) {
        let mut all = self.behind.lock();
        if behind {
            all.insert(node);
        } else {
            all.remove(&node);
        }
    }

    /// Do ticks wait for the next cut?
    #[must_use]
    pub fn ticks_wait(&self) -> bool {
        !self.behind.lock().is_empty()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.schedules.lock()
    }

    pub(crate) fn add(&self, asked: Asked, now: Now) -> Result<ScheduleId> {
        if asked.interval_ms <= 0 {
            return Err(Error::user(format!(
                "the interval of a schedule must be at least 1 ms, not {} ms",
                asked.interval_ms
            ))
            .hint("write for example context.schedule(\"10s\", ...)"));
        }
        let next = first(&asked, &now);
        let mut table = self.table();
        let known = asked.place.and_then(|place| {
            table
                .all
                .iter_mut()
                .find(|(_, s)| s.node == asked.node && s.place == Some(place))
        });
        if let Some((id, schedule)) = known {
            let id = ScheduleId(*id);
            let replaced = asked
                .runs
                .then(|| std::mem::replace(&mut schedule.punctuator, asked.punctuator));
            drop(table);
            drop(replaced);
            return Ok(id);
        }
        table.last += 1;
        let id = table.last;
        table.all.insert(
            id,
            Schedule {
                node: asked.node,
                place: asked.place,
                kind: asked.kind,
                interval_ms: asked.interval_ms,
                next,
                punctuator: asked.punctuator,
            },
        );
        Ok(ScheduleId(id))
    }

    pub(crate) fn cancel(&self, id: ScheduleId) {
        let gone = self.table().all.remove(&id.0);
        drop(gone);
    }

    /// The earliest of a node's schedules that is due in a task (`None`: in any, for all of them),
    /// moved on to its next time.
    pub(crate) fn due(
        &self,
        node: NodeId,
        kind: Punctuation,
        (task, now): (Option<Task>, i64),
    ) -> Option<Arc<dyn Punctuator>> {
        let mut table = self.table();
        let own = table.all.values_mut();
        let own = own.filter(|schedule| schedule.node == node && schedule.kind == kind);
        let (earliest, due) = own
            .map(|schedule| (schedule.earliest(task), schedule))
            .min_by_key(|(earliest, _)| *earliest)?;
        if earliest > now {
            return None;
        }
        let interval_ms = due.interval_ms;
        for next in due.next_of(task).iter_mut().filter(|next| **next <= now) {
            *next = after(*next, interval_ms, now);
        }
        Some(Arc::clone(&due.punctuator))
    }

    /// The wall time at which a node's next schedule is due.
    pub(crate) fn next_wall(&self, node: NodeId) -> Option<i64> {
        self.table()
            .all
            .values()
            .filter(|s| s.node == node && s.kind == Punctuation::WallClock)
            .flat_map(|s| s.next.iter().copied())
            .min()
    }
}

/// The first point of the grid after `now`.
fn after(point: i64, interval_ms: i64, now: i64) -> i64 {
    let passed = now.saturating_sub(point).max(0) / interval_ms;
    point.saturating_add((passed + 1).saturating_mul(interval_ms))
}

fn first(asked: &Asked, now: &Now) -> Vec<i64> {
    match (asked.kind, asked.start_ms) {
        (Punctuation::WallClock, None) => vec![now.wall.saturating_add(asked.interval_ms)],
        (Punctuation::WallClock, Some(start)) if start > now.wall => vec![start],
        (Punctuation::WallClock, Some(start)) => vec![after(start, asked.interval_ms, now.wall)],
        (Punctuation::StreamTime, start) => {
            let start = start.unwrap_or(0);
            // After a restart the grid continues where it was: what fired doesn't fire again. A schedule
            // made while records flow is new, and fires with the next record, as in Kafka Streams.
            let first = |punctuated: &i64| {
                if asked.place.is_some() && *punctuated >= start {
                    after(start, asked.interval_ms, *punctuated)
                } else {
                    start
                }
            };
            now.punctuated.iter().map(first).collect()
        }
    }
}
