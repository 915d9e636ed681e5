//! `count`, `reduce`, `aggregate` in sliding windows.
//!
//! Windows are `difference` wide, both ends inclusive, and exist only where their content changes: for
//! each record at `t` one that ends at `t`, and one that starts at `t + 1` if it contains anything. They
//! are never recomputed from records: a new window starts as a copy of the aggregate of an existing one
//! with the same records (Kafka Streams' `KStreamSlidingWindowAggregate`, whose order of results is
//! kept).
//!
//! Takes records at their key's lane. Null keys and null values are dropped and don't move stream time.

mod record_update;
#[cfg(test)]
mod tests;

use crate::ops::windows::window::{Cell, Closing, Due, Folder, Row, Rows, WindowedStore};
use crate::support::dropped;
use crate::support::waiting::record_key_task;
use crate::{Context, LaneStore, Operator};
use record_update::RecordUpdate;
use std::iter::Peekable;
use stoatflow_core::{ClockId, Record, Result};
use stoatflow_state::WindowView;

/// See the module.
#[derive(Debug)]
pub(crate) struct SlidingAggregate {
    kept: WindowedStore,
    folder: Folder,
    difference: i64,
    grace_ms: i64,
    clock: ClockId,
    closing: Closing,
    rows: Rows,
    /// Records, and the time up to which windows are closed for them.
    batch: Vec<(Record, i64)>,
}

impl SlidingAggregate {
    pub fn new(
        kept: WindowedStore,
        folder: Folder,
        difference: i64,
        grace_ms: i64,
        clock: ClockId,
        on_close: bool,
    ) -> Self {
        let waiting = kept.waiting(clock, |key| key);
        Self {
            kept,
            folder,
            difference,
            grace_ms,
            clock,
            // A window includes records at its end, so it closes one millisecond later.
            closing: Closing::new(
                on_close,
                waiting,
                clock,
                (difference.saturating_add(1), grace_ms),
            ),
            rows: Rows::default(),
            batch: Vec::new(),
        }
    }

    /// Gathers records up to the one after which closed windows are to be emitted.
    fn gather(
        &mut self,
        input: &mut Peekable<impl Iterator<Item = Record>>,
        context: &mut Context<'_>,
    ) -> Result<Option<Due>> {
        let mut earliest = i64::MAX;
        while let Some(record) = input.peek() {
            let due = self.closing.before(context, earliest, record);
            if due.is_some() {
                return Ok(due);
            }
            let Some(record) = input.next() else { break };
            if !self.kept.writer.admits(&record, context) {
                continue;
            }
            let at = record.timestamp.0;
            let stream = context.clocks.observe(self.clock, &record);
            let close_time = stream.saturating_sub(self.grace_ms);
            // The last window that a record can be in starts just after it.
            let in_time = at.saturating_add(1).saturating_add(self.difference) > close_time;
            if in_time {
                earliest = earliest.min(self.before(at));
            }
            let due = self.closing.after(context, stream, earliest, &record);
            if in_time {
                let key = self.kept.writer.key(&record)?;
                record_key_task(context, self.kept.clock, record.task(), &key)?;
                self.rows.add(key, &record);
                self.batch.push((record, close_time));
            } else {
                let dropped = (self.kept.writer.node_context.node, dropped::LATE);
                context.effects.dropped.push(dropped);
            }
            if due.is_some() {
                return Ok(due);
            }
        }
        Ok(None)
    }

    /// Start of the earliest window that a record at `at` looks at.
    fn before(&self, at: i64) -> i64 {
        at.saturating_sub(self.difference.saturating_mul(2)).max(0)
    }

    /// Reads all windows that the batch can touch.
    fn load(&mut self, context: &mut Context<'_>) -> Result<()> {
        let epoch = context.epoch;
        let difference = self.difference;
        for row in self.rows.each() {
            let observed = context.clocks.stream(self.kept.clock, row.task);
            let LaneStore { store, .. } = context.store(self.kept.store());
            let view = WindowView::new(store, epoch, observed).map_err(|e| self.kept.name(e))?;
            let from = row.low.saturating_sub(difference.saturating_mul(2)).max(0);
            let to = row.high.saturating_add(1);
            let found = view
                .fetch_range(&row.key, from, to, false, usize::MAX)
                .map_err(|e| self.kept.name(e))?;
            let cells = found.into_iter();
            row.cells
                .extend(cells.map(|(start, held)| Cell::loaded((start, 0), held)));
        }
        Ok(())
    }

    fn compute(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let Self {
            kept,
            folder,
            closing,
            rows,
            batch,
            difference,
            ..
        } = self;
        let folder = &*folder;
        folder.scope(&mut || {
            for (at, (record, close_time)) in batch.drain(..).enumerate() {
                let mut update = RecordUpdate {
                    kept: &mut *kept,
                    folder,
                    closing: &mut *closing,
                    context: &mut *context,
                    difference: *difference,
                    close_time,
                    out: &mut *out,
                    record: &record,
                    lost: false,
                };
                update.take(rows.of(at))?;
            }
            Ok(())
        })
    }

    fn store(&mut self, context: &mut Context<'_>) -> Result<()> {
        let epoch = context.epoch;
        for Row {
            key, cells, task, ..
        } in self.rows.drain()
        {
            let observed = context.clocks.stream(self.kept.clock, task);
            let LaneStore { store, dirty } = context.store(self.kept.store());
            let view = WindowView::new(store, epoch, observed).map_err(|e| self.kept.name(e))?;
            for cell in cells.into_iter().filter(|cell| cell.changed) {
                // A copy of the view for each window: writing one far ahead must not hide the others.
                let mut view = view;
                view.put(dirty, &key, cell.at.0, cell.current)
                    .map_err(|e| self.kept.name(e))?;
            }
        }
        Ok(())
    }

    /// Emits the windows that are closed.
    fn close(&mut self, due: &Due, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let observed = context.clocks.stream(self.kept.clock, due.task);
        let size = self.difference;
        // The store has at least this window, of the newest record.
        let newest = move |time: i64| time.saturating_sub(size).max(0);
        self.closing
            .emit_windows(&self.kept, due, (size, newest), observed, out, context)
    }
}

impl Operator for SlidingAggregate {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut records = input.drain(..).peekable();
        loop {
            let due = self.gather(&mut records, context)?;
            if !self.batch.is_empty() {
                self.load(context)?;
                self.compute(out, context)?;
                self.store(context)?;
            }
            match due {
                Some(due) => self.close(&due, out, context)?,
                None => return Ok(()),
            }
        }
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        self.closing.load_windows(&self.kept, context)
    }

    fn end_tick(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let due = self.closing.everywhere(context);
        due.iter().try_for_each(|due| self.close(due, out, context))
    }

    fn advance(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.end_tick(out, context)
    }

    fn barrier(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let due = self.closing.overdue(context.clocks);
        due.iter()
            .try_for_each(|due| self.close(due, out, context))?;
        self.kept.writer.barrier(out);
        Ok(())
    }
}
