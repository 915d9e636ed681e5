//! What leaves the lanes: one queue from all of them to commit.
//!
//! Takes encoded records, cuts and seals, gives them to the commit room in the order they came (per
//! lane in the lane's order). Owns the waiting items; what waits is weighed in the admission budget, like what waits for lanes. Never
//! produces: only the commit room owns a producer.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;
use stoatflow_core::{Epoch, Lane, Offset, StoreId, TopicPartition};
use stoatflow_log::{CutEntry, Outgoing};
use stoatflow_state::{KeyRange, Sealed};

/// A dead letter whose record is not at hand any more.
#[derive(Debug)]
pub struct Unread {
    /// Where the record is.
    pub from: TopicPartition,
    /// And at which offset.
    pub offset: Offset,
    /// The letter without its body.
    pub record: Outgoing,
}

/// What commit can find.
#[derive(Debug)]
pub enum OutItem {
    /// Output records of an epoch.
    Records {
        /// The epoch.
        epoch: Epoch,
        /// The records, in the lane's order.
        records: Vec<Outgoing>,
        /// Their weight in the admission budget: released when the producer has them.
        bytes: i64,
    },
    /// Dead letters of an epoch whose records are to be read again.
    Letters {
        /// The epoch.
        epoch: Epoch,
        /// The letters.
        letters: Vec<Unread>,
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

/// The queue.
#[derive(Debug, Default)]
pub struct Outbox {
    items: Mutex<VecDeque<OutItem>>,
    wake: Condvar,
}

impl Outbox {
    /// Appends; never waits.
    pub fn push(&self, item: OutItem) {
        self.items.lock().push_back(item);
        self.wake.notify_one();
    }

    /// Moves everything to `inbox` (which must be empty), waiting at most this long for something.
    pub fn take_all(&self, inbox: &mut VecDeque<OutItem>, wait: Duration) -> bool {
        debug_assert!(inbox.is_empty());
        let mut items = self.items.lock();
        if items.is_empty() && !wait.is_zero() {
            self.wake.wait_for(&mut items, wait);
        }
        std::mem::swap(&mut *items, inbox);
        !inbox.is_empty()
    }

    /// Is anything waiting?
    pub fn is_empty(&self) -> bool {
        self.items.lock().is_empty()
    }

    /// Wakes commit without an item.
    pub fn nudge(&self) {
        self.wake.notify_all();
    }
}
