//! A lane's queue: data and control messages.
//!
//! Two queues, each in order: items from dispatch, and items from other lanes. Unbounded by design (law
//! 7): admission limits what is in flight, so a push never blocks and lanes can't deadlock on each
//! other.

use crate::lane::dispatched::Dispatched;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use stoatflow_core::{End, Epoch, Lane, NodeId, Record, StageId, Timestamp};
use stoatflow_operators::{Steps, Times};
use tokio::sync::Notify;

/// The end of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickEnd {
    /// Its number; numbers have no gaps.
    pub tick: u64,
    /// The end of the epoch, if the tick is its last one.
    pub barrier: Option<Barrier>,
}

/// The end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The application's watermark from this barrier on.
    pub watermark: i64,
    /// Its place in the order.
    pub at: End,
}

/// How many parts the end of an epoch has in each stage. A barrier takes PARTS_PER_STAGE × stages
/// numbers, because the output of a part is ordered behind that of earlier parts and earlier stages.
pub const PARTS_PER_STAGE: u64 = 4;

/// An item of the queue.
#[derive(Debug)]
pub enum LaneItem {
    /// Records from dispatch.
    Input {
        /// Their epoch.
        epoch: Epoch,
        /// The records.
        batch: Dispatched,
    },
    /// Records from other lanes (or itself), through an exchange. They wait for the end of their
    /// tick.
    Routed {
        /// Their tick.
        tick: u64,
        /// The sender.
        from: Lane,
        /// The stage they enter.
        stage: StageId,
        /// The exchange they left through.
        via: NodeId,
        /// The records, in order.
        batch: Vec<Record>,
        /// Their weight in the admission budget.
        bytes: i64,
    },
    /// Global tables are loaded: the remaining operators are opened.
    Open,
    /// All records of a tick for a stage were sent before this item.
    Tick {
        /// The epoch it is in.
        epoch: Epoch,
        /// The stage it ends for.
        stage: StageId,
        /// The end of the tick, which may be the end of the epoch too.
        mark: TickEnd,
        /// How its records move stream time, if that is needed.
        steps: Option<Arc<Steps>>,
    },
    /// To lane 0: a lane has reached the end of a stage with clocks, and waits.
    Report {
        /// The epoch that ends.
        epoch: Epoch,
        /// The stage it ends for.
        stage: StageId,
        /// The lane.
        lane: Lane,
        /// The times it has seen, by clock.
        times: Times,
    },
    /// All lanes have arrived: continue with these times.
    Release {
        /// The epoch that ends.
        epoch: Epoch,
        /// The stage it ends for.
        stage: StageId,
        /// The times, by clock.
        times: Arc<Times>,
        /// Wall-clock time for all lanes.
        wall: Timestamp,
    },
    /// All lanes have done what was due at the end of a stage: it continues with the next epoch.
    Pass {
        /// The epoch that ends.
        epoch: Epoch,
        /// The stage it ends for.
        stage: StageId,
    },
    /// Every lane has finished every stage of `epoch`: seal the writes.
    Seal {
        /// The epoch.
        epoch: Epoch,
    },
}

/// See the module.
#[derive(Debug, Default)]
pub struct LaneQueue {
    queues: Mutex<LaneQueues>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct LaneQueues {
    /// From dispatch: inputs and the ticks of stage 0.
    dispatched: VecDeque<LaneItem>,
    /// From lanes: routed records, the ticks of later stages, reports and releases, seals. Served first:
    /// otherwise the barrier of one epoch would wait for the input of the next.
    from_lanes: VecDeque<LaneItem>,
}

impl LaneQueue {
    /// Appends an item; never blocks.
    pub fn push(&self, item: LaneItem) {
        let mut queues = self.queues.lock();
        let was_empty = queues.dispatched.is_empty() && queues.from_lanes.is_empty();
        match &item {
            LaneItem::Input { .. }
            | LaneItem::Open
            | LaneItem::Tick {
                stage: StageId(0), ..
            } => queues.dispatched.push_back(item),
            _ => queues.from_lanes.push_back(item),
        }
        drop(queues);
        if was_empty {
            self.wake.notify_one();
        }
    }

    /// Moves all items from other lanes to the end of `inbox`.
    pub fn take_from_lanes(&self, inbox: &mut VecDeque<LaneItem>) {
        let mut queues = self.queues.lock();
        if inbox.is_empty() {
            std::mem::swap(&mut queues.from_lanes, inbox);
        } else {
            inbox.append(&mut queues.from_lanes);
        }
    }

    /// Takes the next item from dispatch.
    pub fn take_dispatched(&self) -> Option<LaneItem> {
        self.queues.lock().dispatched.pop_front()
    }

    /// Takes the next item from dispatch if it is input of this epoch.
    pub fn take_input_of(&self, wanted: Epoch) -> Option<Dispatched> {
        let dispatched = &mut self.queues.lock().dispatched;
        match dispatched.front() {
            Some(LaneItem::Input { epoch, .. }) if *epoch == wanted => {}
            _ => return None,
        }
        match dispatched.pop_front() {
            Some(LaneItem::Input { batch, .. }) => Some(batch),
            _ => None,
        }
    }

    /// True if nothing is waiting.
    pub fn is_empty(&self) -> bool {
        let queues = self.queues.lock();
        queues.dispatched.is_empty() && queues.from_lanes.is_empty()
    }

    /// Waits until there may be an item.
    pub async fn ready(&self) {
        self.wake.notified().await;
    }

    /// Wakes the lane without an item (for a stop).
    pub fn wake_lane(&self) {
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests;
