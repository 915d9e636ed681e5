//! `close_when_idle`: stream time follows the wall clock while no records arrive.
//!
//! Wraps an operator whose windows close by stream time. If a task has had no record for a given wall
//! time, its stream time follows the wall clock until everything that was open at its last record is
//! closed. Owns the `seen` clock: its mark is the wall time of the newest record, its stream time is the
//! wall time up to which stream time was advanced. Clocks are shared, so all lanes agree. The time that
//! a restart takes doesn't count as idle: both values are moved to the start, but their difference (how
//! far stream time had been advanced) is kept.
//!
//! With watermarks, time advances the same way, from the highest timestamp that the operator has seen:
//! what was open then is still open, whatever the watermark.
//!
//! Time is advanced in `punctuate`, once for all lanes, at an aligned cut. Windows that it closes are
//! emitted at once if the lane is alone, else in `advance`, as usual.

#[cfg(test)]
mod tests;
mod too_late;

pub(crate) use too_late::TooLate;

use crate::{Context, LaneClocks, Operator};
use stoatflow_core::{ClockId, Record, Result, Task};
use stoatflow_plan::Idle;

/// State of a task.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Wall time of the newest record, and the stream time after it.
    newest: i64,
    base: i64,
    /// Stream time as last set here; if it is higher now, records have moved it.
    left: i64,
}

impl Seen {
    const NOTHING: Self = Self {
        newest: -1,
        base: -1,
        left: -1,
    };

    /// Where time continues from: the stream time after the newest record.
    fn base(&self, time: ClockId, clocks: &LaneClocks) -> i64 {
        match clocks.newest(time) {
            newest if clocks.by_watermark && newest >= 0 => newest,
            _ => self.base,
        }
    }
}

/// See the module.
pub(crate) struct ClosesWhenIdle {
    inner: Box<dyn Operator>,
    /// The operator's stream time.
    time: ClockId,
    spec: Idle,
    /// By task.
    seen: Vec<Seen>,
    next: Option<i64>,
    too_late: Option<TooLate>,
}

impl ClosesWhenIdle {
    pub fn new(
        inner: Box<dyn Operator>,
        time: ClockId,
        spec: Idle,
        too_late: Option<TooLate>,
    ) -> Self {
        Self {
            too_late,
            inner,
            time,
            spec,
            seen: Vec::new(),
            next: None,
        }
    }

    fn of(&mut self, task: Task) -> &mut Seen {
        if self.seen.len() <= task.index() {
            self.seen.resize(task.index() + 1, Seen::NOTHING);
        }
        &mut self.seen[task.index()]
    }

    /// Advances stream time in the tasks that are idle; returns whether it moved.
    fn go_on(&mut self, clocks: &mut LaneClocks) -> bool {
        self.next = None;
        let mut moved = false;
        for task in clocks.tasks(self.time).collect::<Vec<_>>() {
            moved |= self.go_on_in(task, clocks);
        }
        moved
    }

    fn go_on_in(&mut self, task: Task, clocks: &mut LaneClocks) -> bool {
        let Idle {
            after_ms,
            reach_ms,
            seen,
        } = self.spec;
        let time = self.time;
        let now = clocks.wall.0;
        let (newest, stream) = (clocks.mark(seen, task), clocks.stream(time, task));
        let own = self.of(task);
        // Compares stream time too: two records of different epochs may have the same wall time.
        if !clocks.by_watermark && (newest != own.newest || stream != own.left) {
            (own.newest, own.base, own.left) = (newest, stream, stream);
        }
        let base = own.base(time, clocks);
        let from = stream.max(base);
        let all_closed = base.saturating_add(reach_ms);
        if from < 0 || stream >= all_closed {
            return false;
        }
        let idle_from = newest.saturating_add(after_ms);
        let by = now.saturating_sub(clocks.stream(seen, task));
        let moved = now >= idle_from && by > 0;
        if moved {
            clocks.raise_to(time, task, from.saturating_add(by).min(all_closed));
            clocks.raise_to(seen, task, now);
            own.left = clocks.stream(time, task);
        }
        let left = all_closed.saturating_sub(clocks.stream(time, task));
        if left > 0 {
            let again = clocks.stream(seen, task).saturating_add(left.min(after_ms));
            let again = again.max(idle_from);
            self.next = Some(self.next.map_or(again, |next| next.min(again)));
        }
        moved
    }

    /// Restores how far time had advanced since the newest record. Otherwise each restart would advance
    /// it by the same amount again, and records would wrongly be late.
    fn open_in(&mut self, task: Task, clocks: &mut LaneClocks) {
        let Idle {
            after_ms,
            reach_ms,
            seen,
        } = self.spec;
        let (time, now) = (self.time, clocks.wall.0);
        let gone = (clocks.stream(seen, task)).saturating_sub(clocks.mark(seen, task));
        let gone = gone.clamp(0, reach_ms);
        clocks.raise_to(seen, task, now);
        clocks.set_mark(seen, task, now.saturating_sub(gone));
        let own = self.of(task);
        own.left = clocks.stream(time, task);
        (own.newest, own.base) = (clocks.mark(seen, task), own.left.saturating_sub(gone));
        let base = own.base(time, clocks);
        if own.left.max(base) >= 0 && own.left < base.saturating_add(reach_ms) {
            let next = own.newest.saturating_add(after_ms);
            self.next = Some(self.next.map_or(next, |before| before.min(next)));
        }
    }
}

impl Operator for ClosesWhenIdle {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let now = context.clocks.wall.0;
        let mut last = None;
        for record in input.iter() {
            let task = context.clocks.task(record.task());
            if last.replace(task) != Some(task) {
                context.clocks.raise_to(self.spec.seen, task, now);
                context.clocks.set_mark(self.spec.seen, task, now);
            }
        }
        match &self.too_late {
            Some(too_late) => too_late.process(&mut *self.inner, self.time, input, out, context),
            None => self.inner.process(input, out, context),
        }
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        let tasks = context.clocks.tasks(self.time).collect::<Vec<_>>();
        for task in tasks {
            self.open_in(task, context.clocks);
        }
        self.inner.open(context)
    }

    fn routes(&self) -> bool {
        self.inner.routes()
    }

    fn end_tick(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.inner.end_tick(out, context)
    }

    fn advance(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.inner.advance(out, context)
    }

    fn punctuate(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.inner.punctuate(out, context)?;
        let alone = context.clocks.is_alone() && context.clocks.moves_with_records();
        if self.go_on(context.clocks) && alone {
            return self.inner.advance(out, context);
        }
        Ok(())
    }

    fn next_punctuation(&self) -> Option<i64> {
        let own = self.next.into_iter();
        own.chain(self.inner.next_punctuation()).min()
    }

    fn close(&mut self) {
        self.inner.close();
    }

    fn barrier(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.inner.barrier(out, context)
    }
}
