//! `count`, `reduce`, `aggregate` in sessions: records of a key that are at most a gap apart.
//!
//! Takes records at their key's lane. A record is merged with every session that it touches into one;
//! the merged sessions are deleted first, with a tombstone each. The merger is called with the initial
//! value first, then with each session by its end; the new value is added last. Results have the
//! session's end as their timestamp, and headers (those of the record) only where a cache holds them
//! until the barrier.
//!
//! Null keys are dropped and don't move stream time; null values are aggregated. Lateness is decided
//! after merging: a late record merged with a session that is still kept may be in time. No function is
//! called for a record that is too late.

#[cfg(test)]
mod tests;

use crate::ops::windows::window::{
    Cell, Closing, Due, Folder, Outcome, Row, Rows, Trigger, WindowedStore, session_key_in,
    session_place, split_session_place,
};
use crate::support::dropped;
use crate::support::waiting::{Tasks, record_key_task};
use crate::{Context, LaneStore, Operator};
use bytes::Bytes;
use stoatflow_core::{ClockId, Datum, Record, Result, Timestamp};
use stoatflow_state::{SessionView, Stored, session_changelog_key, session_key};

/// See the module.
#[derive(Debug)]
pub(crate) struct SessionAggregate {
    kept: WindowedStore,
    folder: Folder,
    gap_ms: i64,
    /// Gap and grace: how long after its end a session may still grow.
    open_ms: i64,
    segment_ms: i64,
    clock: ClockId,
    closing: Closing,
    rows: Rows,
    /// Per record: its index in the batch, the time up to which sessions are closed, the stream time
    /// before it.
    batch: Vec<(usize, i64, i64)>,
    touched: Vec<(i64, i64)>,
}

impl SessionAggregate {
    pub fn new(
        kept: WindowedStore,
        folder: Folder,
        gap_ms: i64,
        grace_ms: i64,
        clock: ClockId,
        on_close: bool,
    ) -> Self {
        let segment_ms = match stoatflow_state::Layout::session(kept.retention_ms) {
            stoatflow_state::Layout::Session { segment_ms, .. } => segment_ms,
            _ => kept.retention_ms,
        };
        let waiting = kept.waiting(clock, session_key_in);
        Self {
            kept,
            folder,
            gap_ms,
            open_ms: gap_ms.saturating_add(grace_ms),
            segment_ms,
            clock,
            closing: Closing::new(
                on_close,
                waiting,
                clock,
                (1, gap_ms.saturating_add(grace_ms)),
            ),
            rows: Rows::default(),
            batch: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Gathers records from `next` on, up to the first that closes sessions.
    fn gather(
        &mut self,
        records: &[Record],
        next: &mut usize,
        context: &mut Context<'_>,
    ) -> Result<Option<Due>> {
        let mut earliest = i64::MAX;
        while let Some(record) = records.get(*next) {
            let due = self.closing.before(context, earliest, record);
            if due.is_some() {
                return Ok(due);
            }
            let place = *next;
            *next += 1;
            if record.key.is_null() {
                let dropped = (self.kept.writer.node_context.node, dropped::NULL_KEY);
                context.effects.dropped.push(dropped);
                continue;
            }
            let at = record.timestamp.0;
            let before = context.clocks.before(self.clock, record);
            let stream = context.clocks.observe(self.clock, record);
            let close_time = stream.saturating_sub(self.open_ms);
            earliest = earliest.min(at);
            let due = self.closing.after(context, stream, earliest, record);
            let key = self.kept.writer.key(record)?;
            record_key_task(context, self.kept.clock, record.task(), &key)?;
            self.rows.add(key, record);
            self.batch.push((place, close_time, before));
            if due.is_some() {
                return Ok(due);
            }
        }
        Ok(None)
    }

    /// Reads all sessions that the batch can touch.
    fn load(&mut self, context: &mut Context<'_>) -> Result<()> {
        let epoch = context.epoch;
        let gap = self.gap_ms;
        for row in self.rows.each() {
            let observed = context.clocks.stream(self.kept.clock, row.task);
            let LaneStore { store, .. } = context.store(self.kept.store());
            let view = SessionView::new(store, epoch, observed).map_err(|e| self.kept.name(e))?;
            let (from, to) = (row.low.saturating_sub(gap), row.high.saturating_add(gap));
            let found = view
                .find_sessions(&row.key, from, to, false)
                .map_err(|e| self.kept.name(e))?;
            let cells = found.into_iter();
            row.cells
                .extend(cells.map(|s| Cell::loaded((s.end, s.start), s.value)));
        }
        Ok(())
    }

    fn compute(
        &mut self,
        records: &[Record],
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let Self {
            kept,
            folder,
            closing,
            rows,
            batch,
            touched,
            gap_ms,
            ..
        } = self;
        let folder = &*folder;
        let node = kept.writer.node_context.node;
        folder.scope(&mut || {
            for (at, (place, close_time, before)) in batch.drain(..).enumerate() {
                let record = &records[place];
                // The newest record always ends a session, in whichever lane it is.
                context.clocks.see(kept.clock, record.task(), before);
                let mut update = RecordUpdate {
                    kept: &mut *kept,
                    folder,
                    closing: &mut *closing,
                    context: &mut *context,
                    touched: &mut *touched,
                    gap_ms: *gap_ms,
                    close_time,
                    out: &mut *out,
                    record,
                };
                if !update.take(rows.of(at))? {
                    context.effects.dropped.push((node, dropped::LATE));
                }
            }
            Ok(())
        })
    }

    fn store(&mut self, context: &mut Context<'_>) -> Result<()> {
        let epoch = context.epoch;
        let segment_ms = self.segment_ms;
        let LaneStore { store, dirty } = context.store(self.kept.store());
        for Row { key, cells, .. } in self.rows.drain() {
            for cell in cells.into_iter().filter(|cell| cell.changed) {
                // Also sessions hidden by retention: they may still have to be emitted when they close.
                let internal = session_key(segment_ms, &key, cell.at.1, cell.at.0);
                store
                    .put(epoch, dirty, &internal, cell.current)
                    .map_err(|e| self.kept.name(e))?;
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        records: &[Record],
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut next = 0;
        loop {
            let due = self.gather(records, &mut next, context)?;
            if !self.batch.is_empty() {
                self.load(context)?;
                self.compute(records, out, context)?;
                self.store(context)?;
            }
            match due {
                Some(due) => self.close(&due, out, context)?,
                None => return Ok(()),
            }
        }
    }

    /// Emits the sessions that are closed, by end, start and key.
    fn close(&mut self, due: &Due, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let epoch = context.epoch;
        loop {
            let task = context.clocks.task(due.task);
            let next = self.closing.waiting().pop_due(task, due.until, context)?;
            let Some((end, place)) = next else {
                return Ok(());
            };
            let Some((start, key)) = split_session_place(&place) else {
                continue;
            };
            let internal = session_key(self.segment_ms, &key, start, end);
            let store = &context.store(self.kept.store()).store;
            let held = store.get(epoch, &internal).map_err(|e| self.kept.name(e))?;
            let Some(held) = held else {
                continue;
            };
            let Trigger { headers, origin } = self.closing.trigger(context.clocks, due, end);
            out.push(Record {
                key: self.kept.windowed(key, start, end)?,
                value: self.kept.writer.update(true, Datum::Null, held.value),
                timestamp: Timestamp(end),
                headers,
                origin,
            });
        }
    }
}

/// One record among the sessions of its key.
struct RecordUpdate<'a, 'c> {
    kept: &'a mut WindowedStore,
    folder: &'a Folder,
    closing: &'a mut Closing,
    context: &'a mut Context<'c>,
    touched: &'a mut Vec<(i64, i64)>,
    gap_ms: i64,
    close_time: i64,
    out: &'a mut Vec<Record>,
    record: &'a Record,
}

impl RecordUpdate<'_, '_> {
    /// Returns `false` if the record is too late.
    fn take(&mut self, row: &mut Row) -> Result<bool> {
        let at = self.record.timestamp.0;
        let (mut start, mut end) = (at, at);
        let latest_start = at.saturating_add(self.gap_ms);
        self.touched.clear();
        for cell in row.from((at.saturating_sub(self.gap_ms), i64::MIN)) {
            let task = self.record.task();
            let shown = self.kept.shows(self.context.clocks, task, cell.at.0);
            if shown && cell.at.1 <= latest_start && cell.held().is_some() {
                self.touched.push(cell.at);
                (start, end) = (start.min(cell.at.1), end.max(cell.at.0));
            }
        }
        if end < self.close_time {
            return Ok(false);
        }
        // A session is deleted first even if its bounds stay the same, except one of a single instant.
        let deletes = (start, end) != (at, at);
        let Some((new, befores)) = self.fold(row, deletes)? else {
            return Ok(true);
        };
        for (nth, before) in befores.into_iter().enumerate() {
            self.remove(row, self.touched[nth], before)?;
        }
        self.put(row, (end, start), Datum::Null, new)?;
        Ok(true)
    }

    /// The value of the record merged with the sessions that it touches, and the old values of those
    /// that are to be deleted. `None`: the record was left out, and nothing has changed.
    fn fold(&mut self, row: &mut Row, deletes: bool) -> Result<Option<(Datum, Vec<Datum>)>> {
        let mut found = Vec::with_capacity(self.touched.len());
        for at in self.touched.iter() {
            let cell = row.cell(*at);
            self.kept.freeze(cell.passed_on.take(), self.out)?;
            found.extend(cell.held().map(|held| held.value.clone()));
        }
        let (kept, folder, record) = (&*self.kept, self.folder, self.record);
        let lenient = kept.writer.node_context.is_lenient();
        let whole = |_: &mut Context<'_>| {
            let mut so_far = folder.start(record)?;
            let mut befores = Vec::with_capacity(found.len());
            for value in &found {
                if deletes {
                    befores.push(kept.before(value, record)?);
                }
                let value = if lenient {
                    kept.writer.mutable_copy(value, record)?
                } else {
                    value.clone()
                };
                so_far = folder.merge(so_far, value, record)?;
            }
            let new = folder.add(so_far, record)?;
            kept.writer.check(&new)?;
            Ok((new, befores))
        };
        kept.writer
            .node_context
            .attempt(record, self.context, whole)
    }

    fn remove(&mut self, row: &mut Row, at: (i64, i64), before: Datum) -> Result<()> {
        self.put(row, at, before, Datum::Null)?;
        // A session created in this batch isn't in the store, unless the store has one that retention
        // hides.
        if (self.kept).shows(self.context.clocks, self.record.task(), at.0) {
            row.forget_new(at);
        }
        Ok(())
    }

    fn put(&mut self, row: &mut Row, at: (i64, i64), before: Datum, new: Datum) -> Result<()> {
        let (end, start) = at;
        let timestamp = Timestamp(end);
        // Deleting moves the store's clock too.
        let task = self.record.task();
        self.context.clocks.see(self.kept.clock, task, end);
        let cell = row.cell(at);
        let existed = cell.held().is_some();
        cell.put(Stored {
            value: new.clone(),
            timestamp,
        });
        if self.closing.is_enabled() {
            let place = session_place(&row.key, start);
            let task = self.context.clocks.task(task);
            let waiting = self.closing.waiting();
            return if new.is_null() {
                waiting.remove(task, (end, &place), self.context)
            } else {
                waiting.insert(task, (end, place), self.context)
            };
        }
        let (place, headers) = if self.kept.writer.is_cached() {
            let place = session_changelog_key(&row.key, start, end);
            (place, self.record.headers.clone())
        } else {
            (Bytes::new(), None)
        };
        let trigger = Record {
            timestamp,
            headers,
            origin: self.record.origin,
            ..Record::default()
        };
        let outcome = Outcome {
            key: Datum::windowed(self.record.key.clone(), start, end),
            existed,
            before,
            new,
            timestamp,
        };
        let passed_on = self.kept.forward(&place, &trigger, outcome, self.out)?;
        row.cell(at).passed_on = passed_on;
        Ok(())
    }
}

impl Operator for SessionAggregate {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let done = self.take(input, out, context);
        input.clear();
        done
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        if !self.closing.is_enabled() {
            return Ok(());
        }
        let (epoch, assignment) = (context.epoch, context.assignment);
        let LaneStore { store, .. } = context.store(self.kept.store());
        // As if nothing had expired: sessions hidden by retention may still have to be emitted.
        let found = SessionView::new(store, epoch, -1)
            .and_then(|view| view.find_keys(None, None, 0, i64::MAX, false))
            .map_err(|e| self.kept.name(e))?;
        let tasks = Tasks::read(self.clock, context)?;
        for found in found {
            let affinity = self.kept.key.affinity(&found.key);
            if !assignment.owns(affinity) {
                continue;
            }
            let place = session_place(&found.key, found.start);
            let at = (found.end, place);
            self.closing.restore(&tasks, at, |_, _| true, context)?;
        }
        Ok(())
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
