//! `scheduled`: a source that ticks by the clock.
//!
//! Takes nothing; gives a record for each tick of its timetable, with the source's name as its key and the
//! time of the tick as its value and its time. Ticks are made in `punctuate`: at an aligned cut, once for
//! all lanes, inside the epoch. Owns the mark of its clock, the last tick that is done with: it is
//! committed with what the tick caused, so after a crash a tick is made again if and only if nothing of it
//! stayed. At the start the timetable says which ticks were missed, and what becomes of them. An engine
//! that stood still makes up for every tick. While more async calls are under way than may be, it makes
//! none, as nothing is read then: they come later, few at first. Never moves stream time: the clock on the
//! wall says nothing about how far the events have come.

#[cfg(test)]
mod tests;

use crate::support::dropped;
use crate::{Context, NO_ORIGIN, Operator};
use stoatflow_core::{ClockId, Datum, Error, NodeId, Record, Result, Task, Timestamp};
use stoatflow_plan::{Times, Timetable};

/// Most ticks of one cut; the others come with the next one.
const AT_ONCE: usize = 10_000;
/// So long after a cut without room for calls it asks for another one, if nothing else does.
const LATER_MS: i64 = 500;

/// See the module.
#[derive(Debug)]
pub(crate) struct Scheduled {
    node: NodeId,
    name: Datum,
    clock: ClockId,
    times: Times,
    table: Timetable,
    /// When it was opened, until what was missed before that has been seen to.
    opened: Option<i64>,
    next: Option<i64>,
    /// When it looks again whether there is room for what ticks cause, if there was none.
    held: Option<i64>,
    /// Most ticks of the next cut: one after there was no room, then twice as many with each cut.
    at_once: usize,
}

impl Scheduled {
    /// # Errors
    /// `Topology` if the timetable can't be read (the zone is gone from the machine since the check).
    pub fn new(node: NodeId, name: &str, clock: ClockId, times: Times) -> Result<Self> {
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
            at_once: AT_ONCE,
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

    /// Makes up for the time without the engine; gives up to when everything is done with.
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
        if mark >= 0 && context.run.goes_on() {
            // The process was there all the time: it has missed nothing.
            self.next = self.table.next(mark);
            return Ok(());
        }
        // From now on ticks count. The first commit keeps it: it is asked for at once.
        if mark < 0 {
            context.clocks.set_mark(self.clock, Task(0), now);
        }
        self.opened = Some(now);
        Ok(())
    }

    fn punctuate(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let now = context.clocks.wall.0;
        if context.run.is_crowded() {
            // What ticks cause would be parked, more with each cut. The mark stays where it is.
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
        self.at_once = (2 * self.at_once).min(AT_ONCE);
        context.clocks.set_mark(self.clock, Task(0), done);
        let behind = self.next.is_some_and(|at| at <= now);
        context.run.set_behind(self.node, behind);
        Ok(())
    }

    fn next_punctuation(&self) -> Option<i64> {
        self.held.or(self.opened).or(self.next)
    }
}
