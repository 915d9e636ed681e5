//! Counts records before the exchange, for a count that emits one update per key and epoch anyway.
//!
//! Takes routed records; emits one per key whose value is the number of records it stands for. It has
//! the headers, origin and order number of the key's last record and the highest timestamp, the same as
//! the result of the count. Holds a bounded number of keys until the lane is idle or the epoch ends.
//! Holding a key costs more than sending it: if most keys have a single record, many records are passed
//! through before the next attempt.

mod key;
#[cfg(test)]
mod tests;

use crate::Routed;
use hashbrown::HashTable;
use key::{elsewhere, far, short};
use stoatflow_core::{
    Datum, Error, Headers, InlineBytes, NodeId, Offset, Order, Origin, Partition, Record, Result,
    SourceId, StageId, Timestamp,
};

/// Maximum number of keys held: more would miss the CPU cache, and their memory is not accounted for.
const MAX_KEYS: usize = 8 * 1024;
/// Minimum records between two releases to judge whether holding was worth it.
const MIN_RECORDS_TO_JUDGE: u64 = 256;
/// After holding without benefit, this many times as many records are passed through uncounted.
const BYPASS_FACTOR: u64 = 16;

/// State of a key: one CPU cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Sum {
    hash: u64,
    key: InlineBytes,
    /// Value of `taken` when this key was last seen.
    touched: u32,
    records: u32,
    timestamp: Timestamp,
    source: SourceId,
    topic: u16,
    partition: Partition,
    offset: Offset,
}

const _: () = assert!(size_of::<Sum>() == 64, "a sum is one line");

impl Sum {
    const fn come_from(&mut self, origin: &Origin) {
        (self.source, self.topic) = (origin.source, origin.topic);
        (self.partition, self.offset) = (origin.partition, origin.offset);
    }

    const fn origin(&self, order: Order) -> Origin {
        Origin {
            source: self.source,
            topic: self.topic,
            partition: self.partition,
            offset: self.offset,
            order,
        }
    }
}

/// One record per key.
#[derive(Debug, Default)]
pub(crate) struct Preaggregate {
    places: HashTable<u32>,
    sums: Vec<Sum>,
    /// Keys that are too long to be stored inline.
    long: Vec<Datum>,
    /// Headers by index in `sums`; only as long as the last key that has any.
    headers: Vec<Headers>,
    /// Node and stage that all records go to; known after the first one.
    way: Option<(NodeId, StageId)>,
    taken: u32,
    /// Order numbers of the input: each with the first `taken` that had it. Words of one line share an
    /// order number.
    orders: Vec<(u32, Order)>,
    /// How many records are passed through before the next one is held.
    by: u64,
}

impl Preaggregate {
    /// Counts a record; records that leave are appended to `out`.
    pub fn add(&mut self, mut one: Routed, out: &mut Vec<Routed>) {
        if self.by > 0 {
            self.by -= 1;
            one.record.value = Datum::Int(1);
            return out.push(one);
        }
        self.taken += 1;
        let order = one.record.origin.order;
        if self.orders.last().is_none_or(|(_, last)| *last != order) {
            self.orders.push((self.taken, order));
        }
        let Self {
            places, sums, long, ..
        } = self;
        let (hash, key) = (one.hash, short(&one.record.key));
        // Equal hashes and equal keys imply equal bytes (0.0 and -0.0 have different hashes).
        let same = |&place: &u32| {
            let sum = &sums[place as usize];
            sum.hash == hash
                && match &key {
                    Some(key) => sum.key == *key,
                    None => elsewhere(&sum.key).is_some_and(|at| long[at] == one.record.key),
                }
        };
        let place = if let Some(&place) = places.find(hash, same) {
            let sum = &mut sums[place as usize];
            sum.touched = self.taken;
            sum.records += 1;
            sum.timestamp = sum.timestamp.max(one.record.timestamp);
            sum.come_from(&one.record.origin);
            place as usize
        } else {
            let key = key.unwrap_or_else(|| {
                // A word that is a slice of its line would keep the whole line in memory.
                one.record.key.unshare();
                long.push(std::mem::take(&mut one.record.key));
                far(index(long.len() - 1))
            });
            places.insert_unique(hash, index(sums.len()), |&at| sums[at as usize].hash);
            let Origin {
                source,
                topic,
                partition,
                offset,
                ..
            } = one.record.origin;
            sums.push(Sum {
                hash,
                key,
                touched: self.taken,
                records: 1,
                timestamp: one.record.timestamp,
                source,
                topic,
                partition,
                offset,
            });
            self.way = Some((one.via, one.stage));
            sums.len() - 1
        };
        if one.record.headers.is_some() || place < self.headers.len() {
            if place >= self.headers.len() {
                self.headers.resize_with(place + 1, Headers::default);
            }
            self.headers[place] = one.record.headers;
        }
        if self.sums.len() == MAX_KEYS || self.taken == u32::MAX {
            self.release(out);
        }
    }

    /// Emits everything held, in the order of each key's last record.
    pub fn release(&mut self, out: &mut Vec<Routed>) {
        let (keys, taken) = (self.sums.len() as u64, u64::from(self.taken));
        if taken >= MIN_RECORDS_TO_JUDGE && taken < 2 * keys {
            self.by = BYPASS_FACTOR * taken;
        }
        self.places.clear();
        self.taken = 0;
        let Some((via, stage)) = self.way else {
            return;
        };
        let placed = (0..).zip(&self.sums);
        let mut order: Vec<(u32, u32)> = placed.map(|(at, sum)| (sum.touched, at)).collect();
        order.sort_unstable();
        let mut orders = self.orders.drain(..).peekable();
        let mut place = Order::default();
        out.extend(order.into_iter().map(|(touched, at)| {
            while let Some((_, next)) = orders.next_if(|(first, _)| *first <= touched) {
                place = next;
            }
            let sum = &self.sums[at as usize];
            let headers = self.headers.get_mut(at as usize).and_then(Option::take);
            Routed {
                via,
                stage,
                hash: sum.hash,
                record: Record {
                    key: key::datum(&sum.key, &mut self.long),
                    value: Datum::Int(sum.records.into()),
                    timestamp: sum.timestamp,
                    headers,
                    origin: sum.origin(place),
                },
            }
        }));
        drop(orders);
        self.sums.clear();
        self.long.clear();
        self.headers.clear();
    }
}

/// Never truncates: there are at most [`MAX_KEYS`] keys.
fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Number of records that a value stands for.
pub(crate) fn records(value: &Datum) -> Result<i64> {
    match value {
        Datum::Int(records) => Ok(*records),
        other => Err(Error::internal(format!(
            "a count got a value of type {} instead of a number of records",
            other.type_name()
        ))),
    }
}
