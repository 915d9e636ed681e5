//! `on_window_close`: when closed windows are emitted, and which.
//!
//! Takes the timestamps of records; returns when a pass over the closed windows is due. Owns the index
//! of windows that wait to be closed. The mark of the operator's clock is the time up to which windows
//! were emitted: it is committed, so a restart emits nothing twice. Which windows of a key were emitted
//! depends on the task that the key was in then. If it is in another task now (there are more
//! partitions) which has already closed the window, the window is emitted in the first epoch.
//!
//! Windows are emitted at the record that closes them. Those closed by records of other lanes are
//! emitted before the next record of their task and at the end of the tick, each with the trigger
//! (headers and origin) of the record that closed it. If an interval is set and a lane has all keys of
//! its tasks, the passes are those of Kafka Streams: one per record that moves stream time, at most one
//! per interval of wall time; a pass counts even if nothing has closed since the last one.

use crate::ops::windows::window::WindowedStore;
use crate::support::waiting::{Tasks, Waiting};
use crate::{Context, LaneClocks, LaneStore};
use bytes::Bytes;
use std::collections::BTreeSet;
use stoatflow_core::{ClockId, Datum, Headers, Origin, Record, Result, Task};
use stoatflow_state::WindowView;

/// Headers and origin of the record that closes a window; its result gets them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trigger {
    pub headers: Headers,
    pub origin: Origin,
}

/// A pass to be made over the closed windows of a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Due {
    pub task: Task,
    /// Times up to here are closed (start of a window, end of a session).
    pub until: i64,
    /// The record that moved stream time.
    pub trigger: Trigger,
    /// True if all results get the trigger of that record, whichever record closed their window.
    in_one: bool,
    /// True if all of it is overdue.
    overdue: bool,
}

/// Passes over the windows of a task, if an interval is set.
#[derive(Clone, Copy, Debug)]
struct Passes {
    /// No pass before this wall time.
    not_before: i64,
    /// The stream time that this lane's records have reached.
    seen: i64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Closing {
    enabled: bool,
    clock: ClockId,
    /// From the start of a window (the end of a session) to its end, and from there to its closing.
    reach: i64,
    grace: i64,
    /// By task.
    passes: Vec<Passes>,
    waiting: Waiting,
    /// Waiting entries behind the mark of their task, because their key was in another task before the
    /// restart.
    overdue: BTreeSet<(i64, Bytes)>,
    /// Origin of the newest record; windows that close at a barrier get it.
    origin: Origin,
}

impl Closing {
    /// `waiting`: an empty index that knows how keys are read.
    pub fn new(
        enabled: bool,
        waiting: Waiting,
        clock: ClockId,
        (reach, grace): (i64, i64),
    ) -> Self {
        Self {
            enabled,
            clock,
            reach,
            grace,
            passes: Vec::new(),
            waiting,
            overdue: BTreeSet::new(),
            origin: Origin::default(),
        }
    }

    /// True if windows are emitted when they close (and only then).
    pub const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Windows that wait to be closed.
    pub const fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }

    /// Lowest time (start of a window, end of a session) that a task with this mark hasn't emitted yet.
    fn frontier(&self, mark: i64) -> i64 {
        if mark < 0 {
            return 0;
        }
        mark.saturating_sub(self.reach).saturating_add(1).max(0)
    }

    /// At a restart: the task that an entry waited in before, and the one that it waits in now; `None`
    /// if it doesn't wait.
    fn restored(
        &self,
        clocks: &LaneClocks,
        known: Option<Task>,
        (time, place): (i64, &[u8]),
    ) -> Option<(Task, Task)> {
        let key = self.waiting.key_in(place);
        let by_key = || clocks.task_before(self.clock, key);
        let waits = |task| time >= self.frontier(clocks.before_start(self.clock, task).mark);
        if clocks.task_not_by_key(self.clock) {
            // The key stays in its partition. If no row says which (there was only one task), the window
            // waits if no task can have emitted it.
            let of_none = || clocks.tasks_before(self.clock).all(waits);
            let task = known.or_else(|| of_none().then(by_key))?;
            return Some((task, task));
        }
        let before = known.unwrap_or_else(by_key);
        let now = known.unwrap_or_else(|| clocks.task(clocks.task_of(self.clock, key)));
        waits(before).then_some((before, now))
    }

    /// At a restart: adds an entry, if it is still to be emitted. `showed`: whether the store still
    /// showed it at the last commit, by the stream time of the given task.
    pub fn restore(
        &mut self,
        tasks: &Tasks,
        (time, place): (i64, Bytes),
        showed: impl FnOnce(&LaneClocks, Task) -> bool,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let clocks = &*context.clocks;
        let known = tasks.known((time, &place));
        let found = self.restored(clocks, known, (time, &place));
        let Some((_, now)) = found.filter(|(before, _)| showed(clocks, *before)) else {
            return Ok(());
        };
        if time < self.frontier(clocks.mark(self.clock, now)) {
            self.overdue.insert((time, place.clone()));
        }
        if known.is_none() {
            return self.waiting.insert(now, (time, place), context);
        }
        self.waiting.restore(now, (time, place));
        Ok(())
    }

    /// At the first barrier: passes over the overdue entries. After that commit they count as emitted.
    pub fn overdue(&mut self, clocks: &LaneClocks) -> Vec<Due> {
        if std::mem::take(&mut self.overdue).is_empty() {
            return Vec::new();
        }
        let due = |task| Due {
            task,
            until: clocks.mark(self.clock, task).saturating_sub(self.reach),
            trigger: Trigger {
                headers: None,
                origin: self.origin,
            },
            in_one: false,
            overdue: true,
        };
        clocks.tasks(self.clock).map(due).collect()
    }

    /// The time up to which windows are closed at this stream time.
    const fn closed_by(&self, stream: i64) -> i64 {
        stream.saturating_sub(self.grace)
    }

    /// Minimum wall time between two passes, if they are to be those of Kafka Streams. Not with several
    /// lanes if a key may be in another partition than murmur2 chooses for it: its windows are then in
    /// another lane than the rest of its task. They would be emitted by separate passes, although the
    /// mark is that of the whole task.
    fn interval(&self, context: &Context<'_>) -> Option<i64> {
        let (clocks, assignment) = (&context.clocks, context.assignment);
        let alone = assignment.lanes == 1;
        let is_whole = alone || assignment.has_whole_tasks() && !clocks.task_not_by_key(self.clock);
        clocks
            .emit_interval_ms
            .filter(|_| is_whole && clocks.moves_with_records())
    }

    fn passes(&mut self, task: Task) -> &mut Passes {
        if self.passes.len() <= task.index() {
            let none = Passes {
                not_before: i64::MIN,
                seen: -1,
            };
            self.passes.resize(task.index() + 1, none);
        }
        &mut self.passes[task.index()]
    }

    /// Before a record: returns a pass if records of other lanes have closed something meanwhile.
    /// `earliest`: the earliest possible time of windows that are not in the index yet.
    pub fn before(
        &mut self,
        context: &mut Context<'_>,
        earliest: i64,
        record: &Record,
    ) -> Option<Due> {
        if !self.enabled || !context.clocks.follows_others() || self.interval(context).is_some() {
            return None;
        }
        let stream = context.clocks.before(self.clock, record);
        self.due(
            context.clocks,
            (record.task(), stream),
            earliest,
            Trigger::default,
        )
    }

    /// After a record that has moved the clock to `stream`: returns a pass if one is due and finds
    /// something.
    pub fn after(
        &mut self,
        context: &mut Context<'_>,
        stream: i64,
        earliest: i64,
        record: &Record,
    ) -> Option<Due> {
        if !self.enabled {
            return None;
        }
        self.origin = record.origin;
        if !context.clocks.moves_with_records() {
            return None;
        }
        let interval = self.interval(context);
        if let Some(interval) = interval {
            let now = context.clocks.wall.0;
            let passes = self.passes(record.task());
            passes.seen = stream;
            if now < passes.not_before {
                return None;
            }
            passes.not_before = now.saturating_add(interval);
        }
        let trigger = || Trigger {
            headers: record.headers.clone(),
            origin: record.origin,
        };
        let due = self.due(context.clocks, (record.task(), stream), earliest, trigger);
        due.map(|due| Due {
            in_one: interval.is_some(),
            ..due
        })
    }

    fn due(
        &mut self,
        clocks: &mut LaneClocks,
        (task, stream): (Task, i64),
        earliest: i64,
        trigger: impl FnOnce() -> Trigger,
    ) -> Option<Due> {
        let close_time = self.closed_by(stream);
        let until = close_time.saturating_sub(self.reach);
        if clocks.mark(self.clock, task) >= close_time || until < 0 {
            return None;
        }
        clocks.set_mark(self.clock, task, close_time);
        let finds = earliest <= until || self.waiting.line(clocks.task(task)).is_due(until);
        finds.then(|| Due {
            task,
            until,
            trigger: trigger(),
            in_one: false,
            overdue: false,
        })
    }

    /// Passes for everything that is closed in all tasks: at the end of a tick, when records of other
    /// lanes have moved stream time, and at a barrier, with the clocks of all lanes merged. If an
    /// interval is set, without what this lane's own records have closed.
    pub fn everywhere(&mut self, context: &mut Context<'_>) -> Vec<Due> {
        let mut found = Vec::new();
        if !self.enabled {
            return found;
        }
        let has_interval = self.interval(context).is_some();
        for task in context.clocks.tasks(self.clock) {
            // Only the lane that has the task moves its mark.
            if has_interval && !context.assignment.owns_task(task) {
                continue;
            }
            let clocks = &mut *context.clocks;
            let stream = clocks.stream(self.clock, task);
            if has_interval && stream <= self.passes(task).seen {
                continue;
            }
            let until = self.closed_by(stream).saturating_sub(self.reach);
            if until < 0 {
                continue;
            }
            clocks.set_mark(self.clock, task, self.closed_by(stream));
            if self.waiting.line(clocks.task(task)).is_due(until) {
                let trigger = Trigger {
                    headers: None,
                    origin: self.origin,
                };
                found.push(Due {
                    task,
                    until,
                    trigger,
                    in_one: false,
                    overdue: false,
                });
            }
        }
        found
    }

    /// Trigger for the result of a window (a session) with this time: the record that closed it, in
    /// whichever lane it is.
    pub fn trigger(&self, clocks: &LaneClocks, due: &Due, time: i64) -> Trigger {
        match clocks.name_at(self.clock, due.task, self.closes(time)) {
            Some((origin, headers)) if !due.in_one => Trigger {
                headers: headers.clone(),
                origin: *origin,
            },
            _ => due.trigger.clone(),
        }
    }

    /// Emits the windows that are due and that the store still shows, by start, then by key. `newest`:
    /// start of the newest window that the store has at a stream time.
    pub fn emit_windows(
        &mut self,
        kept: &WindowedStore,
        due: &Due,
        (size, newest): (i64, impl Fn(i64) -> i64),
        observed: i64,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let task = context.clocks.task(due.task);
        while let Some((start, key)) = self.waiting.pop_due(task, due.until, context)? {
            // As in Kafka Streams, whose store still returns a window that starts at `observed -
            // retention` when it closes, but hides it from reads by key: a window without grace has that
            // age when the next window begins and closes it. The store may hide overdue windows, because
            // it uses the stream time of the key's current task.
            let is_overdue = due.overdue
                || !self.overdue.is_empty() && self.overdue.remove(&(start, key.clone()));
            let observed = if is_overdue || !context.clocks.moves_with_records() {
                // The watermark moves once per epoch, and may move by more than the retention.
                -1
            } else {
                let closes = self.closes(start);
                match context.clocks.first_at(self.clock, due.task, closes) {
                    Some(step) if !due.in_one => newest(step.time).saturating_sub(1),
                    _ => observed.saturating_sub(1),
                }
            };
            let store = &context.stores[usize::from(kept.store().0)].store;
            let view = WindowView::new(store, context.epoch, observed);
            let held = view.and_then(|view| view.fetch(&key, start));
            let Some(held) = held.map_err(|e| kept.name(e))? else {
                continue;
            };
            let Trigger { headers, origin } = self.trigger(context.clocks, due, start);
            out.push(Record {
                key: kept.windowed(key, start, start.saturating_add(size))?,
                value: kept.writer.update(true, Datum::Null, held.value),
                timestamp: held.timestamp,
                headers,
                origin,
            });
        }
        Ok(())
    }

    /// The stream time at which the window that starts (or the session that ends) at `time` is closed.
    const fn closes(&self, time: i64) -> i64 {
        time.saturating_add(self.reach).saturating_add(self.grace)
    }

    /// After a restart: loads the windows of this lane's keys that weren't emitted yet.
    pub fn load_windows(&mut self, kept: &WindowedStore, context: &mut Context<'_>) -> Result<()> {
        if !self.enabled {
            return Ok(());
        }
        let (epoch, assignment) = (context.epoch, context.assignment);
        let LaneStore { store, .. } = context.store(kept.store());
        let found = WindowView::new(store, epoch, -1)
            .and_then(|view| view.fetch_all(0, i64::MAX, false))
            .map_err(|e| kept.name(e))?;
        let tasks = Tasks::read(self.clock, context)?;
        for (key, start, _) in found {
            if !assignment.owns(self.waiting.affinity(&key)) {
                continue;
            }
            let showed = |clocks: &LaneClocks, task| kept.showed(clocks, task, start);
            self.restore(&tasks, (start, key), showed, context)?;
        }
        Ok(())
    }
}
