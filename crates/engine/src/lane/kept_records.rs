//! The latest input records, for dead letters of records that have left the batch they came in.
//!
//! A record may fail behind an exchange, in another lane, or in an async call. Its dead letter has the bytes
//! of the input record. Lanes keep those here for a while instead of dropping them with the batch, in bounded
//! memory; what is not here any more is fetched again by [`crate::commit`].
//!
//! Under exactly-once that would take place within the open transaction. So records of epochs that aren't
//! committed stay, and dispatch ends an epoch when its records fill the room that is meant for them
//! ([`stoatflow_protocol::Schedule::max_bytes`]). While that one is committed, the next may become twice as
//! large: so at most three times as much is kept.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use stoatflow_core::{Epoch, Lane};
use stoatflow_log::ConsumerRecord;

/// Memory of a record besides its key and value.
const OVERHEAD: usize = size_of::<ConsumerRecord>() + 32;

#[derive(Debug, Default)]
struct Ring {
    records: VecDeque<ConsumerRecord>,
    /// How many records of which epoch, oldest first.
    epochs: VecDeque<(Epoch, usize)>,
    bytes: usize,
}

impl Ring {
    fn append(&mut self, epoch: Epoch, batch: Vec<ConsumerRecord>) -> usize {
        let bytes = batch.iter().map(weight).sum();
        match self.epochs.back_mut() {
            Some((last, count)) if *last == epoch => *count += batch.len(),
            _ => self.epochs.push_back((epoch, batch.len())),
        }
        self.records.extend(batch);
        self.bytes += bytes;
        bytes
    }

    fn drop_oldest(&mut self) -> usize {
        while self.epochs.front().is_some_and(|(_, count)| *count == 0) {
            self.epochs.pop_front();
        }
        let Some(oldest) = self.records.pop_front() else {
            return 0;
        };
        if let Some((_, count)) = self.epochs.front_mut() {
            *count -= 1;
        }
        let bytes = weight(&oldest);
        self.bytes -= bytes;
        bytes
    }

    /// The epoch of its oldest record.
    fn oldest(&self) -> Option<Epoch> {
        let mut filled = self.epochs.iter().filter(|(_, count)| *count > 0);
        filled.next().map(|(epoch, _)| *epoch)
    }
}

/// Of all lanes.
#[derive(Debug)]
pub struct KeptRecords {
    lanes: Vec<Mutex<Ring>>,
    bytes: AtomicUsize,
}

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct Keep {
    /// Bytes of all lanes.
    pub most: usize,
    /// Records of epochs after this one stay.
    pub committed: Epoch,
}

impl KeptRecords {
    /// Nothing is kept yet.
    #[must_use]
    pub fn new(lanes: u32) -> Self {
        Self {
            lanes: (0..lanes).map(|_| Mutex::default()).collect(),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Keeps a batch that the lane is done with, and drops its oldest records where there are too many:
    /// more than `most` bytes in all lanes, and more than its share in this one.
    pub fn keep(&self, lane: Lane, epoch: Epoch, batch: Vec<ConsumerRecord>, keep: Keep) {
        let Some(ring) = self.lanes.get(lane.0 as usize) else {
            return;
        };
        let mut ring = ring.lock();
        let more = ring.append(epoch, batch);
        let mut all = self.bytes.fetch_add(more, Relaxed) + more;
        while all > keep.most
            && ring.bytes > keep.most / self.lanes.len()
            && ring.oldest().is_some_and(|oldest| oldest <= keep.committed)
        {
            let less = ring.drop_oldest();
            all = self.bytes.fetch_sub(less, Relaxed) - less;
        }
    }

    /// The record, if it is still kept.
    #[must_use]
    pub fn find(&self, is: impl Fn(&ConsumerRecord) -> bool) -> Option<ConsumerRecord> {
        self.lanes.iter().find_map(|ring| {
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
