//! What the lanes of one run share: schedules of punctuations, timers, batches, parking lots, async calls,
//! locks.
//!
//! Takes schedules from processors of any lane and returns the due ones to the lane that punctuates.
//! Owns Kafka Streams' rules of time: due times lie on a grid, a schedule fires once however many points
//! of the grid time has passed, and its next due time is the first point after that time. By event time
//! each task has its own next due time, and the grid begins at 0, so the first firing comes with the
//! first record; by the wall clock it begins one interval after now. Never calls a punctuator.
//! (`ops::process::timers` fills the timer queues.)

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

/// State shared by the lanes of one run of an application.
#[derive(Debug, Default)]
pub struct RunCoordinator {
    application_id: String,
    schedules: Mutex<Table>,
    /// Timer queues of processors.
    timer_queues: Mutex<BTreeMap<NodeId, Arc<TimerQueue>>>,
    /// True if there is a timer queue.
    timed: AtomicBool,
    /// Tasks of the keys in stores that processors write.
    key_tasks: Mutex<BTreeMap<StoreId, Arc<KeyTasks>>>,
    /// Stores for which a schedule ran over the keys of all tasks; and those of them not reported yet.
    stores_without_tasks: Mutex<(BTreeSet<String>, Vec<String>)>,
    /// Scheduled sources with more due ticks than one cut takes.
    behind: Mutex<BTreeSet<NodeId>>,
    /// True if another run of this process came before.
    is_restart: AtomicBool,
    /// When lanes must pass on the rows that `map_batches` has collected.
    pub(crate) batches: crate::ops::batches::map_batches::Waiting,
    /// Parking lots of `offload`.
    pub(crate) parking_lots: crate::ops::offload::ParkingLots,
    /// True if an async call was answered since the last barrier began.
    answered: AtomicBool,
    /// True if the run ends, whatever still waits.
    ended: AtomicBool,
    /// Limit of async calls in flight.
    pub(crate) overload: crate::ops::async_ops::Overload,
    /// Locks of processors.
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
    /// `n` if it was made by the n-th call in `init`.
    place: Option<u32>,
    kind: Punctuation,
    interval_ms: i64,
    /// Next due times by task; the wall clock has one for all tasks.
    next: Vec<i64>,
    punctuator: Arc<dyn Punctuator>,
}

impl Schedule {
    /// The due times of a task, or of all tasks.
    fn next_of(&mut self, task: Option<Task>) -> &mut [i64] {
        match task {
            Some(task) => self.next.get_mut(task.index()..=task.index()),
            None => Some(&mut self.next[..]),
        }
        .unwrap_or_default()
    }

    /// The earliest due time in a task, or in any.
    fn earliest(&mut self, task: Option<Task>) -> i64 {
        self.next_of(task).iter().copied().min().unwrap_or(i64::MAX)
    }
}

/// A call of `schedule`.
#[derive(Debug)]
pub(crate) struct ScheduleRequest {
    pub node: NodeId,
    /// `n` for the n-th call in `init`.
    pub place: Option<u32>,
    pub kind: Punctuation,
    pub interval_ms: i64,
    pub start_ms: Option<i64>,
    /// True if the calling lane runs the punctuations: then its punctuator is called.
    pub runs: bool,
    pub punctuator: Arc<dyn Punctuator>,
}

/// The clocks when a schedule is made.
#[derive(Clone, Debug)]
pub(crate) struct ClockReadings {
    pub wall: i64,
    /// By task: the stream time up to which punctuations have run, in earlier runs too; -1: never.
    pub punctuated: Vec<i64>,
}

impl RunCoordinator {
    /// A coordinator without schedules.
    #[must_use]
    pub fn new(application_id: &str) -> Self {
        Self {
            application_id: application_id.to_owned(),
            ..Self::default()
        }
    }

    /// Notes that an async call was answered: a barrier emits its result, even without new records.
    pub fn answered(&self) {
        self.answered.store(true, Relaxed);
    }

    /// True if a call was answered since [`Self::clear_answered`].
    #[must_use]
    pub fn has_answers(&self) -> bool {
        self.answered.load(Relaxed)
    }

    /// Call when a barrier begins: it emits the results of calls answered so far.
    pub fn clear_answered(&self) {
        self.answered.store(false, Relaxed);
    }

    /// Sets whether a barrier has waited for lanes for long: then no lane may wait for a free slot among
    /// its async calls.
    pub fn set_barrier_late(&self, late: bool) {
        self.overload.set_barrier_late(late);
    }

    /// Whether a barrier has waited for long (see [`Self::set_barrier_late`]).
    #[must_use]
    pub fn is_barrier_late(&self) -> bool {
        self.overload.is_barrier_late()
    }

    /// True if more async calls are in flight than allowed, so that no more input should be read.
    #[must_use]
    pub fn has_too_many_calls(&self) -> bool {
        self.overload.is_over()
    }

    /// Ends the run: nothing waits any more.
    pub fn end(&self) {
        self.ended.store(true, Relaxed);
        self.locks.end();
    }

    /// Whether the run has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// `application.id`.
    #[must_use]
    pub fn application_id(&self) -> &str {
        &self.application_id
    }

    /// The timer queue of a processor; built by the first lane that asks.
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

    /// The tasks that hold keys of a store; computed by the first lane that asks.
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

    /// Notes that a schedule ran over the keys of all tasks, because the keys of this store don't tell
    /// their task.
    pub(crate) fn note_store_without_tasks(&self, store: &str) {
        let (known, new) = &mut *self.stores_without_tasks.lock();
        if known.insert(store.to_owned()) {
            new.push(store.to_owned());
        }
    }

    /// Stores whose keys don't tell their task; each is returned once.
    #[must_use]
    pub fn take_stores_without_tasks(&self) -> Vec<String> {
        std::mem::take(&mut self.stores_without_tasks.lock().1)
    }

    /// The wall time at which the next timer is due; in the past if timers wait for the next cut and not
    /// for a clock, `i64::MAX` if there is none. Registrations of all lanes are visible at once.
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

    /// The wall time by which a lane must pass on the rows it has collected for a batch; `i64::MAX`:
    /// none has any.
    #[must_use]
    pub fn next_batch(&self) -> i64 {
        self.batches.next()
    }

    /// The wall time at which the next parked record times out or is requested again; `i64::MAX`: none is.
    #[must_use]
    pub fn next_parked(&self) -> i64 {
        self.parking_lots.next_due()
    }

    /// How many more records may be sent to an offload.
    #[must_use]
    pub fn room_at(&self, offload: NodeId) -> u64 {
        self.parking_lots.room(offload)
    }

    /// Declares an offload with room for `most` records.
    pub fn register_offload(&self, offload: NodeId, lanes: u32, most: u64) {
        self.parking_lots.of(offload, lanes, most);
    }

    /// Notes that records were sent to a lane whose offload may park them.
    pub fn reserve_park_room(&self, offload: NodeId, records: u64) {
        self.parking_lots.sent(offload, records);
    }

    /// Notes that such records have passed the offload, or don't reach it.
    pub fn release_park_room(&self, offload: NodeId, records: u64) {
        self.parking_lots.arrived(offload, records);
    }

    /// Sets whether answers to an offload from before this run are still unread.
    pub fn set_answers_wait(&self, wait: bool) {
        self.parking_lots.set_answers_wait(wait);
    }

    /// How full the parking lots are.
    #[must_use]
    pub fn occupancy(&self) -> Vec<crate::ops::offload::Occupancy> {
        self.parking_lots.occupancy()
    }

    /// True if timers wait for the next cut and not for a clock.
    #[must_use]
    pub fn timers_wait(&self) -> bool {
        self.timed.load(Relaxed)
            && self
                .timer_queues
                .lock()
                .values()
                .any(|timer_queue| timer_queue.waits())
    }

    /// Notes that this run takes over from another one of the same process.
    pub fn mark_as_restart(&self) {
        self.is_restart.store(true, Relaxed);
    }

    pub(crate) fn is_restart(&self) -> bool {
        self.is_restart.load(Relaxed)
    }

    /// Sets whether a scheduled source has more due ticks than one cut takes.
    pub(crate) fn set_behind(&self, node: NodeId, behind: bool) {
        let mut all = self.behind.lock();
        if behind {
            all.insert(node);
        } else {
            all.remove(&node);
        }
    }

    /// True if ticks wait for the next cut.
    #[must_use]
    pub fn ticks_wait(&self) -> bool {
        !self.behind.lock().is_empty()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.schedules.lock()
    }

    pub(crate) fn add(&self, asked: ScheduleRequest, now: ClockReadings) -> Result<ScheduleId> {
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

    /// The earliest of a node's schedules that is due in a task (`None`: in any task, for all of them);
    /// moves it on to its next due time.
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

fn first(asked: &ScheduleRequest, now: &ClockReadings) -> Vec<i64> {
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
