//! Reads a store as sessions: one value per key, start and end.
//!
//! Sessions that end at or before `observed - retention` are refused and hidden. The caller keeps
//! `observed` (the highest end that the store has seen).

use crate::window::{keys_in, short_key};
use crate::{Dirty, KeyRange, KeyValueStore, Layout, Stored, session_key, split_session};
use bytes::{BufMut, Bytes, BytesMut};
use stoatflow_core::{Epoch, Error, Result};

#[cfg(test)]
mod tests;

/// A session store as a lane in one epoch sees it.
#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    store: &'a KeyValueStore,
    epoch: Epoch,
    observed: i64,
    segment_ms: i64,
    retention_ms: i64,
}

/// A session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionEntry {
    /// The record's key.
    pub key: Bytes,
    /// Time of its first record.
    pub start: i64,
    /// Time of its last record.
    pub end: i64,
    /// Its value.
    pub value: Stored,
}

impl<'a> SessionView<'a> {
    /// `observed` is the highest session end that the store has seen; negative if none.
    ///
    /// # Errors
    /// `Internal` if the store has another layout.
    pub fn new(store: &'a KeyValueStore, epoch: Epoch, observed: i64) -> Result<Self> {
        let Layout::Session {
            segment_ms,
            retention_ms,
        } = store.layout()
        else {
            return Err(Error::internal(format!(
                "store {} keeps no sessions but {}",
                store.name(),
                store.layout().name()
            )));
        };
        Ok(Self {
            store,
            epoch,
            observed,
            segment_ms,
            retention_ms,
        })
    }

    /// The highest session end, including those of refused writes.
    #[must_use]
    pub const fn observed(&self) -> i64 {
        self.observed
    }

    /// The oldest session end that reads return.
    const fn oldest(&self) -> i64 {
        let oldest = self.observed.saturating_sub(self.retention_ms);
        if oldest < 0 { 0 } else { oldest + 1 }
    }

    /// Raises `observed` to `end`; returns the internal key to write to, or `None` if the session is
    /// expired.
    pub fn admit(&mut self, key: &[u8], start: i64, end: i64) -> Option<Bytes> {
        self.observed = self.observed.max(end);
        (end >= self.oldest()).then(|| session_key(self.segment_ms, key, start, end))
    }

    /// Writes; `None` deletes. Returns `false` if the session is expired and nothing was written.
    ///
    /// # Errors
    /// As the store's `put`.
    pub fn put(
        &mut self,
        dirty: &mut Dirty,
        key: &[u8],
        start: i64,
        end: i64,
        value: Option<Stored>,
    ) -> Result<bool> {
        let Some(internal) = self.admit(key, start, end) else {
            return Ok(false);
        };
        self.store.put(self.epoch, dirty, &internal, value)?;
        Ok(true)
    }

    /// Deletes the session. Returns `false` if it is expired and nothing was written.
    ///
    /// # Errors
    /// As the store's `put`.
    pub fn remove(&mut self, dirty: &mut Dirty, key: &[u8], start: i64, end: i64) -> Result<bool> {
        self.put(dirty, key, start, end, None)
    }

    /// The value of one session.
    ///
    /// # Errors
    /// As the store's `get`.
    pub fn fetch_session(&self, key: &[u8], start: i64, end: i64) -> Result<Option<Stored>> {
        if end < self.oldest() {
            return Ok(None);
        }
        self.store
            .get(self.epoch, &session_key(self.segment_ms, key, start, end))
    }

    /// Sessions of a key with `end >= earliest_end` and `start <= latest_start`, by end, then by start
    /// (descending if `reverse`).
    ///
    /// # Errors
    /// As the store's `scan`.
    pub fn find_sessions(
        &self,
        key: &[u8],
        earliest_end: i64,
        latest_start: i64,
        reverse: bool,
    ) -> Result<Vec<SessionEntry>> {
        let earliest_end = earliest_end.max(self.oldest());
        let mut out = Vec::new();
        for number in self.segments(earliest_end, reverse)? {
            let mut b = BytesMut::with_capacity(8 + key.len() + 8);
            b.put_u64(number);
            b.put_slice(key);
            b.put_i64(earliest_end);
            let from = b.freeze();
            let row = from.slice(..8 + key.len());
            // Times aren't negative, so none begins with this byte.
            let to = Some([row.as_ref(), b"\xff"].concat().into());
            let range = KeyRange {
                from: Some(from),
                to,
                reverse,
            };
            for found in self.store.scan_row(self.epoch, &row, &range, usize::MAX)? {
                let entry = self.entry(found)?;
                if entry.start <= latest_start {
                    out.push(entry);
                }
            }
        }
        Ok(out)
    }

    /// As [`Self::find_sessions`] for the keys `from_key..=to_key` (`None`: unbounded); by segment of
    /// the end, then by key, end and start.
    ///
    /// # Errors
    /// As the store's `scan`.
    pub fn find_keys(
        &self,
        from_key: Option<&[u8]>,
        to_key: Option<&[u8]>,
        earliest_end: i64,
        latest_start: i64,
        reverse: bool,
    ) -> Result<Vec<SessionEntry>> {
        let earliest_end = earliest_end.max(self.oldest());
        let mut out = Vec::new();
        for number in self.segments(earliest_end, reverse)? {
            let range = keys_in(
                (number, self.segment_ms),
                from_key,
                to_key,
                i64::MAX,
                reverse,
            );
            for found in self.store.scan(self.epoch, &range, usize::MAX)? {
                let e = self.entry(found)?;
                let wanted =
                    from_key.is_none_or(|k| *e.key >= *k) && to_key.is_none_or(|k| *e.key <= *k);
                if wanted && e.end >= earliest_end && e.start <= latest_start {
                    out.push(e);
                }
            }
        }
        Ok(out)
    }

    /// Everything that is not expired.
    ///
    /// # Errors
    /// As the store's `scan`.
    pub fn all(&self, reverse: bool) -> Result<Vec<SessionEntry>> {
        self.find_keys(None, None, 0, i64::MAX, reverse)
    }

    fn segments(&self, earliest_end: i64, reverse: bool) -> Result<Vec<u64>> {
        let mut numbers = self.store.segments(earliest_end, i64::MAX)?;
        if reverse {
            numbers.reverse();
        }
        Ok(numbers)
    }

    fn entry(&self, (internal, value): (Bytes, Stored)) -> Result<SessionEntry> {
        let parts = split_session(&internal).ok_or_else(|| short_key(self.store, &internal))?;
        Ok(SessionEntry {
            key: internal.slice(8..8 + parts.key.len()),
            start: parts.start,
            end: parts.end,
            value,
        })
    }
}
