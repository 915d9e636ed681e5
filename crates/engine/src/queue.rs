//! A lane's queue: data and control in one order.
//!
//! Takes items from dispatch and from other lanes, gives them to one lane in the order they came.
//! Unbounded by design (law 7): what is in flight is bounded at admission, so a push never waits
//! and lanes can't deadlock on each other. Owns nothing but the items.

use parking_lot::Mutex;
use std::collections::VecDeque;
use stoatflow_core::{Epoch, NodeId, Record, StageId};
use stoatflow_log::Fetched;
use tokio::sync::Notify;

/// What a lane can find in its queue.
#[derive(Debug)]
pub enum Item {
    /// Records from dispatch.
    Input {
        /// Their epoch.
        epoch: Epoch,
        /// The records.
        batch: Vec<Fetched>,
        /// Their weight in the admission budget.
        bytes: i64,
    },
    /// Records from other lanes (or itself), through an exchange.
    Routed {
        /// Their epoch.
        epoch: Epoch,
        /// The stage they enter.
        stage: StageId,
        /// The exchange they left through.
        via: NodeId,
        /// The records, in order.
        batch: Vec<Record>,
        /// Their weight in the admission budget.
        bytes: i64,
    },
    /// Every record of `epoch` for `stage` stands before this.
    Barrier {
        /// The epoch that ends.
        epoch: Epoch,
        /// The stage it ends for.
        stage: StageId,
    },
    /// Every lane has finished every stage of `epoch`: encode what it wrote.
    Seal {
        /// The epoch.
        epoch: Epoch,
    },
}

/// The queue.
#[derive(Debug, Default)]
pub struct LaneQueue {
    items: Mutex<VecDeque<Item>>,
    wake: Notify,
}

impl LaneQueue {
    /// Appends; never waits.
    pub fn push(&self, item: Item) {
        let mut items = self.items.lock();
        let was_empty = items.is_empty();
        items.push_back(item);
        drop(items);
        if was_empty {
            self.wake.notify_one();
        }
    }

    /// Moves everything to `inbox` (which must be empty); false if there was nothing.
    pub fn take_all(&self, inbox: &mut VecDeque<Item>) -> bool {
        debug_assert!(inbox.is_empty());
        std::mem::swap(&mut *self.items.lock(), inbox);
        !inbox.is_empty()
    }

    /// Is anything waiting?
    pub fn is_empty(&self) -> bool {
        self.items.lock().is_empty()
    }

    /// Waits until something may be there.
    pub async fn ready(&self) {
        self.wake.notified().await;
    }

    /// Wakes the lane without an item (to stop).
    pub fn nudge(&self) {
        self.wake.notify_one();
    }
}
