//! A run of restored changelog records, on its way into a back end.
//!
//! Returns the writes in changelog order, or sorted with only the last one of each key. All bytes are in
//! one block: a record costs no allocation, and a run of millions moves between threads as three
//! pointers.

use crate::Write;
use bytes::Bytes;
use std::cmp::Ordering;

#[cfg(test)]
mod tests;

/// Stands for the length of a deleted record's value.
const DELETED: u32 = u32::MAX;
/// Bytes before each record: the lengths of key and value.
const HEADER: usize = 8;
/// Memory for sorting, per record.
const SORT_BYTES: usize = size_of::<SortKey>();

/// A record's sort key: the first 16 bytes after the prefix that all keys share. They nearly always
/// decide the order, so the block is rarely read.
#[derive(Clone, Copy, Debug)]
struct SortKey {
    high: u64,
    low: u64,
    at: usize,
}

/// One record in the block: key, value.
type Record<'a> = (&'a [u8], Option<&'a [u8]>);

/// Restored records, see the module.
#[derive(Clone, Debug, Default)]
pub struct RestoreRun {
    /// Lengths, key and value of one record after the other.
    block: Vec<u8>,
    len: usize,
    /// Length of the prefix that all keys share.
    shared: usize,
}

impl RestoreRun {
    /// Appends a record; key and value are given in parts. `None` deletes the key.
    ///
    /// # Panics
    /// If a key or a value is 4 GiB or longer: no broker has such a record.
    pub fn push(&mut self, key: &[&[u8]], value: Option<&[&[u8]]>) {
        let at = self.block.len();
        let size = |parts: &[&[u8]]| length(parts.iter().map(|p| p.len()).sum());
        self.block.extend_from_slice(&size(key).to_le_bytes());
        let value_len = value.map_or(DELETED, size);
        self.block.extend_from_slice(&value_len.to_le_bytes());
        for part in key.iter().chain(value.unwrap_or_default()) {
            self.block.extend_from_slice(part);
        }
        self.len += 1;
        self.shared = if at == 0 {
            self.record(0).0.len()
        } else {
            let (first, this) = (&self.record(0).0[..self.shared], self.record(at).0);
            if this.starts_with(first) {
                self.shared
            } else {
                first.iter().zip(this).take_while(|(a, b)| a == b).count()
            }
        };
    }

    /// Appends a write.
    pub fn push_write(&mut self, write: &Write) {
        let value = write.value.as_ref().map(|v| [v.as_ref()]);
        self.push(&[&write.key], value.as_ref().map(|v| &v[..]));
    }

    /// How many records there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True if there are no records.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory in use, including what sorting needs.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.block.len() + self.len * SORT_BYTES
    }

    /// All records in the order in which they were pushed.
    pub fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        self.places().map(|at| self.record(at))
    }

    /// As [`Self::iter`], as parts of one buffer that is copied for the caller.
    pub fn copied(&self) -> impl Iterator<Item = (Bytes, Option<Bytes>)> {
        let block = Bytes::copy_from_slice(&self.block);
        self.iter().map(move |(key, value)| {
            let part = |of: &[u8]| {
                let from = of.as_ptr().addr() - self.block.as_ptr().addr();
                block.slice(from..from + of.len())
            };
            (part(key), value.map(part))
        })
    }

    /// The last record of each key, in the order of keys.
    pub fn sorted(&self) -> impl Iterator<Item = Record<'_>> {
        let mut places: Vec<SortKey> = Vec::with_capacity(self.len);
        places.extend(self.places().map(|at| {
            let rest = &self.record(at).0[self.shared..];
            SortKey {
                high: word(rest, 0),
                low: word(rest, 8),
                at,
            }
        }));
        places.sort_unstable_by(|a, b| self.order(a, b));
        let mut places = places.into_iter().peekable();
        std::iter::from_fn(move || {
            loop {
                let place = places.next()?;
                let record = self.record(place.at);
                // Records of one key are in order: the last one counts.
                let repeated = places.peek().is_some_and(|next| {
                    (next.high, next.low) == (place.high, place.low)
                        && self.record(next.at).0 == record.0
                });
                if !repeated {
                    return Some(record);
                }
            }
        })
    }

    /// All records as separate writes that don't keep the block alive.
    #[must_use]
    pub fn into_writes(self) -> Vec<Write> {
        let write = |(key, value): Record<'_>| Write {
            key: Bytes::copy_from_slice(key),
            value: value.map(Bytes::copy_from_slice),
        };
        self.iter().map(write).collect()
    }

    /// The offsets of records in the block.
    fn places(&self) -> impl Iterator<Item = usize> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let here = at;
            (here < self.block.len()).then(|| {
                let value = self.number(here + 4);
                let value = if value == DELETED { 0 } else { value };
                at += HEADER + self.number(here) as usize + value as usize;
                here
            })
        })
    }

    #[inline]
    fn number(&self, at: usize) -> u32 {
        let bytes = self.block[at..].first_chunk();
        u32::from_le_bytes(*bytes.expect("each record begins with two lengths"))
    }

    #[inline]
    fn record(&self, at: usize) -> Record<'_> {
        let (key, value) = (self.number(at), self.number(at + 4));
        let middle = at + HEADER + key as usize;
        let value = (value != DELETED).then(|| &self.block[middle..middle + value as usize]);
        (&self.block[at + HEADER..middle], value)
    }

    #[inline]
    fn order(&self, a: &SortKey, b: &SortKey) -> Ordering {
        (a.high, a.low).cmp(&(b.high, b.low)).then_with(|| {
            let key = |place: &SortKey| self.record(place.at).0;
            key(a).cmp(key(b)).then(a.at.cmp(&b.at))
        })
    }
}

impl FromIterator<Write> for RestoreRun {
    fn from_iter<I: IntoIterator<Item = Write>>(writes: I) -> Self {
        let mut run = Self::default();
        for write in writes {
            run.push_write(&write);
        }
        run
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes)
        .ok()
        .filter(|n| *n != DELETED)
        .expect("a record of a broker is shorter than 4 GiB")
}

/// The eight bytes from `at` on as a number that orders like them; missing bytes are zero.
fn word(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    if let Some(whole) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*whole);
    }
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(word)
}
