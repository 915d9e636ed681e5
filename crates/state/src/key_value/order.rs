//! A shard's slots in key order, and which rows are completely in memory.
//!
//! A row is all entries of one key (or of one key and segment). Reads of a complete row don't need the
//! back end. No locking and no decoding here.

use super::Stored;
use super::shard::Table;
use crate::{KeyRange, Layout};
use bytes::Bytes;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Memory per remembered row, with its share of the map.
const ROW_BYTES: usize = 256;

/// The state of a row in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// All of its committed entries have slots.
    Whole,
    /// It has too many entries to keep.
    Large,
}

/// What memory holds for a key in a range.
#[derive(Debug)]
pub(super) enum Held {
    /// Its value.
    Value(Stored),
    /// Deleted, whatever the back end holds.
    Gone,
    /// A foreign value of an earlier, unsealed epoch: it must be read separately.
    Foreign,
}

/// Which keys a read selects.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyFilter<'a> {
    pub range: &'a KeyRange,
    /// Only keys of this row: a range of bytes may also contain longer keys.
    pub row: Option<&'a [u8]>,
    pub layout: Layout,
    pub limit: usize,
}

impl KeyFilter<'_> {
    pub fn is_row(&self, key: &[u8]) -> bool {
        self.row.is_none_or(|row| {
            self.layout.row_len(key.len()) == Some(row.len()) && key.starts_with(row)
        })
    }
}

/// The order of a shard's slots.
#[derive(Debug)]
pub(super) struct Order {
    layout: Layout,
    places: BTreeMap<Bytes, u32>,
    rows: HashMap<Bytes, Row, ahash::RandomState>,
    max_rows: usize,
}

impl Order {
    pub fn new(layout: Layout, budget: usize) -> Self {
        Self {
            layout,
            places: BTreeMap::new(),
            // Fixed seeds, as everywhere in the store, so that a run can be repeated.
            rows: HashMap::with_hasher(ahash::RandomState::with_seeds(0x72, 0x6f, 0x77, 0x73)),
            max_rows: (budget / ROW_BYTES).max(16),
        }
    }

    pub fn insert(&mut self, key: Bytes, at: u32) {
        self.places.insert(key, at);
    }

    /// Removes an evicted slot: its row isn't complete any more.
    pub fn remove(&mut self, key: &[u8]) {
        self.places.remove(key);
        if let Some(end) = self.layout.row_len(key.len())
            && self.rows.get(&key[..end]) == Some(&Row::Whole)
        {
            self.rows.remove(&key[..end]);
        }
    }

    /// Removes the evicted slot of a deleted key: its row stays complete.
    pub fn remove_deleted(&mut self, key: &[u8]) {
        self.places.remove(key);
    }

    /// Clears the places, because all slots get new ones; the state of rows stays.
    pub fn renumber(&mut self) {
        self.places.clear();
    }

    pub fn row(&self, row: &[u8]) -> Option<Row> {
        self.rows.get(row).copied()
    }

    pub fn remember(&mut self, row: &Bytes, state: Row) {
        if self.rows.len() >= self.max_rows {
            self.rows.clear();
        }
        self.rows.insert(Bytes::copy_from_slice(row), state);
    }

    /// Forgets rows of a range that was dropped from the back end.
    pub fn forget_rows(&mut self, range: &KeyRange) {
        self.rows.retain(|row, _| !range.contains(row));
    }

    /// Places of the keys in a range, in its order.
    fn places<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> Box<dyn Iterator<Item = (&'a Bytes, u32)> + 'a> {
        let from = range
            .from
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Included);
        let to = range
            .to
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Excluded);
        let found = self
            .places
            .range::<[u8], _>((from, to))
            .map(|(k, at)| (k, *at));
        if range.reverse {
            Box::new(found.rev())
        } else {
            Box::new(found)
        }
    }

    /// The first key at or after `from`.
    pub fn first_from(&self, from: &[u8]) -> Option<&Bytes> {
        self.places
            .range::<[u8], _>((Bound::Included(from), Bound::Unbounded))
            .next()
            .map(|(k, _)| k)
    }

    pub fn places_in(&self, range: &KeyRange) -> Vec<u32> {
        self.places(range).map(|(_, at)| at).collect()
    }
}

impl Table {
    /// Whether the row of this key is completely in memory.
    pub fn knows(&self, key: &[u8]) -> bool {
        self.order.as_ref().is_some_and(|order| {
            order
                .layout
                .row_len(key.len())
                .is_some_and(|end| order.row(&key[..end]) == Some(Row::Whole))
        })
    }

    /// Collects what memory holds for a range, until `limit` values are found. Returns `false` if some
    /// slot has no version that the reader may see, so that the back end must be read.
    pub fn collect<K: From<Bytes>>(
        &self,
        reader: u64,
        wanted: &KeyFilter<'_>,
        found: &mut Vec<(K, Held)>,
    ) -> bool {
        let Some(order) = &self.order else {
            return false;
        };
        let (mut values, mut complete) = (0, true);
        for (key, at) in order.places(wanted.range) {
            if !wanted.is_row(key) {
                continue;
            }
            let Some(version) = self.slot(at).visible(reader) else {
                complete = false;
                continue;
            };
            let held = match version.read(reader) {
                None => Held::Foreign,
                Some(value) if value.value.is_null() => Held::Gone,
                Some(value) => {
                    values += 1;
                    Held::Value(value.clone())
                }
            };
            found.push((key.clone().into(), held));
            if values == wanted.limit {
                break;
            }
        }
        complete
    }
}
