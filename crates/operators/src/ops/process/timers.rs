//! Timers of a processor, in one lane: registering, cancelling, and the order in which they fire.
//!
//! Takes the timers that the cut has assigned to this lane, returns one after the other: by domain, time
//! and key. Owns the rules for changes while timers fire. A timer that is cancelled before its turn
//! doesn't fire. If the timer that fires registers a later one for the same key and domain that is due
//! already, that fires in the same pass, in its order; any other one that is already due waits for the
//! next cut. So a pass always ends, and fires the same timers for any number of lanes. Timers are rows
//! of a store: firing deletes the row in the same epoch, so that it takes effect once.

#[cfg(test)]
mod tests;
mod timer_queue;

pub(crate) use timer_queue::{Due, TimerClocks, TimerQueue};

use super::processor_env::{Connected, ProcessorEnv};
use crate::Context;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::iter::Peekable;
use std::sync::Arc;
use stoatflow_core::{Epoch, Error, Result, Task};
use stoatflow_plan::StoreKind;
use stoatflow_state::{TimerDomain, TimerView, split_timer, timer_key, timer_row};

/// See the module.
#[derive(Debug)]
pub(crate) struct LaneTimers {
    timer_queue: Arc<TimerQueue>,
    /// Indexes of the timer stores in the processor's list.
    timer_stores: Vec<usize>,
    /// Number of tasks, each with its own stream time.
    tasks: usize,
    due: Peekable<std::vec::IntoIter<Due>>,
    /// Registered during this pass, and fired in it.
    fresh: BTreeSet<Due>,
    /// Cancelled during this pass.
    cancelled: BTreeSet<Due>,
    /// The timer whose callback runs.
    firing: Option<Due>,
    /// The last epoch whose timers were fired here.
    done: Epoch,
    /// False if another node fires the timers: registrations leave the order of its pass alone.
    fires: bool,
}

impl LaneTimers {
    /// Opens the timers of a processor; `None` if it has no timer store.
    pub fn open(env: &ProcessorEnv, context: &mut Context<'_>) -> Result<Option<Self>> {
        let timed =
            |(at, store): (usize, &Connected)| (store.kind == StoreKind::Timers).then_some(at);
        let timer_stores: Vec<usize> = env.stores.iter().enumerate().filter_map(timed).collect();
        if timer_stores.is_empty() {
            return Ok(None);
        }
        let now = now(env, context);
        let timer_queue = context.run.timer_queue(env.node_context.node, || {
            TimerQueue::open(
                &views(env, &timer_stores, context)?,
                context.assignment.lanes,
                &now,
            )
        })?;
        Ok(Some(Self {
            timer_queue,
            timer_stores,
            tasks: now.event.len(),
            due: Vec::new().into_iter().peekable(),
            fresh: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            firing: None,
            done: Epoch(0),
            fires: true,
        }))
    }

    /// For a node that only registers timers which another node fires.
    pub fn of_another(self) -> Self {
        Self {
            fires: false,
            ..self
        }
    }

    /// Whether timers of this time were fired before, in this task.
    pub fn is_past(&self, store: usize, domain: TimerDomain, at: (Task, i64)) -> Result<bool> {
        Ok(self.timer_queue.is_past(self.place(store)?, domain, at))
    }

    fn place(&self, store: usize) -> Result<usize> {
        let place = self.timer_stores.iter().position(|at| *at == store);
        place.ok_or_else(|| Error::internal("a store that keeps no timers was asked for one"))
    }

    /// Whether the epoch's pass is running in this lane, or about to.
    fn is_passing(&self, epoch: Epoch) -> bool {
        self.fires && self.timer_queue.is_cut(epoch) && self.done != epoch
    }

    /// Registers a timer of the key with these bytes, which waits for the stream time of a task.
    pub fn register(
        &mut self,
        context: &mut Context<'_>,
        (store, connected): (usize, &Connected),
        (domain, at, key): (TimerDomain, i64, &[u8]),
        task: Task,
    ) -> Result<()> {
        let place = self.place(store)?;
        let row = timer_row(domain, at, key);
        let (epoch, wall) = (context.epoch, context.clocks.wall);
        let kept = context.store(connected.id);
        let said = Some(task).filter(|_| self.tasks > 1);
        TimerView::new(&kept.store, epoch)?.put(&mut kept.dirty, &row, said, wall)?;
        let due = Due { row, place, task };
        self.cancelled.remove(&due);
        if !self.timer_queue.is_past(place, domain, (task, at)) {
            self.timer_queue.expect(place, domain, (task, at));
            return Ok(());
        }
        let cut = self.timer_queue.is_cut(epoch);
        match &self.firing {
            Some(now) if follows(now, &due) => {
                self.fresh.insert(due);
            }
            // A timer that registers itself again doesn't fire over and over while nothing else happens.
            Some(now) => self.timer_queue.postpone(due.clone(), *now != due),
            None if self.is_passing(epoch)
                && context.assignment.owns(connected.key.affinity(key)) =>
            {
                self.fresh.insert(due);
            }
            // Before the cut, which the records of this epoch cause anyway.
            None => self.timer_queue.postpone(due, cut),
        }
        Ok(())
    }

    /// Cancels a timer, if it exists.
    pub fn cancel(
        &mut self,
        context: &mut Context<'_>,
        (store, connected): (usize, &Connected),
        (domain, at, key): (TimerDomain, i64, &[u8]),
    ) -> Result<()> {
        let place = self.place(store)?;
        let row = timer_row(domain, at, key);
        let (epoch, wall) = (context.epoch, context.clocks.wall);
        let kept = context.store(connected.id);
        TimerView::new(&kept.store, epoch)?.remove(&mut kept.dirty, &row, wall)?;
        if self.is_passing(epoch) {
            let task = Task(0);
            let due = Due { row, place, task };
            self.fresh.remove(&due);
            self.cancelled.insert(due);
        }
        Ok(())
    }

    /// In the lane that punctuates, while all lanes stand still: finds the due timers of all lanes.
    pub fn cut(&self, env: &ProcessorEnv, context: &mut Context<'_>) -> Result<()> {
        let (epoch, assignment, now) = (context.epoch, context.assignment, now(env, context));
        let views = views(env, &self.timer_stores, context)?;
        let clock = env.time.unwrap_or(env.clock);
        let task_of = |place: usize, row: &Bytes| {
            let key = timer_key(row);
            let own = env.stores[self.timer_stores[place]].key.affinity(&key);
            context.clocks.task_of(clock, own)
        };
        self.timer_queue.cut(epoch, &now, &views, task_of, |due| {
            let key = timer_key(&due.row);
            let own = env.stores[self.timer_stores[due.place]].key.affinity(&key);
            assignment.lane_of(own) as usize
        })
    }

    /// Begins the epoch's pass; false if there is nothing to fire.
    pub fn begin(&mut self, context: &Context<'_>) -> bool {
        if !self.is_passing(context.epoch) {
            return false;
        }
        let handed = self.timer_queue.take(context.assignment.lane);
        self.due = handed.into_iter().peekable();
        let any = self.due.peek().is_some() || !self.fresh.is_empty();
        if !any {
            self.end(context.epoch);
        }
        any
    }

    /// The next timer to fire.
    pub fn next(&mut self) -> Option<Due> {
        loop {
            let next = match (self.due.peek(), self.fresh.first()) {
                (None, None) => return None,
                (Some(due), Some(fresh)) if due == fresh => {
                    self.fresh.pop_first();
                    self.due.next()
                }
                (Some(due), Some(fresh)) if due < fresh => self.due.next(),
                (Some(_), None) => self.due.next(),
                (_, Some(_)) => self.fresh.pop_first(),
            }?;
            if !self.cancelled.remove(&next) {
                self.firing = Some(next.clone());
                return Some(next);
            }
        }
    }

    /// The index of a timer's store in the processor's list.
    pub fn store(&self, due: &Due) -> usize {
        self.timer_stores[due.place]
    }

    /// Ends the epoch's pass.
    pub fn end(&mut self, epoch: Epoch) {
        self.due = Vec::new().into_iter().peekable();
        self.fresh.clear();
        self.cancelled.clear();
        self.firing = None;
        self.done = epoch;
    }
}

/// Whether the second timer fires in the same pass as the first.
fn follows(now: &Due, due: &Due) -> bool {
    match (split_timer(&now.row), split_timer(&due.row)) {
        (Some(now), Some(due)) => (now.domain, now.key) == (due.domain, due.key) && now.at < due.at,
        _ => false,
    }
}

fn now(env: &ProcessorEnv, context: &Context<'_>) -> TimerClocks {
    let clocks = &context.clocks;
    let event = match env.time.filter(|clock| clocks.has_tasks(*clock)) {
        Some(clock) => {
            let tasks = (0..clocks.task_count(clock)).map(Task);
            tasks.map(|task| clocks.stream(clock, task)).collect()
        }
        None => vec![clocks.task_time(env.clock, env.time, Task(0))],
    };
    // Before the first record there is no time, and nothing is due.
    let begun = |time: i64| if time < 0 { i64::MIN } else { time };
    TimerClocks {
        event: event.into_iter().map(begun).collect(),
        wall: [clocks.wall.0],
    }
}

fn views<'v>(
    env: &ProcessorEnv,
    timer_stores: &[usize],
    context: &'v Context<'_>,
) -> Result<Vec<TimerView<'v>>> {
    let view = |at: &usize| {
        let id = env.stores[*at].id;
        TimerView::new(&context.stores[usize::from(id.0)].store, context.epoch)
    };
    timer_stores.iter().map(view).collect()
}
