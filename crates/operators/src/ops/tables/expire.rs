//! The `ttl` of a table, or of a processor's store: deletes rows that are older.
//!
//! Takes the updates of the table above and forwards them; if the plan says so, also a tombstone for
//! each expired row. For a store of processors it gets no records: the processors register the timers of
//! the rows that they write (`ops::process::expiry_timers`). A row expires `ttl` after its timestamp, by
//! the stream time of its task or by the machine's clock, at the end of an epoch. The ttl is fixed or
//! computed from the row by an expression.
//!
//! Owns a store of timers, which is the index of rows by expiry. A key that is updated often must not
//! have a timer for each update, and the old value of an update is not known. So expiry times are
//! rounded down to a sixteenth of the ttl: a timer fires at the earliest possible expiry, and only if
//! the row is still there then, a timer for the exact time is registered. Under at-least-once a record
//! that is read again registers its timer again.

#[cfg(test)]
mod tests;

use crate::ops::process::{ExpiryTimers, LaneTimers, ProcessorEnv, TABLE, TIMERS};
use crate::ops::tables::table_update;
use crate::support::row_ttl::{RowExpiry, RowTtl};
use crate::{Context, LaneStore, NO_ORIGIN, Operator};
use bytes::Bytes;
use stoatflow_core::{Datum, Error, Record, Result, Task, Timestamp};
use stoatflow_plan::Expiry;
use stoatflow_state::{
    Dirty, KeyRange, Stored, TimerView, after, split_timer, timer_key, timer_row,
};

/// Rows of the table checked per cut.
const PAGE: usize = 2_048;
/// Time between two such cuts while the application is idle.
const BETWEEN_PAGES_MS: i64 = 100;
/// See the module.
#[derive(Debug)]
pub(crate) struct Expire {
    env: ProcessorEnv,
    ttl: RowTtl,
    /// True if processors write the store, in any lane.
    of_processors: bool,
    /// True if tombstones are forwarded.
    forward: bool,
    /// True if children need the old value.
    old: bool,
    timers: Option<ExpiryTimers>,
    /// First key of the table that wasn't checked in this run; `None`: all were.
    unchecked: Option<Bytes>,
    /// When an idle application checks more of them.
    next_page: i64,
}

impl Expire {
    /// `env`: with the table's store and the store of timers.
    pub fn new(
        env: ProcessorEnv,
        expiry: &Expiry,
        (old, of_processors): (bool, bool),
    ) -> Result<Self> {
        Ok(Self {
            env,
            ttl: RowTtl::new(expiry)?,
            of_processors,
            forward: expiry.forward,
            old,
            timers: None,
            unchecked: Some(Bytes::new()),
            next_page: i64::MIN,
        })
    }

    /// When a row of the table expires.
    fn expiry_of(&self, key: &Bytes, row: &Stored) -> Result<Option<RowExpiry>> {
        let table = &self.env.stores[TABLE];
        let decode = || Ok((table.key_of(key.clone())?, table.shown(row.value.clone())?));
        self.ttl.expiry_of(row, decode)
    }

    /// The task of a row.
    fn task(&self, record: Option<&Record>, key: &Bytes, context: &Context<'_>) -> Task {
        let place = record.map(|record| record.origin.order);
        let own = place.filter(|place| place.number() > 0 && !self.env.ticks);
        let (own, table) = (own.map(|place| place.task()), &self.env.stores[TABLE]);
        (self.env).timer_task(own, table, key, context.clocks)
    }

    /// Registers a timer for a row's expiry.
    fn expect(
        &mut self,
        key: &Bytes,
        expiry: RowExpiry,
        task: Task,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let timers = self.timers.as_mut().ok_or_else(not_open)?;
        let row = (self.ttl.domain, expiry, key);
        timers.expect(&self.env, row, (task, true), context)
    }

    /// Checks the next rows of the table and registers missing timers. Each run checks the table once,
    /// because it is not known whether the run before had the same ttl. Happens in the first lane while
    /// all others stand still.
    fn check_rows(&mut self, context: &mut Context<'_>) -> Result<()> {
        let Some(from) = self.unchecked.take() else {
            return Ok(());
        };
        let range = KeyRange {
            from: Some(from).filter(|from| !from.is_empty()),
            ..KeyRange::default()
        };
        let epoch = context.epoch;
        let store = &context.store(self.env.stores[TABLE].id).store;
        let rows = store.scan(epoch, &range, PAGE)?;
        if rows.len() == PAGE {
            self.unchecked = rows.last().map(|(key, _)| after(key));
        }
        for (key, row) in rows {
            let Some(expiry) = self.expiry_of(&key, &row)? else {
                continue;
            };
            let timers = &context.store(self.env.stores[TIMERS].id).store;
            let view = TimerView::new(timers, epoch)?;
            let has = |at| view.is_pending(&timer_row(self.ttl.domain, at, &key));
            if !has(expiry.rounded)? && !has(expiry.at)? {
                let task = self.task(None, &key, context);
                self.expect(&key, expiry, task, context)?;
            }
        }
        self.next_page = context.clocks.wall.0.saturating_add(BETWEEN_PAGES_MS);
        Ok(())
    }

    /// Handles the rows whose timers fire.
    fn fire(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let Some(mut timers) = self.timers.take() else {
            return Ok(());
        };
        let own = &mut timers.timers;
        let done = if own.begin(context) {
            let done = self.fire_all(own, out, context);
            own.end(context.epoch);
            done
        } else {
            Ok(())
        };
        self.timers = Some(timers);
        done
    }

    fn fire_all(
        &self,
        timers: &mut LaneTimers,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let (table, kept) = (&self.env.stores[TABLE], &self.env.stores[TIMERS]);
        let (epoch, wall) = (context.epoch, context.clocks.wall);
        while let Some(due) = timers.next() {
            let parts = split_timer(&due.row);
            let parts = parts.ok_or_else(|| Error::internal("a timer's row is none"))?;
            let key = timer_key(&due.row);
            let LaneStore { store, dirty } = context.store(kept.id);
            TimerView::new(store, epoch)?.remove(dirty, &due.row, wall)?;
            let LaneStore { store, dirty } = context.store(table.id);
            let row = store.get(epoch, &key)?;
            let Some(row) = row.filter(|row| !row.value.is_null()) else {
                continue;
            };
            let Some(expiry) = self.expiry_of(&key, &row)? else {
                continue;
            };
            let domain = self.ttl.domain;
            if parts.domain == domain && expiry.at <= parts.at {
                let timestamp = Timestamp(expiry.at);
                let tombstone = Stored {
                    value: Datum::Null,
                    timestamp,
                };
                if self.of_processors {
                    self.delete_unless_updated(parts.at, &key, tombstone, context)?;
                    continue;
                }
                // Frees the row's values in unique indexes.
                store.admit(epoch, &key, Some(&tombstone))?;
                store.put(epoch, dirty, &key, Some(tombstone))?;
                if self.forward {
                    let old = table.given(row.value)?;
                    out.push(Record {
                        origin: NO_ORIGIN,
                        key: table.key_of(key)?,
                        value: table_update::make(self.old, old, Datum::Null, true),
                        timestamp,
                        ..Record::default()
                    });
                }
                continue;
            }
            // The row was updated, or this was the rounded time.
            let later = parts.domain != domain || expiry.rounded > parts.at;
            let at = if later { expiry.rounded } else { expiry.at };
            timers.register(context, (TIMERS, kept), (domain, at, &key), due.task)?;
        }
        Ok(())
    }
}

impl Expire {
    /// Deletes an expired row. A processor in another lane may write the key meanwhile: then the row stays
    /// as that processor wrote it, and has a timer of its own.
    fn delete_unless_updated(
        &self,
        now: i64,
        key: &Bytes,
        tombstone: Stored,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let (epoch, mut dirty) = (context.epoch, Dirty::default());
        let LaneStore { store, dirty: all } = context.store(self.env.stores[TABLE].id);
        store.update_unlocked(epoch, &mut dirty, key, |current| {
            let Some(row) = current else {
                return Ok((None, ()));
            };
            let expiry = self.expiry_of(key, row)?;
            let is_due = expiry.is_some_and(|expiry| expiry.at <= now);
            let next = if is_due {
                tombstone.clone()
            } else {
                row.clone()
            };
            // Frees the row's values in unique indexes.
            store.admit(epoch, key, Some(&next))?;
            Ok((Some(next), ()))
        })?;
        all.append(dirty);
        Ok(())
    }
}

fn not_open() -> Error {
    Error::internal("a table with a ttl was not opened")
}

impl Operator for Expire {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        for record in input.drain(..) {
            let new = table_update::new(&record.value);
            if new.is_null() {
                out.push(record);
                continue;
            }
            let node_context = &self.env.node_context;
            let expiry = if self.ttl.is_fixed() {
                self.ttl.expiry(&record)?
            } else {
                let row = record.with_value(new.clone());
                let compute = |_: &mut Context<'_>| self.ttl.expiry(&row);
                match node_context.attempt(&record, context, compute)? {
                    Some(expiry) => expiry,
                    // The error handler leaves the record out.
                    None => continue,
                }
            };
            if let Some(expiry) = expiry {
                let key = self.env.stores[TABLE].key_bytes(&record.key);
                let key = key.map_err(|e| node_context.locate(e, &record.origin))?;
                let task = self.task(Some(&record), &key, context);
                self.expect(&key, expiry, task, context)?;
            }
            out.push(record);
        }
        Ok(())
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        self.timers = Some(ExpiryTimers::open(&self.env, true, context)?);
        Ok(())
    }

    fn punctuate(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        if self.timers.is_some() {
            self.check_rows(context)?;
        }
        let Some(timers) = &self.timers else {
            return Ok(());
        };
        timers.timers.cut(&self.env, context)?;
        if context.clocks.is_alone() && context.clocks.moves_with_records() {
            return self.fire(out, context);
        }
        Ok(())
    }

    fn advance(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.fire(out, context)
    }

    fn next_punctuation(&self) -> Option<i64> {
        self.unchecked.is_some().then_some(self.next_page)
    }
}
