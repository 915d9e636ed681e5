//! `stream_join`: one side of a join of two streams (inner, left, outer).
//!
//! Takes the records of one side at their key's lane, stores them for the other side, emits a row per
//! partner found there within the window, and unmatched rows once no partner can arrive any more. Rows
//! have the later of both timestamps, and the headers of the record that caused them to be emitted.
//!
//! As in Kafka Streams: stream time moves with every record, joinable or not. Late records look for
//! partners too, as far back as the other side's store shows. Unmatched rows are emitted at a record
//! with the highest timestamp, before that record's own rows, ordered by timestamp, right before left,
//! then key. A record whose own window is over (grace doesn't count here) is emitted unmatched at once.
//! A null value is dropped; a record with a null key is emitted unmatched at once if this side is outer,
//! else dropped (both counted).
//!
//! Owns nothing: records are in two window stores, records that wait for a partner in a third, which
//! both sides share. A stream that is joined with itself may have one store for both sides: the right side,
//! which runs second, writes it. Foreign values that may change are stored as copies, so a joiner that
//! changes its argument changes no store.

mod rows;
#[cfg(test)]
mod tests;
mod waiting;

use crate::support::dropped;
use crate::support::node_context::NodeContext;
use crate::{Context, LaneStore, Operator};
use bytes::Bytes;
pub(crate) use rows::Rows;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stoatflow_core::{ClockId, Datum, Error, Record, Result, Serde, StoreId, Timestamp};
use stoatflow_state::{Stored, WindowView};
use waiting::goes_by_min_time;
pub(crate) use waiting::{Shape, Side, Waiting};

/// A window store, and the clock of the newest record in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub store: StoreId,
    pub clock: ClockId,
}

/// Settings of one side.
#[derive(Debug)]
pub(crate) struct Parts {
    pub node_context: NodeContext,
    pub side: Side,
    /// True if unmatched records of this side are emitted.
    pub outer: bool,
    /// Maximum distance of a partner's timestamp, before and after.
    pub before_ms: i64,
    pub after_ms: i64,
    pub own: Kept,
    pub other: Kept,
    pub key: Serde,
    pub own_value: Serde,
    pub other_value: Serde,
    /// Shared by both sides.
    pub clock: ClockId,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct StreamJoin {
    parts: Parts,
    rows: Rows,
    /// For a left or outer join, shared by both sides.
    waiting: Option<Arc<Mutex<Waiting>>>,
    /// Key and stored value of each record of a batch; `None` for records that can't be joined.
    keyed: Vec<Option<(Bytes, Datum)>>,
}

impl StreamJoin {
    pub fn new(parts: Parts, rows: Rows, waiting: Option<Arc<Mutex<Waiting>>>) -> Self {
        Self {
            parts,
            rows,
            waiting,
            keyed: Vec::new(),
        }
    }

    /// Encodes a batch; with one attach if that needs the interpreter.
    fn prepare(&mut self, batch: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let Self {
            parts, rows, keyed, ..
        } = self;
        keyed.clear();
        let foreign = matches!(parts.key, Serde::Custom(_))
            || batch.iter().any(|r| matches!(r.value, Datum::Opaque(_)));
        if !foreign {
            return parts.prepare(batch, keyed, context);
        }
        // If an implementation of the port ever fails to run the body, records must not be lost
        // silently.
        let mut done = Err(Error::internal("a function's scope did not run"));
        rows.joiner()
            .scope(&mut || done = parts.prepare(batch, keyed, context));
        done
    }
}

impl Parts {
    fn prepare(
        &self,
        batch: &mut Vec<Record>,
        keyed: &mut Vec<Option<(Bytes, Datum)>>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut at = 0;
        while let Some(record) = batch.get(at) {
            let one = |_: &mut Context<'_>| self.keyed(record);
            match self.node_context.attempt(record, context, one)? {
                Some(one) => {
                    keyed.push(one);
                    at += 1;
                }
                None => {
                    batch.remove(at);
                }
            }
        }
        Ok(())
    }

    /// Key and value of a record as they are stored; `None`: it can't be joined.
    fn keyed(&self, record: &Record) -> Result<Option<(Bytes, Datum)>> {
        if record.value.is_null() {
            return Ok(None);
        }
        let Some(key) = self.key.encode(&record.key)? else {
            return Ok(None);
        };
        let value = own_copy(&self.own_value, record.value.clone())?;
        Ok(Some((key, value)))
    }

    /// Whether both sides have one store. The left side reads it before the record is in it, so a record
    /// meets itself once.
    fn is_stored_by_other_side(&self) -> bool {
        self.side == Side::Left && self.own.store == self.other.store
    }

    /// Stores a record for the other side.
    fn keep(
        &self,
        key: &[u8],
        value: Datum,
        record: &Record,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let at = record.timestamp.0;
        let observed = context.clocks.before(self.own.clock, record);
        let epoch = context.epoch;
        let LaneStore { store, dirty } = context.store(self.own.store);
        let mut view = WindowView::new(store, epoch, observed)?;
        let timestamp = Timestamp(at);
        view.put_duplicate(dirty, key, at, Stored { value, timestamp })?;
        context.clocks.observe(self.own.clock, record);
        Ok(())
    }

    /// The records of the other side within the window, by timestamp.
    fn partners(
        &self,
        key: &[u8],
        record: &Record,
        context: &mut Context<'_>,
    ) -> Result<Vec<(i64, Stored)>> {
        let at = record.timestamp.0;
        let observed = context.clocks.before(self.other.clock, record);
        let epoch = context.epoch;
        let store = &context.store(self.other.store).store;
        let from = at.saturating_sub(self.before_ms).max(0);
        let to = at.saturating_add(self.after_ms).max(0);
        let view = WindowView::new(store, epoch, observed)?;
        view.fetch_range(key, from, to, false, usize::MAX)
    }

    fn both_sides(&self, mine: Datum, theirs: Datum) -> (Datum, Datum) {
        match self.side {
            Side::Left => (mine, theirs),
            Side::Right => (theirs, mine),
        }
    }

    fn alone(&self, record: &Record, rows: &mut Rows) {
        let (left, right) = self.both_sides(record.value.clone(), Datum::Null);
        rows.add(record.with_value(Datum::Null), left, right);
    }

    /// Processes one record.
    fn take(
        &self,
        record: &Record,
        keyed: Option<(Bytes, Datum)>,
        mut waiting: Option<&mut Waiting>,
        rows: &mut Rows,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let at = record.timestamp.0;
        if let Some(waiting) = waiting.as_deref_mut()
            && !goes_by_min_time(context)
        {
            // First emit unmatched rows whose window is over: by this record, joinable or not, or by
            // records of other lanes before it.
            context.clocks.observe(self.clock, record);
            let expired = waiting.pass(self.clock, record.task(), context)?;
            expired.into_iter().for_each(|one| one.emit(record, rows));
        }
        let Some((key, value)) = keyed else {
            let time = context.clocks.observe(self.clock, record);
            if let Some(waiting) = waiting {
                waiting.see(record.task(), time, context);
            }
            if self.outer && !record.value.is_null() {
                self.alone(record, rows);
            } else if record.key.is_null() {
                let drop = (self.node_context.node, dropped::NULL_KEY);
                context.effects.dropped.push(drop);
            } else {
                let drop = (self.node_context.node, dropped::NULL_VALUE);
                context.effects.dropped.push(drop);
            }
            return Ok(());
        };
        if !self.is_stored_by_other_side() {
            self.keep(&key, value.clone(), record, context)?;
        }
        let time = context.clocks.observe(self.clock, record);
        if let Some(waiting) = waiting.as_deref_mut() {
            waiting.see(record.task(), time, context);
        }
        if let Some(waiting) = waiting.as_deref_mut().filter(|_| at == time) {
            let expired = waiting.expire(self.clock, self.side, record.task(), context)?;
            expired.into_iter().for_each(|one| one.emit(record, rows));
        }
        let partners = self.partners(&key, record, context)?;
        let lonely = partners.is_empty();
        for (partner_at, partner) in partners {
            if let Some(waiting) = waiting.as_deref_mut() {
                waiting.forget(self.side.opposite(), &key, partner_at, context)?;
            }
            let theirs = own_copy(&self.other_value, partner.value)?;
            let (left, right) = self.both_sides(record.value.clone(), theirs);
            let mut row = record.with_value(Datum::Null);
            row.timestamp = Timestamp(at.max(partner_at));
            rows.add(row, left, right);
        }
        match waiting {
            Some(waiting) if self.outer && lonely => {
                if at.saturating_add(self.after_ms).max(0) < time {
                    self.alone(record, rows);
                    return Ok(());
                }
                waiting.add(self.side, &key, &value, (record.task(), at), context)
            }
            _ => Ok(()),
        }
    }
}

impl Operator for StreamJoin {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.prepare(input, context)?;
        let Self {
            parts,
            rows,
            waiting,
            keyed,
        } = self;
        let mut waiting = waiting.as_deref().map(lock);
        for (record, keyed) in input.drain(..).zip(keyed.drain(..)) {
            parts
                .take(&record, keyed, waiting.as_deref_mut(), rows, context)
                .map_err(|e| parts.node_context.locate(e, &record.origin))?;
            rows.relieve(out, context)?;
        }
        if let Some(waiting) = &mut waiting {
            let settled = waiting.store_passes(context);
            settled.map_err(|e| parts.node_context.name_node(e))?;
        }
        rows.finish(out, context)
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        let opened = match &self.waiting {
            Some(waiting) => lock(waiting).open(self.parts.clock, context),
            None => Ok(()),
        };
        opened.map_err(|e| self.parts.node_context.name_node(e))
    }

    fn end_tick(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let Some(waiting) = &self.waiting else {
            return Ok(());
        };
        // For rows of which the causing record is unknown: no headers, no origin.
        let no_trigger = Record::default();
        for task in context.clocks.tasks(self.parts.clock) {
            if !lock(waiting).is_due_alone(self.parts.clock, task, context) {
                continue;
            }
            let expired = lock(waiting).pass(self.parts.clock, task, context);
            for one in expired.map_err(|e| self.parts.node_context.name_node(e))? {
                one.emit(&no_trigger, &mut self.rows);
            }
        }
        self.rows.finish(out, context)
    }

    fn advance(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.end_tick(out, context)
    }
}

/// An unshared copy of a foreign value, as if read from the store.
fn own_copy(serde: &Serde, value: Datum) -> Result<Datum> {
    match &value {
        Datum::Opaque(object) if object.changes() => serde.decode(serde.encode(&value)?),
        _ => Ok(value),
    }
}

/// The two sides run in turn, in one lane: the lock is always free.
fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
