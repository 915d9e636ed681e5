//! Range reads over memory and the back end.
//!
//! Memory is read first and the back end second: a commit in between moves entries from memory to the
//! back end, so the other order could miss them.

use super::order::{Held, KeyFilter};
use super::rows::after;
use super::shard::Shard;
use super::slot::stamp;
use super::slot_key::SlotKey;
use super::{KeyValueStore, Stored};
use crate::KeyRange;
use bytes::Bytes;
use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Result};

impl KeyRange {
    /// Whether the key is in the range.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.from.as_ref().is_none_or(|from| key >= from.as_ref())
            && self.to.as_ref().is_none_or(|to| key < to.as_ref())
    }

    /// The order of two keys in this range.
    #[must_use]
    pub fn order(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.reverse { b.cmp(a) } else { a.cmp(b) }
    }
}

/// True if no key can be in the range.
pub(super) fn is_empty(range: &KeyRange) -> bool {
    matches!((&range.from, &range.to), (Some(from), Some(to)) if from >= to)
}

impl KeyValueStore {
    /// Entries in byte order of keys (descending if the range says so) as `epoch` sees them, at
    /// most `limit`. Each entry is consistent by itself; other lanes may write between two of them.
    ///
    /// # Errors
    /// Those of `get`.
    pub fn scan(
        &self,
        epoch: Epoch,
        range: &KeyRange,
        limit: usize,
    ) -> Result<Vec<(Bytes, Stored)>> {
        if limit == 0 || is_empty(range) {
            return Ok(Vec::new());
        }
        let wanted = KeyFilter {
            range,
            row: None,
            layout: self.layout,
            limit,
        };
        self.scan_wanted(epoch, &wanted, &self.shards)
    }

    /// Merges memory over the back end.
    pub(super) fn scan_wanted(
        &self,
        epoch: Epoch,
        wanted: &KeyFilter<'_>,
        shards: &[Shard],
    ) -> Result<Vec<(Bytes, Stored)>> {
        let (range, limit) = (wanted.range, wanted.limit);
        let mut held = self.held_in(epoch, wanted, shards);
        let mut rest = range.clone();
        // Entries after the last wanted value in memory aren't needed from the back end either.
        let nth = held
            .iter()
            .enumerate()
            .filter(|(_, (_, h))| matches!(h, Held::Value(_)))
            .nth(limit - 1)
            .map(|(i, (key, _))| (i, key.to_bytes()));
        if let Some((last, key)) = nth {
            if range.reverse {
                rest.from = Some(key);
            } else {
                rest.to = Some(after(&key));
            }
            held.truncate(last + 1);
        }
        let gone = held.len()
            - held
                .iter()
                .filter(|(_, h)| matches!(h, Held::Value(_)))
                .count();
        // Only now, for the entries that are left, because short keys are copied here.
        let held = held.into_iter().map(|(key, held)| (key.into_bytes(), held));
        let held = self.settle(epoch, held.collect())?;
        let committed = self.committed_in(&rest, limit.saturating_add(gone), wanted)?;
        merge(range, limit, held, committed, |b| self.decode_stored(b))
    }

    /// What memory holds for the range, sorted.
    fn held_in(
        &self,
        epoch: Epoch,
        wanted: &KeyFilter<'_>,
        shards: &[Shard],
    ) -> Vec<(SlotKey, Held)> {
        let reader = stamp(epoch);
        let mut found = Vec::new();
        for shard in shards {
            if shard.entries.load(Relaxed) == 0 {
                continue;
            }
            let table = shard.lock();
            if table.order.is_some() {
                table.collect(reader, wanted, &mut found);
                continue;
            }
            for slot in table.staged().filter(|s| wanted.range.contains(&s.key)) {
                let Some(version) = slot.visible(reader).filter(|v| v.stamp > 0) else {
                    continue;
                };
                let held = match version.read(reader) {
                    Some(value) if value.value.is_null() => Held::Gone,
                    Some(value) => Held::Value(value.clone()),
                    None => Held::Foreign,
                };
                found.push((slot.key.clone(), held));
            }
        }
        if shards.len() > 1 {
            let order =
                |(a, _): &(SlotKey, Held), (b, _): &(SlotKey, Held)| wanted.range.order(a, b);
            // So many entries from the front contain all wanted values, even if none of the others turns
            // out to have a value.
            let others = found
                .iter()
                .filter(|(_, held)| !matches!(held, Held::Value(_)));
            let enough = wanted.limit.saturating_add(others.count());
            if enough < found.len() {
                found.select_nth_unstable_by(enough, order);
                found.truncate(enough);
            }
            found.sort_unstable_by(order);
        }
        found
    }

    /// Reads foreign values, which must be copied, without the lock.
    pub(super) fn settle(
        &self,
        epoch: Epoch,
        held: Vec<(Bytes, Held)>,
    ) -> Result<Vec<(Bytes, Option<Stored>)>> {
        held.into_iter()
            .map(|(key, held)| {
                let value = match held {
                    Held::Value(value) => Some(value),
                    Held::Gone => None,
                    Held::Foreign => self.get(epoch, &key)?,
                };
                Ok((key, value))
            })
            .collect()
    }

    /// Committed entries, at most `limit`; keys of other rows are skipped.
    fn committed_in(
        &self,
        range: &KeyRange,
        limit: usize,
        wanted: &KeyFilter<'_>,
    ) -> Result<Vec<(Bytes, Bytes)>> {
        let mut rest = range.clone();
        let mut found: Vec<(Bytes, Bytes)> = Vec::new();
        loop {
            let missing = limit - found.len();
            let page = self.backend.scan(self.id, &rest, missing)?;
            let full = page.len() == missing;
            if let Some((last, _)) = page.last() {
                if rest.reverse {
                    rest.to = Some(last.clone());
                } else {
                    rest.from = Some(after(last));
                }
            }
            found.extend(page.into_iter().filter(|(k, _)| wanted.is_row(k)));
            if !full || found.len() == limit {
                return Ok(found);
            }
        }
    }
}

/// Merges both sides in the order of the range; memory wins.
pub(super) fn merge<T>(
    range: &KeyRange,
    limit: usize,
    held: Vec<(Bytes, Option<Stored>)>,
    committed: Vec<(Bytes, T)>,
    decode: impl Fn(T) -> Result<Stored>,
) -> Result<Vec<(Bytes, Stored)>> {
    let mut out = Vec::new();
    let (mut held, mut committed) = (
        held.into_iter().peekable(),
        committed.into_iter().peekable(),
    );
    while out.len() < limit {
        let side = match (held.peek(), committed.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => range.order(a, b),
        };
        if side == Ordering::Greater {
            if let Some((key, value)) = committed.next() {
                out.push((key, decode(value)?));
            }
            continue;
        }
        if side == Ordering::Equal {
            committed.next();
        }
        if let Some((key, Some(value))) = held.next() {
            out.push((key, value));
        }
    }
    Ok(out)
}
