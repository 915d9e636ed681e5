//! The queue from all lanes to commit.
//!
//! Carries output records, offsets and sealed writes; the items of one lane stay in order. Wakes the
//! commit thread only for records and complete epochs. Items here count in the in-flight budget.

#[cfg(test)]
mod tests;

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;
use stoatflow_core::{Epoch, Lane, Offset, StoreId, Timestamp, TopicPartition};
use stoatflow_log::{CutEntry, ProducerRecord};
use stoatflow_state::{KeyRange, Sealed};

/// A dead letter, whose input record may have to be fetched again.
#[derive(Debug)]
pub struct PendingDeadLetter {
    /// The partition and the offset of the input record, if the letter has no body yet.
    pub missing: Option<(TopicPartition, Offset)>,
    /// The dead letter.
    pub record: ProducerRecord,
}

/// When a lane reached the steps of an epoch's end (monotonic).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneTimes {
    /// It has processed all records before the barrier in its first stage.
    pub reached: Duration,
    /// It has passed the barrier in its last stage.
    pub passed: Duration,
    /// All lanes have passed; it begins to seal its writes.
    pub seal: Duration,
    /// Its writes are sealed.
    pub sealed: Duration,
}

/// An item of the queue.
#[derive(Debug)]
pub enum OutboxItem {
    /// Output records of an epoch.
    Records {
        /// The epoch.
        epoch: Epoch,
        /// The records, in the lane's order.
        records: Vec<ProducerRecord>,
        /// Their weight in the admission budget: released when the records are acknowledged.
        bytes: i64,
    },
    /// Dead letters.
    DeadLetters {
        /// The epoch.
        epoch: Epoch,
        /// The letters.
        letters: Vec<PendingDeadLetter>,
        /// As in `Records`.
        bytes: i64,
    },
    /// Dispatch has ended an epoch.
    Cut {
        /// The epoch.
        epoch: Epoch,
        /// The next offset of every partition.
        cut: Vec<CutEntry>,
        /// Input records in the epoch.
        records: u64,
        /// The lowest timestamp of them.
        oldest: Option<Timestamp>,
        /// When the barrier was inserted (monotonic).
        at: Duration,
    },
    /// A lane has finished an epoch.
    Sealed {
        /// The epoch.
        epoch: Epoch,
        /// The lane.
        lane: Lane,
        /// Its writes per store, each key once.
        stores: Vec<(StoreId, Vec<Sealed>)>,
        /// Key ranges that retention drops, from lane 0.
        drops: Vec<(StoreId, KeyRange)>,
        /// When the lane got how far.
        times: LaneTimes,
    },
}

/// The items of the queue, and why the commit thread should wake.
#[derive(Debug)]
struct Waiting {
    items: VecDeque<OutboxItem>,
    /// True if there are records.
    records: bool,
    /// How many lanes have sealed the epoch.
    seals: u32,
    /// True if all lanes have, so that the epoch can be committed.
    complete: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Outbox {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    lanes: u32,
}

impl Outbox {
    /// An empty queue for this many lanes.
    #[must_use]
    pub const fn new(lanes: u32) -> Self {
        let waiting = Waiting {
            items: VecDeque::new(),
            records: false,
            seals: 0,
            complete: false,
        };
        Self {
            waiting: Mutex::new(waiting),
            wake: Condvar::new(),
            lanes,
        }
    }

    /// Appends an item; never blocks. Wakes the commit thread for records and for a complete epoch.
    pub fn push(&self, item: OutboxItem) {
        let mut waiting = self.waiting.lock();
        match &item {
            OutboxItem::Records { .. } | OutboxItem::DeadLetters { .. } => waiting.records = true,
            OutboxItem::Cut { .. } => {}
            OutboxItem::Sealed { .. } => {
                waiting.seals += 1;
                // No lane seals an epoch before the previous one is committed.
                if waiting.seals == self.lanes {
                    (waiting.seals, waiting.complete) = (0, true);
                }
            }
        }
        waiting.items.push_back(item);
        let wakes = waiting.records || waiting.complete;
        drop(waiting);
        if wakes {
            self.wake.notify_one();
        }
    }

    /// Moves all items to `inbox` (which must be empty); waits at most this long for records or a
    /// complete epoch. True if there were items.
    pub fn take_all(&self, inbox: &mut VecDeque<OutboxItem>, wait: Duration) -> bool {
        assert!(inbox.is_empty(), "what was taken before is done");
        let mut waiting = self.waiting.lock();
        if !waiting.records && !waiting.complete && !wait.is_zero() {
            self.wake.wait_for(&mut waiting, wait);
        }
        std::mem::swap(&mut waiting.items, inbox);
        (waiting.records, waiting.complete) = (false, false);
        !inbox.is_empty()
    }

    /// Wakes the commit thread without an item.
    pub fn wake_commit_thread(&self) {
        self.wake.notify_all();
    }
}
