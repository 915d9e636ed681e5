//! `count`, `reduce`, `aggregate` in tumbling, hopping and unlimited windows.
//!
//! Takes records at their key's lane, emits the aggregate of each window that contains the record, the
//! earliest first. A window accepts records while its end plus grace is above the operator's stream
//! time; a record without an open window is dropped and counted as late. Null keys are dropped and don't
//! move stream time; null values are aggregated. The result's timestamp is the highest in the window.
//!
//! A window that its store no longer keeps (retention) starts afresh with every record, as in Kafka
//! Streams. With `on_window_close` results are emitted once, by window start, then by key.

#[cfg(test)]
mod tests;

use crate::ops::windows::window::{Assign, Closing, Due, Folder, WindowCache, WindowedStore};
use crate::support::dropped;
use crate::support::waiting::record_key_task;
use crate::{Context, Operator};
use stoatflow_core::{ClockId, Datum, Record, Result};
use stoatflow_state::WindowView;

/// A record in a window.
#[derive(Debug)]
struct WindowUpdate {
    record: usize,
    window: usize,
    start: i64,
    end: i64,
}

impl WindowUpdate {
    /// The record's key in this window.
    fn key(&self, record: &Record) -> Datum {
        Datum::windowed(record.key.clone(), self.start, self.end)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct WindowAggregate {
    kept: WindowedStore,
    folder: Folder,
    assign: Assign,
    clock: ClockId,
    grace_ms: i64,
    closing: Closing,
    cache: WindowCache,
    updates: Vec<WindowUpdate>,
}

/// Settings of the operator, beside its store and function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowAggregateSettings {
    pub assign: Assign,
    pub clock: ClockId,
    pub grace_ms: i64,
    pub on_close: bool,
}

impl WindowAggregate {
    pub fn new(kept: WindowedStore, folder: Folder, windowing: WindowAggregateSettings) -> Self {
        let WindowAggregateSettings {
            assign,
            clock,
            grace_ms,
            on_close,
        } = windowing;
        let waiting = kept.waiting(clock, |key| key);
        Self {
            kept,
            folder,
            assign,
            clock,
            grace_ms,
            closing: Closing::new(on_close, waiting, clock, (assign.size(), grace_ms)),
            cache: WindowCache::default(),
            updates: Vec::new(),
        }
    }

    /// Gathers records from `next` on, up to the one that closes windows; reads the windows that they
    /// touch.
    fn gather(
        &mut self,
        records: &[Record],
        next: &mut usize,
        context: &mut Context<'_>,
    ) -> Result<Option<Due>> {
        while let Some(record) = records.get(*next) {
            let due = self.closing.before(context, i64::MAX, record);
            if due.is_some() {
                return Ok(due);
            }
            let at = *next;
            *next += 1;
            if record.key.is_null() {
                let dropped = (self.kept.writer.node_context.node, dropped::NULL_KEY);
                context.effects.dropped.push(dropped);
                continue;
            }
            if context.clocks.follows_others() {
                // The newest record always creates the newest window, in whichever lane it is.
                let before = context.clocks.before(self.clock, record);
                let newest = self.assign.newest(before);
                context.clocks.see(self.kept.clock, record.task(), newest);
            }
            let stream = context.clocks.observe(self.clock, record);
            let close_time = stream.saturating_sub(self.grace_ms);
            self.assign(at, record, close_time, context)?;
            let due = self.closing.after(context, stream, i64::MAX, record);
            if due.is_some() {
                return Ok(due);
            }
        }
        Ok(None)
    }

    /// Puts a record into its open windows.
    fn assign(
        &mut self,
        at: usize,
        record: &Record,
        close_time: i64,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let updates = self.updates.len();
        let mut key = None;
        for (start, end) in self.assign.windows(record.timestamp.0) {
            if end <= close_time {
                continue;
            }
            let key = match &key {
                Some(key) => key,
                None => {
                    let bytes = self.kept.writer.key(record)?;
                    record_key_task(context, self.kept.clock, record.task(), &bytes)?;
                    key.insert(bytes)
                }
            };
            let observed = context.clocks.see(self.kept.clock, record.task(), start);
            let store = &self.kept.lane_store(context.stores).store;
            let admitted = WindowView::new(store, context.epoch, observed)
                .map(|mut view| view.admit(key, start));
            let window = match admitted {
                Ok(Some(internal)) => self.cache.load(store, context.epoch, internal),
                Ok(None) => Ok(self.cache.forgotten()),
                Err(e) => Err(e),
            };
            let window = window.map_err(|e| self.kept.writer.locate(e, record))?;
            if self.closing.is_enabled() {
                let task = context.clocks.task(record.task());
                let waiting = self.closing.waiting();
                waiting.insert(task, (start, key.clone()), context)?;
            }
            self.updates.push(WindowUpdate {
                record: at,
                window,
                start,
                end,
            });
        }
        if self.updates.len() == updates {
            let dropped = (self.kept.writer.node_context.node, dropped::LATE);
            context.effects.dropped.push(dropped);
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
            cache,
            updates,
            ..
        } = self;
        let cached = kept.writer.is_cached();
        // If a record fails in one of its windows, the later ones skip it, as in Kafka Streams.
        let mut lost = None;
        folder.scope(&mut || {
            updates.iter().enumerate().try_for_each(|(at, update)| {
                if lost == Some(update.record) {
                    return Ok(());
                }
                let record = &records[update.record];
                let window = cache.get(update.window);
                let Some(folded) = window.fold(record, folder, kept, out, context)? else {
                    lost = Some(update.record);
                    return Ok(());
                };
                if closing.is_enabled() {
                    return Ok(());
                }
                if cached {
                    window.gather(at, folded);
                    return Ok(());
                }
                let outcome = folded.under(update.key(record));
                window.passed_on = kept.forward(&window.key, record, outcome, out)?;
                Ok(())
            })
        })?;
        if cached {
            // In the order of the last updates, as the cache emits them.
            for (at, update) in updates.iter().enumerate() {
                let window = cache.get(update.window);
                if let Some((_, folded)) = window.gathered.take_if(|(last, _)| *last == at) {
                    let record = &records[update.record];
                    kept.forward(&window.key, record, folded.under(update.key(record)), out)?;
                }
            }
        }
        updates.clear();
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
            self.compute(records, out, context)?;
            let epoch = context.epoch;
            let stored = self
                .cache
                .store(self.kept.lane_store(context.stores), epoch);
            stored.map_err(|e| self.kept.name(e))?;
            match due {
                Some(due) => self.close(&due, out, context)?,
                None => return Ok(()),
            }
        }
    }

    /// Emits the windows that are closed.
    fn close(&mut self, due: &Due, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let observed = context.clocks.stream(self.kept.clock, due.task);
        let (size, assign) = (self.assign.size(), self.assign);
        let newest = move |time| assign.newest(time);
        self.closing
            .emit_windows(&self.kept, due, (size, newest), observed, out, context)
    }
}

impl Operator for WindowAggregate {
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
