//! `close_when_idle`: time goes on while no record comes.
//!
//! Wraps an operator whose windows close by stream time. When it has seen no record for so long by the
//! wall clock, its stream time goes on as the wall clock does, until everything that was open at the
//! last record is closed. Owns the clock of what was seen: its mark is the wall time of the newest
//! record, its stream the wall time up to which stream time has gone on, so that all lanes agree. What a
//! restart takes is no idleness, but how far time had gone on before it stays known: both are moved.
//!
//! Where time is the watermark it goes on likewise, from the highest timestamp that the operator has seen:
//! what was open then is open whatever the watermark says.
//!
//! Time is moved in `punctuate`, once for all lanes, at an aligned cut. What closes by it is given at
//! once if the lane is alone, else in `advance`, as ever.

#[cfg(test)]
mod tests;

use crate::{Context, LaneClocks, Operator};
use stoatflow_core::{ClockId, Record, Result};
use stoatflow_plan::Idle;

/// See the module.
pub(crate) struct ClosesWhenIdle {
    inner: Box<dyn Operator>,
    /// The operator's stream time.
    time: ClockId,
    spec: Idle,
    /// The newest record by the wall clock, and the stream time that it left.
    newest: i64,
    base: i64,
    /// Stream time as it was left here: what is beyond it came with records.
    left: i64,
    next: Option<i64>,
}

impl ClosesWhenIdle {
    pub fn new(inner: Box<dyn Operator>, time: ClockId, spec: Idle) -> Self {
        Self {
            inner,
            time,
            spec,
            newest: -1,
            base: -1,
            left: -1,
            next: None,
        }
    }

    /// From where time goes on: what the newest record left.
    fn base(&self, clocks: &LaneClocks) -> i64 {
        match clocks.newest(self.time) {
            newest if clocks.by_watermark && newest >= 0 => newest,
            _ => self.base,
        }
    }

    /// Moves stream time if it is to be moved; says so.
    fn go_on(&mut self, clocks: &mut LaneClocks) -> bool {
        let Idle {
            after_ms,
            reach_ms,
            seen,
        } = self.spec;
        let (now, newest, stream) = (clocks.wall.0, clocks.mark(seen), clocks.stream(self.time));
        // A record may come in the same millisecond as one of the epoch before.
        if !clocks.by_watermark && (newest != self.newest || stream != self.left) {
            (self.newest, self.base, self.left) = (newest, stream, stream);
        }
        self.next = None;
        let base = self.base(clocks);
        let from = stream.max(base);
        let all_closed = base.saturating_add(reach_ms);
        if from < 0 || stream >= all_closed {
            return false;
        }
        let idle_from = newest.saturating_add(after_ms);
        let by = now.saturating_sub(clocks.stream(seen));
        let moved = now >= idle_from && by > 0;
        if moved {
            clocks.move_on(self.time, from.saturating_add(by).min(all_closed));
            clocks.move_on(seen, now);
            self.left = clocks.stream(self.time);
        }
        let left = all_closed.saturating_sub(clocks.stream(self.time));
        if left > 0 {
            let again = clocks.stream(seen).saturating_add(left.min(after_ms));
            self.next = Some(again.max(idle_from));
        }
        moved
    }
}

impl Operator for ClosesWhenIdle {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if !input.is_empty() {
            let now = context.clocks.wall.0;
            context.clocks.move_on(self.spec.seen, now);
            context.clocks.set_mark(self.spec.seen, now);
        }
        self.inner.process(input, out, context)
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        let Idle {
            after_ms,
            reach_ms,
            seen,
        } = self.spec;
        let clocks = &mut *context.clocks;
        let now = clocks.wall.0;
        // How far time has gone on since the newest record. Forgotten, each restart would let it go on by
        // as much again, and records would be late that are not.
        let gone = clocks.stream(seen).saturating_sub(clocks.mark(seen));
        let gone = gone.clamp(0, reach_ms);
        clocks.move_on(seen, now);
        clocks.set_mark(seen, now.saturating_sub(gone));
        self.left = clocks.stream(self.time);
        (self.newest, self.base) = (clocks.mark(seen), self.left.saturating_sub(gone));
        let base = self.base(clocks);
        let open = self.left.max(base) >= 0 && self.left < base.saturating_add(reach_ms);
        self.next = open.then(|| self.newest.saturating_add(after_ms));
        self.inner.open(context)
    }

    fn routes(&self) -> bool {
        self.inner.routes()
    }

    fn advance(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.inner.advance(out, context)
    }

    fn punctuate(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.inner.punctuate(out, context)?;
        if self.go_on(context.clocks) && context.clocks.is_eager() {
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
