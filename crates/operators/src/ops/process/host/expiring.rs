//! Stores with a ttl: which rows a processor still sees, and when a row that it writes expires.
//!
//! A row that is due is never returned, although it is deleted only at the next barrier: otherwise
//! results would depend on when barriers happen. A row is due by the stream time of its key's task if the
//! key determines the task, else by that of the call; or by the machine's clock.

use super::Host;
use crate::ProcessorHost;
use crate::ops::process::processor_env::Connected;
use crate::support::row_ttl::{RowExpiry, RowTtl};
use bytes::Bytes;
use stoatflow_core::{Error, Record, Result, Task};
use stoatflow_state::{Stored, TimerDomain};

impl Host<'_, '_> {
    /// A row that was read, unless it is due.
    pub(super) fn alive(
        &mut self,
        store: &Connected,
        key: &Bytes,
        row: Option<Stored>,
    ) -> Result<Option<Stored>> {
        let (Some(ttl), Some(row)) = (&store.ttl, &row) else {
            return Ok(row);
        };
        let now = self.expiry_time(store, ttl, key);
        let decode = || Ok((store.key_of(key.clone())?, store.shown(row.value.clone())?));
        let expiry = ttl.expiry_of(row, decode)?;
        let is_due = expiry.is_some_and(|expiry| expiry.at <= now);
        Ok((!is_due).then(|| row.clone()))
    }

    /// Removes the rows that are due from the result of a scan.
    pub(super) fn keep_alive(
        &mut self,
        store: &Connected,
        rows: Vec<(Bytes, Stored)>,
    ) -> Result<Vec<(Bytes, Stored)>> {
        if store.ttl.is_none() {
            return Ok(rows);
        }
        let mut kept = Vec::with_capacity(rows.len());
        for (key, row) in rows {
            if let Some(row) = self.alive(store, &key, Some(row))? {
                kept.push((key, row));
            }
        }
        Ok(kept)
    }

    /// When a row that is about to be written expires.
    pub(super) fn expiry(
        store: &Connected,
        key: &Bytes,
        row: &Stored,
    ) -> Result<Option<RowExpiry>> {
        let Some(ttl) = store.ttl.as_ref().filter(|_| !row.value.is_null()) else {
            return Ok(None);
        };
        let mut record = Record {
            timestamp: row.timestamp,
            ..Record::default()
        };
        if !ttl.is_fixed() {
            record.key = store.key_of(key.clone())?;
            record.value = store.shown(row.value.clone())?;
        }
        ttl.expiry(&record).map_err(|e| store.named(e))
    }

    /// Call after a row was written: registers the timer that deletes it.
    pub(super) fn expect(
        &mut self,
        (at, store): (usize, &Connected),
        key: &Bytes,
        expiry: Option<RowExpiry>,
    ) -> Result<()> {
        let (Some(expiry), Some(ttl)) = (expiry, &store.ttl) else {
            return Ok(());
        };
        let known = known_task(store, key);
        let task = self.own_task().or(known);
        let task = (self.env).timer_task(task, store, key, self.context.clocks);
        let in_one_task =
            known.is_some() || store.key_tasks.is_none() || ttl.domain == TimerDomain::Processing;
        let timers = self.expiries.get_mut(at).and_then(Option::as_mut);
        let timers = timers.ok_or_else(|| Error::internal("a store with a ttl has no timers"))?;
        timers.expect(expiry, key, (task, in_one_task), self.context)
    }

    /// The time by which a row of this key is due.
    fn expiry_time(&mut self, store: &Connected, ttl: &RowTtl, key: &Bytes) -> i64 {
        if ttl.domain == TimerDomain::Processing {
            return self.context.clocks.wall.0;
        }
        let (known, own) = (known_task(store, key), self.own_task());
        let (clock, time, clocks) = (self.env.clock, self.env.time, &*self.context.clocks);
        match (known, own, self.now) {
            (Some(known), own, _) if own != Some(known) => clocks.task_time(clock, time, known),
            (_, Some(_), _) => self.stream_time(),
            (_, None, Some(now)) => now,
            (_, None, None) => match time.filter(|time| clocks.has_tasks(*time)) {
                Some(time) => clocks.lowest(time),
                None => clocks.task_time(clock, time, Task(0)),
            },
        }
    }
}

/// The task of a key, if there are several and the key determines it.
fn known_task(store: &Connected, key: &Bytes) -> Option<Task> {
    let tasks = store.key_tasks.as_ref()?;
    tasks.of(store.key.affinity(key))
}
