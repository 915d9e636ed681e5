//! What leaves the lanes: one queue from all of them to commit.
//!
//! Takes encoded records, cuts and seals, gives them to the commit room in the order they came (per
//! lane in the lane's order). Owns the waiting items, and when they are worth waking commit for; what waits is weighed in the admission
//! budget, like what waits for lanes. Never produces: only the commit room owns a producer.

#[cfg(test)]
mod tests;

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;
use stoatflow_core::{Epoch, Lane, Offset, StoreId, TopicPartition};
use stoatflow_log::{CutEntry, ProducerRecord};
use stoatflow_state::{KeyRange, Sealed};

/// A dead letter whose record is not at hand any more.
#[derive(Debug)]
pub struct PendingDeadLetter {
    /// Where the record is.
    pub from: TopicPartition,
    /// And at which offset.
    pub offset: Offset,
    /// The letter without its body.
    pub record: ProducerRecord,
}

/// What commit can find.
#[derive(Debug)]
pub enum OutboxItem {
    /// Output records of an epoch.
    Records {
        /// The epoch.
        epoch: Epoch,
        /// The records, in the lane's order.
        records: Vec<ProducerRecord>,
        /// Their weight in the admission budget: released when the producer has them.
        bytes: i64,
    },
    /// Dead letters of an epoch whose records are to be read again.
    DeadLetters {
        /// The epoch.
        epoch: Epoch,
        /// The letters.
        letters: Vec<PendingDeadLetter>,
        /// As of `Records`.
        bytes: i64,
    },
    /// The dispatcher ended an epoch: where its partitions go on.
    Cut {
        /// The epoch.
        epoch: Epoch,
        /// The next offset of every partition.
        cut: Vec<CutEntry>,
        /// Input records in the epoch.
        records: u64,
        /// When the barrier went in (monotonic).
        at: Duration,
    },
    /// A lane has finished an epoch: what it wrote.
    Sealed {
        /// The epoch.
        epoch: Epoch,
        /// The lane.
        lane: Lane,
        /// Per store, each key once.
        stores: Vec<(StoreId, Vec<Sealed>)>,
        /// What retention lets go, from lane 0.
        drops: Vec<(StoreId, KeyRange)>,
    },
}

/// What waits.
#[derive(Debug)]
struct Waiting {
    items: VecDeque<OutboxItem>,
    /// Are there records?
    records: bool,
    /// How many lanes have sealed the epoch that is being sealed.
    seals: u32,
    /// Have all, so that it can be committed?
    complete: bool,
}

/// The queue.
#[derive(Debug)]
pub struct Outbox {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    lanes: u32,
}

impl Outbox {
    /// For so many lanes.
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

    /// Appends; never waits. Wakes commit if that is worth it: a cut alone, and what one lane of several has sealed, is not.
    pub fn push(&self, item: OutboxItem) {
        let mut waiting = self.waiting.lock();
        match &item {
            OutboxItem::Records { .. } | OutboxItem::DeadLetters { .. } => waiting.records = true,
            OutboxItem::Cut { .. } => {}
            OutboxItem::Sealed { .. } => {
                waiting.seals += 1;
                // Nobody seals an epoch before the one before is committed.
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

    /// Moves everything to `inbox` (which must be empty), waiting at most this long for records or a whole epoch.
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

    /// Wakes commit without an item.
    pub fn nudge(&self) {
        self.wake.notify_all();
    }
}
