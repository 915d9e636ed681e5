//! The latest input records, for dead letters of records that have left the batch they came in.
//!
//! A record may fail behind an exchange, in another lane, or in an async call. Its dead letter has the bytes
//! of the input record. Lanes keep those here for a while instead of dropping them with the batch, in bounded
//! memory; what is not here any more is fetched again by [`crate::commit`].

use parking_lot::Mutex;
use std::collections::VecDeque;
use stoatflow_core::Lane;
use stoatflow_log::ConsumerRecord;

/// Memory of a record besides its key and value.
const OVERHEAD: usize = size_of::<ConsumerRecord>() + 32;

#[derive(Debug, Default)]
struct Ring {
    records: VecDeque<ConsumerRecord>,
    bytes: usize,
}

/// Of all lanes.
#[derive(Debug)]
pub struct KeptRecords(Vec<Mutex<Ring>>);

impl KeptRecords {
    /// Nothing is kept yet.
    #[must_use]
    pub fn new(lanes: u32) -> Self {
        Self((0..lanes).map(|_| Mutex::default()).collect())
    }

    /// Keeps a batch that the lane is done with, and drops the oldest records beyond `most` bytes.
    pub fn keep(&self, lane: Lane, batch: Vec<ConsumerRecord>, most: usize) {
        let Some(ring) = self.0.get(lane.0 as usize) else {
            return;
        };
        let mut ring = ring.lock();
        ring.bytes += batch.iter().map(weight).sum::<usize>();
        ring.records.extend(batch);
        while ring.bytes > most {
            let Some(oldest) = ring.records.pop_front() else {
                break;
            };
            ring.bytes -= weight(&oldest);
        }
    }

    /// The record, if it is still kept.
    #[must_use]
    pub fn find(&self, is: impl Fn(&ConsumerRecord) -> bool) -> Option<ConsumerRecord> {
        self.0.iter().find_map(|ring| {
            let ring = ring.lock();
            ring.records.iter().rev().find(|record| is(record)).cloned()
        })
    }
}

fn weight(record: &ConsumerRecord) -> usize {
    let length = |part: &Option<bytes::Bytes>| part.as_ref().map_or(0, bytes::Bytes::len);
    let headers = record.headers.iter().flat_map(|headers| headers.iter());
    let headers: usize = headers.map(|h| 64 + length(&h.value)).sum();
    OVERHEAD + length(&record.key) + length(&record.value) + headers
}

#[cfg(test)]
mod tests;
