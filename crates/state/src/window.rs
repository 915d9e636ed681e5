//! Reads a store as windows: one or several values per key and window start.
//!
//! Windows that start at or before `observed - retention` are refused and hidden, even if still on
//! disk. The caller keeps `observed` (the highest start that the store has seen), because it knows
//! how lanes and restarts agree on it.

use crate::key_value::{after, after_prefix};
use crate::{Dirty, KeyRange, KeyValueStore, Layout, Stored, segment, split_window, window_key};
use bytes::{BufMut, Bytes, BytesMut};
use stoatflow_core::{Epoch, Error, Result};

#[cfg(test)]
mod tests;

/// A window store as a lane in one epoch sees it.
#[derive(Clone, Copy, Debug)]
pub struct WindowView<'a> {
    store: &'a KeyValueStore,
    epoch: Epoch,
    observed: i64,
    segment_ms: i64,
    retention_ms: i64,
}

/// An entry of a read over several keys: key, window start, value.
pub type WindowEntry = (Bytes, i64, Stored);

impl<'a> WindowView<'a> {
    /// `observed` is the highest window start that the store has seen; negative if none.
    ///
    /// # Errors
    /// `Internal` if the store has another layout.
    pub fn new(store: &'a KeyValueStore, epoch: Epoch, observed: i64) -> Result<Self> {
        let Layout::Window {
            segment_ms,
            retention_ms,
        } = store.layout()
        else {
            return Err(Error::internal(format!(
                "store {} keeps no windows but {}",
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

    /// The highest window start, including those of refused writes.
    #[must_use]
    pub const fn observed(&self) -> i64 {
        self.observed
    }

    /// The oldest window start that reads return.
    const fn oldest(&self) -> i64 {
        let oldest = self.observed.saturating_sub(self.retention_ms);
        if oldest < 0 { 0 } else { oldest + 1 }
    }

    /// Raises `observed` to `start`; returns the internal key to write to, or `None` if the window is
    /// expired. With the key an operator can use the store's own `update`.
    pub fn admit(&mut self, key: &[u8], start: i64) -> Option<Bytes> {
        self.observed = self.observed.max(start);
        (start >= self.oldest()).then(|| window_key(self.segment_ms, key, start, 0))
    }

    /// Writes; `None` deletes. Returns `false` if the window is expired and nothing was written.
    ///
    /// # Errors
    /// As the store's `put`.
    pub fn put(
        &mut self,
        dirty: &mut Dirty,
        key: &[u8],
        start: i64,
        value: Option<Stored>,
    ) -> Result<bool> {
        let Some(internal) = self.admit(key, start) else {
            return Ok(false);
        };
        self.store.put(self.epoch, dirty, &internal, value)?;
        Ok(true)
    }

    /// Adds a value beside those of the same key and start. A null value adds nothing. Returns `false`
    /// if the window is expired.
    ///
    /// # Errors
    /// As the store's `put` and `scan`.
    pub fn put_duplicate(
        &mut self,
        dirty: &mut Dirty,
        key: &[u8],
        start: i64,
        value: Stored,
    ) -> Result<bool> {
        let Some(first) = self.admit(key, start) else {
            return Ok(false);
        };
        if value.value.is_null() {
            return Ok(true);
        }
        let last = window_key(self.segment_ms, key, start, u32::MAX);
        let range = KeyRange {
            from: Some(first.clone()),
            to: Some(after(&last)),
            reverse: true,
        };
        let row = first.slice(..first.len() - 12);
        let newest = self.store.scan_row(self.epoch, &row, &range, 1)?;
        let internal = match newest.first().and_then(|(k, _)| split_window(k)) {
            Some(parts) => window_key(self.segment_ms, key, start, parts.seq + 1),
            None => first,
        };
        self.store.put(self.epoch, dirty, &internal, Some(value))?;
        Ok(true)
    }

    /// The value of one window.
    ///
    /// # Errors
    /// As the store's `get`.
    pub fn fetch(&self, key: &[u8], start: i64) -> Result<Option<Stored>> {
        if start < self.oldest() {
            return Ok(None);
        }
        self.store
            .get(self.epoch, &window_key(self.segment_ms, key, start, 0))
    }

    /// Windows of a key that start in `from..=to`, by start (descending if `reverse`), at most `limit`.
    ///
    /// # Errors
    /// As the store's `scan`.
    pub fn fetch_range(
        &self,
        key: &[u8],
        from: i64,
        to: i64,
        reverse: bool,
        limit: usize,
    ) -> Result<Vec<(i64, Stored)>> {
        let from = from.max(self.oldest());
        let mut out = Vec::new();
        for number in self.segments(from, to, reverse)? {
            let first = prefixed(number, key, from);
            let last = prefixed(number, key, to);
            let row = first.slice(..8 + key.len());
            let range = KeyRange {
                from: Some(first.slice(..first.len() - 4)),
                to: Some(after(&last)),
                reverse,
            };
            let found = self
                .store
                .scan_row(self.epoch, &row, &range, limit - out.len())?;
            for (internal, value) in found {
                out.push((self.split(&internal)?.1, value));
            }
            if out.len() >= limit {
                break;
            }
        }
        Ok(out)
    }

    /// Windows of the keys `from_key..=to_key` (`None`: unbounded) that start in `from..=to`; by
    /// segment, then by key and start.
    ///
    /// # Errors
    /// As the store's `scan`.
    pub fn fetch_keys(
        &self,
        from_key: Option<&[u8]>,
        to_key: Option<&[u8]>,
        from: i64,
        to: i64,
        reverse: bool,
    ) -> Result<Vec<WindowEntry>> {
        let from = from.max(self.oldest());
        let mut out = Vec::new();
        for number in self.segments(from, to, reverse)? {
            let range = keys_in((number, self.segment_ms), from_key, to_key, to, reverse);
            for (internal, value) in self.store.scan(self.epoch, &range, usize::MAX)? {
                let (key, start) = self.split(&internal)?;
                let wanted =
                    from_key.is_none_or(|k| *key >= *k) && to_key.is_none_or(|k| *key <= *k);
                if wanted && (from..=to).contains(&start) {
                    out.push((key, start, value));
                }
            }
        }
        Ok(out)
    }

    /// Windows of all keys that start in `from..=to`.
    ///
    /// # Errors
    /// As the store's `scan`.
    pub fn fetch_all(&self, from: i64, to: i64, reverse: bool) -> Result<Vec<WindowEntry>> {
        self.fetch_keys(None, None, from, to, reverse)
    }

    /// Everything that is not expired.
    ///
    /// # Errors
    /// As the store's `scan`.
    pub fn all(&self, reverse: bool) -> Result<Vec<WindowEntry>> {
        self.fetch_all(0, i64::MAX, reverse)
    }

    fn segments(&self, from: i64, to: i64, reverse: bool) -> Result<Vec<u64>> {
        let mut numbers = self.store.segments(from, to)?;
        debug_assert!(from > to || numbers.iter().all(|n| *n >= segment(self.segment_ms, from)));
        if reverse {
            numbers.reverse();
        }
        Ok(numbers)
    }

    fn split(&self, internal: &Bytes) -> Result<(Bytes, i64)> {
        split_window(internal)
            .map(|w| (internal.slice(8..8 + w.key.len()), w.start))
            .ok_or_else(|| short_key(self.store, internal))
    }
}

/// Segment, key, start, and the highest sequence number.
fn prefixed(number: u64, key: &[u8], start: i64) -> Bytes {
    let mut b = BytesMut::with_capacity(8 + key.len() + 12);
    b.put_u64(number);
    b.put_slice(key);
    b.put_i64(start);
    b.put_u32(u32::MAX);
    b.freeze()
}

/// The range of a segment that holds the keys `from_key..=to_key` up to the time `to`, and some others.
pub(crate) fn keys_in(
    (number, segment_ms): (u64, i64),
    from_key: Option<&[u8]>,
    to_key: Option<&[u8]>,
    to: i64,
    reverse: bool,
) -> KeyRange {
    let segment_end = number
        .saturating_add(1)
        .saturating_mul(segment_ms.cast_unsigned());
    let to = to.cast_unsigned().min(segment_end);
    let number = number.to_be_bytes();
    let end = to_key.map_or_else(
        || after_prefix(&number),
        |key| {
            // Prefixes of `to_key` are included too: the time that follows a prefix may be greater than
            // the rest of `to_key`.
            let last = |n: usize| {
                let parts = [number.as_slice(), &key[..n], &to.to_be_bytes(), &[0xff; 9]];
                parts.concat()
            };
            (0..=key.len()).map(last).max().map(Bytes::from)
        },
    );
    let from = [number.as_slice(), from_key.unwrap_or_default()].concat();
    KeyRange {
        from: Some(from.into()),
        to: end,
        reverse,
    }
}

pub(crate) fn short_key(store: &KeyValueStore, key: &[u8]) -> Error {
    Error::state_corrupt(format!(
        "store {} holds a key of {} bytes, which is too short for a {} store",
        store.name(),
        key.len(),
        store.layout().name()
    ))
}
