//! Counting before the walk: what goes to a count that gives one update per key and epoch anyway.
//!
//! Takes routed records, gives one per key, whose value says how many it stands for. It is the last of its
//! key in all else (headers, origin, its place among the others), and has the highest time: as the count
//! would have made it. Owns what it holds back, of a bounded number of keys, until its lane has nothing else
//! to do or the epoch ends. To hold a key costs more than to send it: where most records are the only ones of their
//! key, many go by before it tries again.

#[cfg(test)]
mod tests;

use crate::Routed;
use hashbrown::HashTable;
use stoatflow_core::{Datum, Error, Result};

/// Most keys at a time: more would not be found in the processor's cache, and are memory that nobody accounts for.
const MOST: usize = 8 * 1024;
/// What a lane that is soon idle again has held tells nothing about its keys.
const TELLING: u64 = 256;
/// So many times what was held in vain goes by.
const BY: u64 = 16;

#[derive(Debug)]
struct Sum {
    /// Counts records: when it was last touched.
    touched: u64,
    records: i64,
    last: Routed,
}

/// One record per key.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    places: HashTable<usize>,
    sums: Vec<Sum>,
    taken: u64,
    /// How many go by before the next one is held.
    by: u64,
}

impl Ahead {
    /// Counts a record; `out` gets what goes on.
    pub fn add(&mut self, mut one: Routed, out: &mut Vec<Routed>) {
        if self.by > 0 {
            self.by -= 1;
            one.record.value = Datum::Int(1);
            return out.push(one);
        }
        let Self {
            places,
            sums,
            taken,
            ..
        } = self;
        *taken += 1;
        // Keys that are the same have the same bytes if their hashes are the same as well (0.0 and -0.0).
        let same = |&place: &usize| {
            let other = &sums[place].last;
            other.hash == one.hash && other.record.key == one.record.key
        };
        if let Some(&place) = places.find(one.hash, same) {
            let sum = &mut sums[place];
            sum.touched = *taken;
            sum.records += 1;
            let last = &mut sum.last.record;
            last.timestamp = last.timestamp.max(one.record.timestamp);
            last.headers = one.record.headers;
            last.origin = one.record.origin;
            return;
        }
        // A word would keep its line.
        one.record.key.unshare();
        one.record.value = Datum::Null;
        places.insert_unique(one.hash, sums.len(), |&place| sums[place].last.hash);
        sums.push(Sum {
            touched: *taken,
            records: 1,
            last: one,
        });
        if sums.len() == MOST {
            self.release(out);
        }
    }

    /// Gives everything held, in the order of each key's last record.
    pub fn release(&mut self, out: &mut Vec<Routed>) {
        let keys = self.sums.len() as u64;
        if self.taken >= TELLING && self.taken < 2 * keys {
            self.by = BY * self.taken;
        }
        self.places.clear();
        self.taken = 0;
        self.sums.sort_unstable_by_key(|sum| sum.touched);
        out.extend(self.sums.drain(..).map(|sum| {
            let mut routed = sum.last;
            routed.record.value = Datum::Int(sum.records);
            routed
        }));
    }
}

/// How many records a value says that it stands for.
pub(crate) fn records(value: &Datum) -> Result<i64> {
    match value {
        Datum::Int(records) => Ok(*records),
        other => Err(Error::internal(format!(
            "a count got a value of type {} instead of a number of records",
            other.type_name()
        ))),
    }
}
