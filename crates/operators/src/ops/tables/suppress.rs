//! `suppress`: holds back a table's updates, one per key, until they are due.
//!
//! Takes updates at their key's lane, emits the last one of each key: when the window of the key closes
//! (only values then, no tombstones), some time after the first update of the key, or at the barrier.
//! The position of an entry is that of the key's first update; value, timestamp and headers are those of
//! the last one. The operator's stream time is the highest timestamp of its input.
//!
//! A full buffer emits its oldest entries early, or stops the engine. Bounds hold for each lane, like
//! those of Kafka Streams for each task; so what a bounded buffer emits early depends on the number of
//! lanes.
//!
//! Held updates are in memory, and are written to the store once per key and epoch, so they survive a
//! restart.

mod buffer;
pub(crate) mod codec;
#[cfg(test)]
mod tests;

use crate::ops::tables::table_update;
use crate::support::node_context::NodeContext;
use crate::support::waiting::{self, Tasks};
use crate::{Context, LaneStore, Operator};
use buffer::{Buffer, Waiting};
use bytes::Bytes;
use codec::Codec;
use stoatflow_core::{ClockId, Datum, Epoch, Error, Order, Record, Result, Serde, StoreId, Task};
use stoatflow_plan::{Until, WhenFull};
use stoatflow_state::{KeyRange, Stored};

/// Settings of a suppress.
#[derive(Debug)]
pub(crate) struct Settings {
    pub store: StoreId,
    pub key: Serde,
    pub value: Serde,
    pub until: Until,
    pub max_records: Option<u64>,
    pub max_bytes: Option<u64>,
    pub when_full: WhenFull,
    pub clock: ClockId,
    /// True if children need the old value.
    pub old: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Suppress {
    node_context: NodeContext,
    settings: Settings,
    codec: Codec,
    /// By task.
    buffers: Vec<Buffer>,
    /// The epoch whose barrier has passed here: later updates of that epoch must not wait for the next
    /// barrier.
    passed: Option<Epoch>,
    /// With `Until::Barrier`: number of updates so far, which gives their order.
    turns: i64,
}

impl Suppress {
    pub fn new(node_context: NodeContext, settings: Settings) -> Self {
        Self {
            codec: Codec::new(settings.value.clone(), node_context.clone()),
            node_context,
            settings,
            buffers: Vec::new(),
            passed: None,
            turns: 0,
        }
    }

    /// The time from which an update waits.
    fn buffer_time(&mut self, record: &Record) -> Result<i64> {
        match (self.settings.until, &record.key) {
            (Until::WindowCloses { .. }, Datum::Windowed(window)) => Ok(window.end),
            (Until::WindowCloses { .. }, key) => {
                let error = Error::topology(format!(
                    "suppress waits for a window to close, but the key is a {} without a window",
                    key.type_name()
                ))
                .hint("suppress before the table is grouped anew, or suppress until a time limit");
                Err(self.node_context.locate(error, &record.origin))
            }
            (Until::TimeLimit { .. }, _) => Ok(record.timestamp.0),
            (Until::Barrier, _) => {
                self.turns += 1;
                Ok(self.turns)
            }
        }
    }

    /// Held updates of a task. With `Until::Barrier` there is one buffer for all tasks.
    fn buffer(&mut self, task: Task) -> &mut Buffer {
        let at = match self.settings.until {
            Until::Barrier => 0,
            Until::WindowCloses { .. } | Until::TimeLimit { .. } => task.index(),
        };
        if self.buffers.len() <= at {
            self.buffers.resize_with(at + 1, Buffer::default);
        }
        &mut self.buffers[at]
    }

    fn hold(&mut self, task: Task, record: Record) -> Result<()> {
        let key = self.settings.key.encode(&record.key);
        let key = key.map_err(|e| self.node_context.locate(e, &record.origin))?;
        let Some(key) = key else {
            let error = Error::internal("a null key reached a table");
            return Err(self.node_context.locate(error, &record.origin));
        };
        let time = self.buffer_time(&record)?;
        let mut update = record;
        self.buffer(task);
        let at = if self.settings.until == Until::Barrier {
            0
        } else {
            task.index()
        };
        let first = self.buffers[at].get(&key);
        // One result for the whole epoch: its old value is the one before the first update.
        if let (Until::Barrier, Some(first), Datum::Change(change)) =
            (self.settings.until, first, &mut update.value)
        {
            change.old = table_update::old(&first.record.value).clone();
        }
        let bytes = if self.settings.max_bytes.is_some() {
            self.codec.size(&key, &update, first)?
        } else {
            0
        };
        self.buffers[at].put(key, time, update, bytes);
        Ok(())
    }

    /// Emits what is due in a task, unless it waits for the barrier. The order number of an entry is
    /// that of the record that made it due, if known, else `place`.
    fn release_due(
        &mut self,
        task: Task,
        place: Option<Order>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let wait = match self.settings.until {
            Until::WindowCloses { grace_ms } => grace_ms,
            Until::TimeLimit { limit_ms } => limit_ms,
            Until::Barrier => return Ok(()),
        };
        let clock = self.settings.clock;
        let task = context.clocks.task(task);
        let due = context.clocks.stream(clock, task).saturating_sub(wait);
        while let Some((key, mut waiting)) = self.buffer(task).pop_due(due) {
            let made_due = waiting.time.saturating_add(wait);
            let step = context.clocks.first_at(clock, task, made_due);
            if let Some(order) = step.map(|step| step.order).or(place) {
                waiting.record.origin.order = order;
            }
            self.emit(task, (&key, waiting), out, context)?;
        }
        Ok(())
    }

    fn release_due_everywhere(
        &mut self,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut tasks = context.clocks.tasks(self.settings.clock);
        tasks.try_for_each(|task| self.release_due(task, None, out, context))
    }

    /// While a buffer is too full, emits its oldest entry or fails.
    fn keep_bounds(
        &mut self,
        task: Task,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let Settings {
            max_records,
            max_bytes,
            when_full,
            ..
        } = self.settings;
        loop {
            let buffer = self.buffer(task);
            let (records, bytes) = (buffer.len() as u64, buffer.bytes() as u64);
            if max_records.is_none_or(|max| records <= max)
                && max_bytes.is_none_or(|max| bytes <= max)
            {
                break;
            }
            if when_full == WhenFull::Shutdown {
                return Err(self.full(records, bytes));
            }
            let Some((key, waiting)) = buffer.pop() else {
                break;
            };
            self.emit(task, (&key, waiting), out, context)?;
        }
        Ok(())
    }

    fn full(&self, records: u64, bytes: u64) -> Error {
        let bound = match (self.settings.max_records, self.settings.max_bytes) {
            (Some(max), _) if records > max => {
                format!("{records} updates, more than max_records={max}")
            }
            (_, Some(max)) => format!("{bytes} bytes, more than max_bytes={max}"),
            _ => format!("{records} updates"),
        };
        self.node_context.name_node(
            Error::user(format!("the buffer of a suppress is full: it holds {bound}"))
                .hint("raise the bound of its Buffer, leave it unbounded, or let it give updates early with when_full=\"emit_early\""),
        )
    }

    fn emit(
        &self,
        task: Task,
        (key, waiting): (&Bytes, Waiting),
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if waiting.saved {
            let epoch = context.epoch;
            let LaneStore { store, dirty } = context.store(self.settings.store);
            store
                .put(epoch, dirty, key, None)
                .map_err(|e| self.node_context.name_node(e))?;
            let affinity = self.settings.key.affinity(key);
            waiting::note(
                context,
                (self.settings.clock, task),
                (0, key),
                affinity,
                false,
            )?;
        }
        let mut record = waiting.record;
        let known = matches!(record.value, Datum::Change(_));
        let change = table_update::split(record.value);
        let nothing = change.new.is_null()
            && match self.settings.until {
                // A window that closes without a value (a merged session, a filtered result) emits
                // nothing.
                Until::WindowCloses { .. } => true,
                // Created and deleted between two barriers: no child has seen it.
                Until::Barrier => known && change.old.is_null(),
                Until::TimeLimit { .. } => false,
            };
        if !nothing {
            record.value =
                table_update::make(self.settings.old, change.old, change.new, change.latest);
            out.push(record);
        }
        Ok(())
    }

    /// Writes held entries that have changed.
    fn save(&mut self, context: &mut Context<'_>) -> Result<()> {
        if self.settings.until == Until::Barrier {
            return Ok(());
        }
        let epoch = context.epoch;
        for (task, buffer) in (0..).map(Task).zip(&mut self.buffers) {
            for key in buffer.unsaved() {
                let Some(waiting) = buffer.get_mut(&key) else {
                    continue;
                };
                let bytes = self.codec.encode(waiting)?;
                let stored = Stored {
                    value: Datum::Bytes(bytes),
                    timestamp: waiting.record.timestamp,
                };
                let LaneStore { store, dirty } = context.store(self.settings.store);
                store
                    .put(epoch, dirty, &key, Some(stored))
                    .map_err(|e| self.node_context.name_node(e))?;
                if !std::mem::replace(&mut waiting.saved, true) {
                    let affinity = self.settings.key.affinity(&key);
                    waiting::note(
                        context,
                        (self.settings.clock, task),
                        (0, &key),
                        affinity,
                        true,
                    )?;
                }
            }
        }
        Ok(())
    }

    fn release_all(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        for at in 0..self.buffers.len() {
            let task = Task(u16::try_from(at).unwrap_or(0));
            while let Some((key, waiting)) = self.buffers[at].pop() {
                self.emit(task, (&key, waiting), out, context)?;
            }
        }
        Ok(())
    }

    /// Handles updates that arrive after the barrier of their epoch at once.
    fn after_barrier(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        if self.passed != Some(context.epoch) {
            return Ok(());
        }
        if self.settings.until == Until::Barrier {
            return self.release_all(out, context);
        }
        self.save(context)
    }
}

impl Operator for Suppress {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        for record in input.drain(..) {
            let (clock, order) = (self.settings.clock, record.origin.order);
            let task = context.clocks.task(order.task());
            if context.clocks.follows_others() {
                context.clocks.before(clock, &record);
                self.release_due(task, Some(order), out, context)?;
            }
            context.clocks.observe(clock, &record);
            self.hold(task, record)?;
            if context.clocks.moves_with_records() {
                self.release_due(task, Some(order), out, context)?;
            }
            self.keep_bounds(task, out, context)?;
        }
        self.after_barrier(out, context)
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        let (epoch, assignment) = (context.epoch, context.assignment);
        let LaneStore { store, .. } = context.store(self.settings.store);
        let found = store
            .scan(epoch, &KeyRange::default(), usize::MAX)
            .map_err(|e| self.node_context.name_node(e))?;
        let tasks = Tasks::read(self.settings.clock, context)?;
        for (key, stored) in found {
            let affinity = self.settings.key.affinity(&key);
            if !assignment.owns(affinity) {
                continue;
            }
            let task = tasks.of(context, (0, &key), affinity)?;
            let record_key = self.settings.key.decode(Some(key.clone()));
            let record_key = record_key.map_err(|e| self.node_context.name_node(e))?;
            let (time, waiting) = self.codec.decode(record_key, &stored.value)?;
            let bytes = if self.settings.max_bytes.is_some() {
                self.codec.size(&key, &waiting.record, Some(&waiting))?
            } else {
                0
            };
            self.buffer(task).restore(key, time, waiting, bytes);
        }
        Ok(())
    }

    fn end_tick(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.release_due_everywhere(out, context)
    }

    fn advance(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.release_due_everywhere(out, context)?;
        self.after_barrier(out, context)
    }

    fn barrier(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.passed = Some(context.epoch);
        self.after_barrier(out, context)
    }
}
