//! Reads within one row, and finds the segments of a store.
//!
//! A row that was read once stays completely in memory until one of its slots is evicted; until then the
//! back end isn't read. Also tracks the highest segment, and forgets dropped ones. As everywhere in the
//! store, bytes are read and decoded before the lock is taken.

use super::order::{Held, KeyFilter, Row};
use super::scan::{is_empty, merge};
use super::slot::stamp;
use super::{KeyValueStore, Stored};
use crate::{KeyRange, Layout, segment};
use bytes::Bytes;
use std::sync::OnceLock;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Result};

/// Rows with more entries aren't kept.
const MAX_ROW: usize = 4_096;
/// Up to this many segments are tried one by one; if there may be more, existing ones are searched.
const FEW_SEGMENTS: u64 = 16;

/// The highest segment ever written.
#[derive(Debug)]
pub(super) struct TopSegment {
    written: AtomicI64,
    on_disk: OnceLock<i64>,
}

impl Default for TopSegment {
    fn default() -> Self {
        Self {
            written: AtomicI64::new(-1),
            on_disk: OnceLock::new(),
        }
    }
}

fn segment_of(key: &[u8]) -> i64 {
    key.first_chunk::<8>()
        .map_or(0, |b| i64::from_be_bytes(*b).max(0))
}

impl TopSegment {
    #[inline]
    pub fn wrote(&self, layout: Layout, key: &[u8]) {
        if layout.segment_len() > 0 {
            self.raise(key);
        }
    }

    fn raise(&self, key: &[u8]) {
        let number = segment_of(key);
        if self.written.load(Relaxed) < number {
            self.written.fetch_max(number, Relaxed);
        }
    }
}

impl KeyValueStore {
    /// Entries of one row in a range, as `epoch` sees them, at most `limit`.
    pub(crate) fn scan_row(
        &self,
        epoch: Epoch,
        row: &Bytes,
        range: &KeyRange,
        limit: usize,
    ) -> Result<Vec<(Bytes, Stored)>> {
        if limit == 0 || is_empty(range) {
            return Ok(Vec::new());
        }
        let wanted = KeyFilter {
            range,
            row: Some(row),
            layout: self.layout,
            limit,
        };
        let shard = self.shard_of(self.hash(&row[self.layout.segment_len()..]));
        let mut held = Vec::new();
        let (state, generation, complete) = {
            let table = shard.lock();
            let state = table.order.as_ref().and_then(|o| o.row(row));
            let complete =
                state == Some(Row::Whole) && table.collect(stamp(epoch), &wanted, &mut held);
            (state, table.committed, complete)
        };
        if complete {
            return self.values(epoch, held, limit);
        }
        // If a `Whole` row is not complete for this reader, the next epoch has written a slot, which
        // hides what the back end holds below it.
        if state.is_none()
            && let Some(found) = self.load_row(epoch, row, &wanted, generation)?
        {
            return Ok(found);
        }
        self.scan_wanted(epoch, &wanted, std::slice::from_ref(shard))
    }

    /// The values that memory alone provides.
    fn values(
        &self,
        epoch: Epoch,
        held: Vec<(Bytes, Held)>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Stored)>> {
        let mut out = Vec::with_capacity(held.len().min(limit));
        for (key, held) in held {
            let value = match held {
                Held::Value(value) => Some(value),
                Held::Gone => None,
                Held::Foreign => self.get(epoch, &key)?,
            };
            if let Some(value) = value {
                out.push((key, value));
                if out.len() == limit {
                    break;
                }
            }
        }
        Ok(out)
    }

    /// Reads a row from the back end and caches it; `None` if it is too large, or an epoch was committed
    /// meanwhile.
    fn load_row(
        &self,
        epoch: Epoch,
        row: &Bytes,
        wanted: &KeyFilter<'_>,
        generation: u64,
    ) -> Result<Option<Vec<(Bytes, Stored)>>> {
        let shard = self.shard_of(self.hash(&row[self.layout.segment_len()..]));
        let all = KeyRange {
            from: Some(row.clone()),
            to: after_prefix(row),
            reverse: wanted.range.reverse,
        };
        let raw = self.backend.scan(self.id, &all, MAX_ROW + 1)?;
        if raw.len() > MAX_ROW {
            let mut table = shard.lock();
            if let Some(order) = &mut table.order {
                order.remember(row, Row::Large);
            }
            return Ok(None);
        }
        let mut loaded = Vec::with_capacity(raw.len());
        for (key, bytes) in raw.into_iter().filter(|(k, _)| wanted.is_row(k)) {
            loaded.push((self.hash(&key), key, self.decode_stored(bytes)?));
        }
        let mut trash = Vec::new();
        let mut held = Vec::new();
        let mut table = shard.lock();
        if table.committed != generation {
            drop(table);
            return Ok(None);
        }
        if let Some(order) = &mut table.order {
            // Before the inserts, because an eviction below undoes it.
            order.remember(row, Row::Whole);
        }
        for (hash, key, value) in &loaded {
            if table.find(*hash, key).is_none() {
                table.insert_committed(*hash, key, Some(value.clone()), &mut trash);
            }
        }
        table.collect(stamp(epoch), wanted, &mut held);
        shard.publish(&table);
        drop(table);
        drop(trash);
        let held = self.settle(epoch, held)?;
        let loaded = loaded
            .into_iter()
            .map(|(_, key, value)| (key, value))
            .filter(|(key, _)| wanted.range.contains(key))
            .collect();
        merge(wanted.range, wanted.limit, held, loaded, Ok).map(Some)
    }

    /// The segments that may hold entries of the times `from..=to`, ascending.
    pub(crate) fn segments(&self, from: i64, to: i64) -> Result<Vec<u64>> {
        let (Layout::Window { segment_ms, .. } | Layout::Session { segment_ms, .. }) = self.layout
        else {
            return Ok(Vec::new());
        };
        let top = self.top_segment()?;
        if to < 0 || from > to || top < 0 {
            return Ok(Vec::new());
        }
        let first = segment(segment_ms, from);
        let last = segment(segment_ms, to).min(top.cast_unsigned());
        if last < first || last - first < FEW_SEGMENTS {
            return Ok((first..=last).collect());
        }
        let mut found = Vec::new();
        let mut next = first;
        while let Some(number) = self.next_segment(next)?.filter(|n| *n <= last) {
            found.push(number);
            next = number + 1;
        }
        Ok(found)
    }

    fn top_segment(&self) -> Result<i64> {
        let on_disk = match self.top.on_disk.get() {
            Some(top) => *top,
            None => {
                let last = KeyRange {
                    reverse: true,
                    ..KeyRange::default()
                };
                let last = self.backend.scan(self.id, &last, 1)?;
                let top = last.first().map_or(-1, |(key, _)| segment_of(key));
                *self.top.on_disk.get_or_init(|| top)
            }
        };
        Ok(on_disk.max(self.top.written.load(Relaxed)))
    }

    /// The first segment at or after `number` that has an entry.
    fn next_segment(&self, number: u64) -> Result<Option<u64>> {
        let from = Bytes::copy_from_slice(&number.to_be_bytes());
        let mut least: Option<i64> = None;
        for shard in &self.shards {
            let table = shard.lock();
            let first = table.order.as_ref().and_then(|o| o.first_from(&from));
            if let Some(found) = first.map(|k| segment_of(k)) {
                least = Some(least.map_or(found, |l| l.min(found)));
            }
        }
        let range = KeyRange {
            from: Some(from),
            ..KeyRange::default()
        };
        if let Some((key, _)) = self.backend.scan(self.id, &range, 1)?.first() {
            let found = segment_of(key);
            least = Some(least.map_or(found, |l| l.min(found)));
        }
        Ok(least.map(i64::cast_unsigned))
    }

    /// Call after the commit of an epoch that dropped this range: its committed entries are removed from
    /// memory too. Uncommitted ones stay.
    pub fn forget(&self, range: &KeyRange) {
        if is_empty(range) {
            return;
        }
        for shard in &self.shards {
            let (mut slots, mut versions) = (Vec::new(), Vec::new());
            let mut table = shard.lock();
            let places: Vec<u32> = match &mut table.order {
                Some(order) => {
                    order.forget_rows(range);
                    order.places_in(range)
                }
                None => table
                    .live()
                    .filter(|(_, slot)| range.contains(&slot.key))
                    .map(|(at, _)| at)
                    .collect(),
            };
            for at in places {
                let slot = table.slot(at);
                if slot.listed {
                    table.remove_committed(at, &mut versions);
                } else if slot.pins == 0 {
                    slots.extend(table.remove(at));
                } else {
                    // A lane is computing a new value from it: only its committed value is removed.
                    versions.push(table.clear(at));
                }
            }
            shard.publish(&table);
            drop(table);
            drop((slots, versions));
        }
    }
}

/// The smallest key greater than this one.
#[must_use]
pub fn after(key: &[u8]) -> Bytes {
    [key, b"\0"].concat().into()
}

/// The smallest key greater than every key with this prefix, if there is one.
#[must_use]
pub fn after_prefix(prefix: &[u8]) -> Option<Bytes> {
    let kept = prefix.iter().rposition(|b| *b != 0xff)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(Bytes::from(end))
}
