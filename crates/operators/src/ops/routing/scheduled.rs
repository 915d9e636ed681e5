//! `scheduled`: a source that ticks by the clock.
//!
//! Takes nothing; emits a record for each tick of its timetable. The key is the name of the source;
//! value and timestamp are the time of the tick. Ticks are made in `punctuate`: at an aligned cut, once
//! for all lanes, inside the epoch. The mark of its clock is the last tick that is done. It is committed
//! together with the results of the tick, so a crash neither loses nor repeats a tick. At the start the
//! timetable decides which ticks were missed and which of them are made up for. If the engine only
//! paused, every tick is made up for. While the limit of async calls is exceeded, nothing is read and no
//! ticks are made; they follow later, at a low rate at first. Never moves stream time: wall-clock ticks
//! say nothing about the time of events.

#[cfg(test)]
mod tests;

use crate::support::dropped;
use crate::{Context, NO_ORIGIN, Operator};
use stoatflow_core::{ClockId, Datum, Error, NodeId, Record, Result, Task, Timestamp};
use stoatflow_plan::{Timetable, TimetableSpec};

/// Maximum ticks per cut; the remaining ones follow at the next cut.
const MAX_TICKS_PER_CUT: usize = 10_000;
/// After a cut that had no room for async calls: time until the next attempt, if nothing else causes a
/// cut earlier.
const LATER_MS: i64 = 500;

/// See the module.
#[derive(Debug)]
pub(crate) struct Scheduled {
    node: NodeId,
    name: Datum,
    clock: ClockId,
    times: TimetableSpec,
    table: Timetable,
    /// When the operator was opened; `None` once the ticks missed before that have been handled.
    opened: Option<i64>,
    next: Option<i64>,
    /// When to try again, if there was no room for what ticks cause.
    held: Option<i64>,
    /// Maximum ticks of the next cut: 1 after a cut without room, then doubled with each cut.
    at_once: usize,
}

impl Scheduled {
    /// # Errors
    /// `Topology` if the timetable can't be read (the zone is gone from the machine since the check).
    pub fn new(node: NodeId, name: &str, clock: ClockId, times: TimetableSpec) -> Result<Self> {
        let table = Timetable::new(&times).map_err(Error::topology)?;
        Ok(Self {
            node,
            name: Datum::Str(name.into()),
            clock,
            times,
            table,
            opened: None,
            next: None,
            held: None,
            at_once: MAX_TICKS_PER_CUT,
        })
    }

    fn tick(&self, at: i64) -> Record {
        Record {
            key: self.name.clone(),
            value: Datum::Int(at),
            timestamp: Timestamp(at),
            headers: None,
            origin: NO_ORIGIN,
        }
    }

    /// Emits the missed ticks that the timetable asks for; returns the time up to which all ticks are
    /// done.
    fn make_up(
        &self,
        done: i64,
        opened: i64,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> i64 {
        let missed = self.table.missed(&self.times, done, opened);
        out.extend(missed.ticks.iter().map(|at| self.tick(*at)));
        if missed.left_out > 0 {
            let left_out = (self.node, dropped::MISSED_TICK, missed.left_out);
            context.effects.dropped_more.push(left_out);
        }
        opened
    }
}

impl Operator for Scheduled {
    fn process(
        &mut self,
        _input: &mut Vec<Record>,
        _out: &mut Vec<Record>,
        _context: &mut Context<'_>,
    ) -> Result<()> {
        Err(Error::internal(
            "a record came to a source that ticks by the clock",
        ))
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        let now = context.clocks.wall.0;
        let mark = context.clocks.mark(self.clock, Task(0));
        if mark >= 0 && context.run.is_restart() {
            // Restarted within the same process: no tick was missed.
            self.next = self.table.next(mark);
            return Ok(());
        }
        // Ticks count from now on. `opened` makes the first commit happen at once, so that this time is
        // stored.
        if mark < 0 {
            context.clocks.set_mark(self.clock, Task(0), now);
        }
        self.opened = Some(now);
        Ok(())
    }

    fn punctuate(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let now = context.clocks.wall.0;
        if context.run.has_too_many_calls() {
            // The results of ticks would be parked, more at every cut. The mark stays where it is.
            self.held = Some(now.saturating_add(LATER_MS));
            self.at_once = 1;
            context.run.set_behind(self.node, false);
            return Ok(());
        }
        self.held = None;
        let mut done = context.clocks.mark(self.clock, Task(0));
        if let Some(opened) = self.opened.take().filter(|opened| *opened > done) {
            done = self.make_up(done, opened, out, context);
        }
        self.next = self.table.next(done);
        for _ in 0..self.at_once {
            let Some(at) = self.next.filter(|at| *at <= now) else {
                break;
            };
            out.push(self.tick(at));
            done = at;
            self.next = self.table.next(done);
        }
        self.at_once = (2 * self.at_once).min(MAX_TICKS_PER_CUT);
        context.clocks.set_mark(self.clock, Task(0), done);
        let behind = self.next.is_some_and(|at| at <= now);
        context.run.set_behind(self.node, behind);
        Ok(())
    }

    fn next_punctuation(&self) -> Option<i64> {
        self.held.or(self.opened).or(self.next)
    }
}
