//! `on_window_close`: when closed windows are given, and which.
//!
//! Takes the times of records, says when a pass over the closed windows is due. Owns the index of
//! what waits to be closed. Up to where windows were given is the mark of the operator's clock: it
//! is kept with the commit, so that a restart gives nothing twice. Which task a key was in then
//! says what of it was given; if that is another one now (there are more partitions), and has
//! closed it, it comes out in the first epoch.
//!
//! Windows come out at the record that closes them; those that records of other lanes have closed
//! before the next record of their task, and at the end of the tick, each in the name of the record
//! that closed it. If an interval is given and a lane has all keys of its tasks, the passes are
//! those of Kafka Streams: one per record that moves the time, but not more than one per interval
//! of wall time; looking counts, whether anything closed since or not.

use crate::ops::windows::window::Kept;
use crate::support::waiting::{Tasks, Waiting};
use crate::{Context, LaneClocks, LaneStore};
use bytes::Bytes;
use std::collections::BTreeSet;
use stoatflow_core::{ClockId, Datum, Headers, Origin, Record, Result, Task};
use stoatflow_state::WindowView;

/// In the name of which record something comes out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trigger {
    pub headers: Headers,
    pub origin: Origin,
}

/// A pass that is to be made over what is closed in a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Due {
    pub task: Task,
    /// Times up to here (start of a window, end of a session).
    pub until: i64,
    /// The record that moved the time.
    pub trigger: Trigger,
    /// Does all of it come out in the name of that record, whichever closed it?
    in_one: bool,
    /// Is all of it overdue?
    overdue: bool,
}

/// Passes over the windows of a task, where an interval is given.
#[derive(Clone, Copy, Debug)]
struct Passes {
    /// No pass before this wall time.
    not_before: i64,
    /// Up to which stream time this lane's records have come.
    seen: i64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Closing {
    enabled: bool,
    clock: ClockId,
    /// From the start of a window (the end of a session) to its end, and from there to when it is closed.
    reach: i64,
    grace: i64,
    /// By task.
    passes: Vec<Passes>,
    waiting: Waiting,
    /// What waits and is behind the mark of its task, because its key was in another one before the restart.
    overdue: BTreeSet<(i64, Bytes)>,
    /// The newest record: what closes with a barrier comes in its name.
    origin: Origin,
}

impl Closing {
    /// `waiting`: none yet, and how its keys are read.
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

    /// Are windows given when they close (and only then)?
    pub const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// What waits to be closed.
    pub const fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }

    /// The first time that wasn't given yet in a task with this mark.
    fn frontier(&self, mark: i64) -> i64 {
        if mark < 0 {
            return 0;
        }
        mark.saturating_sub(self.reach).saturating_add(1).max(0)
    }

    /// At a restart: the task that what has this time waited in, and the one that it waits in now,
    /// if it does.
    fn restored(
        &self,
        clocks: &LaneClocks,
        known: Option<Task>,
        (time, place): (i64, &[u8]),
    ) -> Option<(Task, Task)> {
        let key = self.waiting.key_in(place);
        let by_key = || clocks.task_before(self.clock, key);
        let waits = |task| time >= self.frontier(clocks.before_start(self.clock, task).mark);
        if clocks.is_apart(self.clock) {
            // It stays in its partition. Without a row (there was one task only) it waits if no task can have
            // given it.
            let of_none = || clocks.tasks_before(self.clock).all(waits);
            let task = known.or_else(|| of_none().then(by_key))?;
            return Some((task, task));
        }
        let before = known.unwrap_or_else(by_key);
        let now = known.unwrap_or_else(|| clocks.task(clocks.task_of(self.clock, key)));
        waits(before).then_some((before, now))
    }

    /// At a restart: adds what has this time, if it waits to be given. `showed`: did the store show it at the
    /// last commit, by the time of this task?
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

    /// At the first barrier: passes over what is overdue. From that commit on it counts as given.
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

    /// Up to which time windows are closed when the clock shows this.
    const fn closed_by(&self, stream: i64) -> i64 {
        stream.saturating_sub(self.grace)
    }

    /// The least wall time between two passes, if they are to be those of Kafka Streams. Not with
    /// several lanes where a key may be in another partition than murmur2 chooses for it: its
    /// windows are in another lane than the rest of its task, and would be given by passes of their
    /// own, up to a mark that is the task's.
    fn interval(&self, context: &Context<'_>) -> Option<i64> {
        let (clocks, share) = (&context.clocks, context.share);
        let alone = share.lanes == 1;
        let is_whole = alone || share.has_whole_tasks() && !clocks.is_apart(self.clock);
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

    /// Before a record: have records of other lanes closed something meanwhile? `earliest` is the earliest
    /// time that windows can have which are not in the index yet.
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

    /// After a record, which has moved the clock to `stream`: is a pass due that finds something?
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

    /// What all tasks have closed by now: at the end of a tick, when records of other lanes have
    /// moved the time, and at a barrier, with the clocks of all lanes merged. If an interval is
    /// given, not what records of this lane have closed.
    pub fn everywhere(&mut self, context: &mut Context<'_>) -> Vec<Due> {
        let mut found = Vec::new();
        if !self.enabled {
            return found;
        }
        let has_interval = self.interval(context).is_some();
        for task in context.clocks.tasks(self.clock) {
            // The mark is that of the lane that has the task.
            if has_interval && !context.share.owns_task(task) {
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

    /// In the name of which record a window (a session) comes out that has this time: the one that closed
    /// it, in whichever lane that is.
    pub fn trigger(&self, clocks: &LaneClocks, due: &Due, time: i64) -> Trigger {
        match clocks.name_at(self.clock, due.task, self.closes(time)) {
            Some((origin, headers)) if !due.in_one => Trigger {
                headers: headers.clone(),
                origin: *origin,
            },
            _ => due.trigger.clone(),
        }
    }

    /// Gives the windows that are due and that the store still shows, by start, then by key. `newest`: the
    /// start of the newest window that the store has at a time.
    pub fn give_windows(
        &mut self,
        kept: &Kept,
        due: &Due,
        (size, newest): (i64, impl Fn(i64) -> i64),
        observed: i64,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let task = context.clocks.task(due.task);
        while let Some((start, key)) = self.waiting.pop_due(task, due.until, context)? {
            // As in Kafka Streams, whose store gives what starts at `observed - retention` when it closes,
            // though it hides it from who reads a key: a window without a grace is that old when the next
            // one begins, and closes it.
            // The store may hide what is overdue: it goes by the time of the key's task now.
            let is_overdue = due.overdue
                || !self.overdue.is_empty() && self.overdue.remove(&(start, key.clone()));
            let observed = if is_overdue || !context.clocks.moves_with_records() {
                // The watermark moves by a whole epoch at a time, which may be longer than a window is kept.
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

    /// When what has this time (start of a window, end of a session) is closed.
    const fn closes(&self, time: i64) -> i64 {
        time.saturating_add(self.reach).saturating_add(self.grace)
    }

    /// After a restart: what this lane's keys have in the store and wasn't given yet.
    pub fn load_windows(&mut self, kept: &Kept, context: &mut Context<'_>) -> Result<()> {
        if !self.enabled {
            return Ok(());
        }
        let (epoch, share) = (context.epoch, context.share);
        let LaneStore { store, .. } = context.store(kept.store());
        let found = WindowView::new(store, epoch, -1)
            .and_then(|view| view.fetch_all(0, i64::MAX, false))
            .map_err(|e| kept.name(e))?;
        let tasks = Tasks::read(self.clock, context)?;
        for (key, start, _) in found {
            if !share.owns(self.waiting.affinity(&key)) {
                continue;
            }
            let showed = |clocks: &LaneClocks, task| kept.showed(clocks, task, start);
            self.restore(&tasks, (start, key), showed, context)?;
        }
        Ok(())
    }
}
