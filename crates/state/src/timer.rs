//! Reads a store as timers: keys with the time at which they are due.
//!
//! A row is `domain (1) | time (8, sign inverted) | key`, so all timers of a domain up to a time are one
//! range, ordered by time and then by key. Registering a timer again changes nothing. The caller
//! provides the current time.

use crate::key_value::after;
use crate::{Dirty, KeyRange, KeyValueStore, Layout, SIGN, Stored, split_time_key};
use bytes::{BufMut, Bytes, BytesMut};
use stoatflow_core::{Datum, Epoch, Error, Result, Task, Timestamp};

#[cfg(test)]
mod tests;

/// Length of domain and time.
const HEAD: usize = 9;
/// Rows per page when a whole store is read.
const PAGE: usize = 4_096;
/// First byte of a row's value. The task of the record that registered the timer follows, if the stage
/// has several tasks.
const ROW: u8 = 1;

/// The clock by which a timer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimerDomain {
    /// Event time of the records.
    Event,
    /// The machine's clock.
    Processing,
}

impl TimerDomain {
    /// Both domains.
    pub const ALL: [Self; 2] = [Self::Event, Self::Processing];

    const fn byte(self) -> u8 {
        match self {
            Self::Event => 0,
            Self::Processing => 1,
        }
    }

    /// The name that users see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Processing => "processing",
        }
    }

    /// The domain of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|domain| domain.name() == name)
    }
}

/// A timer, parsed from a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerParts<'r> {
    /// Its clock.
    pub domain: TimerDomain,
    /// When it is due.
    pub at: i64,
    /// The key's bytes.
    pub key: &'r [u8],
}

/// The row of a timer.
#[must_use]
pub fn timer_row(domain: TimerDomain, at: i64, key: &[u8]) -> Bytes {
    let mut row = BytesMut::with_capacity(HEAD + key.len());
    row.put_u8(domain.byte());
    row.put_u64(at.cast_unsigned() ^ SIGN);
    row.put_slice(key);
    row.freeze()
}

/// Splits a row; `None` if it isn't one.
#[must_use]
pub fn split_timer(row: &[u8]) -> Option<TimerParts<'_>> {
    let (domain, rest) = row.split_first()?;
    let (at, key) = split_time_key(rest)?;
    let domain = TimerDomain::ALL.into_iter().find(|d| d.byte() == *domain)?;
    Some(TimerParts { domain, at, key })
}

/// The key of a row, without a copy.
#[must_use]
pub fn timer_key(row: &Bytes) -> Bytes {
    row.slice(row.len().min(HEAD)..)
}

/// The smallest row after all timers of a domain that are due at `at` or before.
fn end_of_due(domain: TimerDomain, at: i64) -> Bytes {
    match at.checked_add(1) {
        Some(next) => timer_row(domain, next, &[]),
        None => Bytes::copy_from_slice(&[domain.byte() + 1]),
    }
}

fn task_in(stored: &Stored) -> Option<Task> {
    match &stored.value {
        Datum::Bytes(value) => {
            let task = value.get(1..)?.first_chunk()?;
            Some(Task(u16::from_be_bytes(*task)))
        }
        _ => None,
    }
}

/// Where a read of due timers starts.
#[derive(Clone, Debug)]
pub enum TimersFrom {
    /// At this time.
    Time(i64),
    /// After this row.
    Row(Bytes),
}

/// A store of timers as a lane in one epoch sees it.
#[derive(Clone, Copy, Debug)]
pub struct TimerView<'a> {
    store: &'a KeyValueStore,
    epoch: Epoch,
}

impl<'a> TimerView<'a> {
    /// A view of `store` for a lane in `epoch`.
    ///
    /// # Errors
    /// `Internal` if the store has another layout.
    pub fn new(store: &'a KeyValueStore, epoch: Epoch) -> Result<Self> {
        if store.layout() != Layout::Timers {
            return Err(Error::internal(format!(
                "store {} keeps no timers but {}",
                store.name(),
                store.layout().name()
            )));
        }
        Ok(Self { store, epoch })
    }

    /// Writes a timer of a task without reading it first. `wall` is the time of registration, used as
    /// the changelog record's timestamp: brokers refuse records too far in the future (by default an
    /// hour).
    ///
    /// # Errors
    /// As the store's `put`.
    pub fn put(
        &self,
        dirty: &mut Dirty,
        row: &Bytes,
        task: Option<Task>,
        wall: Timestamp,
    ) -> Result<()> {
        let value = match task {
            Some(Task(task)) => {
                let [high, low] = task.to_be_bytes();
                Bytes::copy_from_slice(&[ROW, high, low])
            }
            None => Bytes::from_static(&[ROW]),
        };
        self.write(dirty, row, Datum::Bytes(value), wall)
    }

    /// Removes a timer without reading it first.
    ///
    /// # Errors
    /// As the store's `put`.
    pub fn remove(&self, dirty: &mut Dirty, row: &Bytes, wall: Timestamp) -> Result<()> {
        self.write(dirty, row, Datum::Null, wall)
    }

    fn write(&self, dirty: &mut Dirty, row: &Bytes, value: Datum, wall: Timestamp) -> Result<()> {
        let stored = Stored {
            value,
            // A record's timestamp can't be negative.
            timestamp: Timestamp(wall.0.max(0)),
        };
        self.store.put(self.epoch, dirty, row, Some(stored))
    }

    /// Whether the timer of this row is registered.
    ///
    /// # Errors
    /// As the store's `get`.
    pub fn is_pending(&self, row: &[u8]) -> Result<bool> {
        Ok(self.store.get(self.epoch, row)?.is_some())
    }

    /// Rows due at `until` or before, with their tasks, in order, at most `limit`.
    ///
    /// # Errors
    /// As the store's `scan`.
    pub fn due(
        &self,
        domain: TimerDomain,
        from: &TimersFrom,
        until: i64,
        limit: usize,
    ) -> Result<Vec<(Bytes, Option<Task>)>> {
        let from = match from {
            TimersFrom::Time(at) => timer_row(domain, *at, &[]),
            TimersFrom::Row(row) => after(row),
        };
        self.rows(from, end_of_due(domain, until), limit)
    }

    /// The time of the first timer after `at`, or of the first of all (`None`).
    ///
    /// # Errors
    /// As the store's `scan`.
    pub fn first_after(&self, domain: TimerDomain, at: Option<i64>) -> Result<Option<i64>> {
        let from = match at {
            Some(at) => end_of_due(domain, at),
            None => timer_row(domain, i64::MIN, &[]),
        };
        let rows = self.rows(from, end_of_due(domain, i64::MAX), 1)?;
        let first = rows.first().and_then(|(row, _)| split_timer(row));
        Ok(first.map(|timer| timer.at))
    }

    /// All timers of a key, by domain and time. Reads the whole store page by page, since rows are
    /// ordered by time.
    ///
    /// # Errors
    /// As the store's `scan`.
    pub fn of_key(&self, key: &[u8]) -> Result<Vec<(TimerDomain, i64)>> {
        let mut found = Vec::new();
        let end = end_of_due(TimerDomain::Processing, i64::MAX);
        let mut from = Bytes::new();
        loop {
            let page = self.rows(from, end.clone(), PAGE)?;
            for (row, _) in &page {
                let timer = split_timer(row).filter(|timer| timer.key == key);
                found.extend(timer.map(|timer| (timer.domain, timer.at)));
            }
            match page.last() {
                Some((last, _)) if page.len() == PAGE => from = after(last),
                _ => return Ok(found),
            }
        }
    }

    fn rows(&self, from: Bytes, to: Bytes, limit: usize) -> Result<Vec<(Bytes, Option<Task>)>> {
        let range = KeyRange {
            from: Some(from),
            to: Some(to),
            reverse: false,
        };
        let rows = self.store.scan(self.epoch, &range, limit)?;
        let task = |(row, stored): (Bytes, Stored)| (row, task_in(&stored));
        Ok(rows.into_iter().map(task).collect())
    }
}
