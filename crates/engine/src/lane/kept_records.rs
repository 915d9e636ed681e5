//! The latest input records, for dead letters of records that have left their input batch.
//!
//! A record may fail behind an exchange, in another lane, or in an async call. Its dead letter has the
//! bytes of the input record. Lanes keep input records here for a while, in bounded memory, instead of
//! dropping them with the batch. [`crate::commit`] fetches again those that are no longer here.
//!
//! Under exactly-once that fetch would happen within the open transaction. So records of uncommitted
//! epochs stay, and dispatch ends an epoch when its records fill the memory that is reserved for them
//! ([`stoatflow_protocol::Schedule::max_bytes`]). While that epoch is committed, the next may become
//! twice as large, so at most three times as much is kept.

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
    /// The number of records per epoch, oldest first.
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

/// The kept records of all lanes.
#[derive(Debug)]
pub struct KeptRecords {
    lanes: Vec<Mutex<Ring>>,
    bytes: AtomicUsize,
}

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct KeepLimits {
    /// Maximum bytes of all lanes.
    pub most: usize,
    /// Records of epochs after this one stay.
    pub committed: Epoch,
}

impl KeptRecords {
    /// Starts empty.
    #[must_use]
    pub fn new(lanes: u32) -> Self {
        Self {
            lanes: (0..lanes).map(|_| Mutex::default()).collect(),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Keeps a batch that the lane has processed. Drops the lane's oldest committed records while all
    /// lanes together have more than `most` bytes, and this lane more than its share.
    pub fn keep(&self, lane: Lane, epoch: Epoch, batch: Vec<ConsumerRecord>, keep: KeepLimits) {
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

    /// The latest matching record of a lane, if one is still kept.
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
