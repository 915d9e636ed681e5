//! A lane's queue: data and control in one order.
//!
//! Takes items from dispatch and from other lanes, gives each of the two in the order they came.
//! Unbounded by design (law 7): what is in flight is bounded at admission, so a push never waits
//! and lanes can't deadlock on each other. Owns nothing but the items.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use stoatflow_core::{End, Epoch, Lane, NodeId, Record, StageId, Timestamp};
use stoatflow_log::ConsumerRecord;
use stoatflow_operators::{Steps, Times};
use tokio::sync::Notify;

/// The end of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickEnd {
    /// Its number: each is one more than the one before.
    pub tick: u64,
    /// Does an epoch end with it?
    pub barrier: Option<Barrier>,
}

/// The end of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The application's watermark from its end on.
    pub watermark: i64,
    /// Where it is in the order.
    pub at: End,
}

/// How many parts the end of an epoch has in each stage: a barrier takes so many numbers, times the stages, because what
/// comes out in each part comes behind what came out in those before, also in those of earlier stages.
pub const PARTS: u64 = 4;

/// What a lane can find in its queue.
#[derive(Debug)]
pub enum LaneItem {
    /// Records from dispatch.
    Input {
        /// Their epoch.
        epoch: Epoch,
        /// The records.
        batch: Vec<ConsumerRecord>,
        /// Their weight in the admission budget.
        bytes: i64,
    },
    /// Records from other lanes (or itself), through an exchange. They wait for the mark of their tick.
    Routed {
        /// Their tick.
        tick: u64,
        /// Who sent them.
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
    /// Global tables stand: all operators that are not open yet are opened.
    Open,
    /// Every record of a tick for a stage has been sent before this.
    Tick {
        /// The epoch it is in.
        epoch: Epoch,
        /// The stage it ends for.
        stage: StageId,
        /// The tick, and the end of the epoch, if it is that too.
        mark: TickEnd,
        /// How its records move the time, if anybody asks.
        steps: Option<Arc<Steps>>,
    },
    /// For lane 0: a lane has come to the end of a stage that has clocks, and waits.
    Report {
        /// The epoch that ends.
        epoch: Epoch,
        /// The stage it ends for.
        stage: StageId,
        /// Who.
        lane: Lane,
        /// What it has seen, by clock.
        times: Times,
    },
    /// All lanes have come, and this is what they know together: go on.
    Release {
        /// The epoch that ends.
        epoch: Epoch,
        /// The stage it ends for.
        stage: StageId,
        /// By clock.
        times: Arc<Times>,
        /// Wall time for all.
        wall: Timestamp,
    },
    /// Every lane has finished every stage of `epoch`: encode what it wrote.
    Seal {
        /// The epoch.
        epoch: Epoch,
    },
}

/// The queue: two doors, each in its own order.
#[derive(Debug, Default)]
pub struct LaneQueue {
    queues: Mutex<LaneQueues>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct LaneQueues {
    /// From dispatch: inputs and the ticks of stage 0.
    dispatched: VecDeque<LaneItem>,
    /// From lanes: routed records, the ticks of later stages, meetings, seals. Served first: what is on its
    /// way is finished before more is begun, or the barrier of one epoch would wait for the inputs of
    /// the next.
    from_lanes: VecDeque<LaneItem>,
}

impl LaneQueue {
    /// Appends; never waits.
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

    /// Takes what came from lanes since the last time: moved to the end of `inbox`.
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

    /// Takes the next item from dispatch if it is records of this epoch: with their weight.
    pub fn take_input_of(&self, wanted: Epoch) -> Option<(Vec<ConsumerRecord>, i64)> {
        let dispatched = &mut self.queues.lock().dispatched;
        match dispatched.front() {
            Some(LaneItem::Input { epoch, .. }) if *epoch == wanted => {}
            _ => return None,
        }
        match dispatched.pop_front() {
            Some(LaneItem::Input { batch, bytes, .. }) => Some((batch, bytes)),
            _ => None,
        }
    }

    /// Is anything waiting?
    pub fn is_empty(&self) -> bool {
        let queues = self.queues.lock();
        queues.dispatched.is_empty() && queues.from_lanes.is_empty()
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

#[cfg(test)]
mod tests;
