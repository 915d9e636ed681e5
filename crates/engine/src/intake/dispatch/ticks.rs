//! Numbers records in the order of admission, and groups them into ticks.
//!
//! Records that go through an exchange wait for the end of their tick, where they are sorted again.
//! Short ticks keep all lanes busy, but each tick costs every lane a check. Without an exchange the only
//! ticks are barriers. The same holds with async calls, whose results are out of order within an epoch
//! anyway: there the barrier sorts everything.

use super::Dispatch;
use crate::lane::queue::{Barrier, LaneItem, PARTS_PER_STAGE, TickEnd};
use std::time::Duration;
use stoatflow_core::{End, StageId};
use stoatflow_plan::{Op, PhysicalPlan};

/// A tick ends after this many records per lane, so that each has some.
const RECORDS_PER_LANE: u64 = 512;
const MIN_RECORDS: u64 = 4_096;
/// A tick also ends after this time, if lanes have taken the tick before.
const MAX_TICK_TIME: Duration = Duration::from_millis(2);

/// See the module.
#[derive(Debug)]
pub(super) struct Ticks {
    wanted: bool,
    stages: u64,
    /// The number of the next record.
    next: u64,
    /// The first number of the tick, and of the epoch.
    tick_first: u64,
    epoch_first: u64,
    /// The open tick.
    tick: u64,
    since: Duration,
}

impl Ticks {
    pub fn new(plan: &PhysicalPlan, now: Duration) -> Self {
        let out_of_turn = |op: &Op| {
            matches!(
                op,
                Op::Calls { .. }
                    | Op::Offload { .. }
                    | Op::OffloadAnswers { .. }
                    | Op::MapBatches { .. }
                    | Op::ForeachBatch { .. }
            )
        };
        let calls = plan.nodes.iter().any(|node| out_of_turn(&node.op));
        Self {
            wanted: plan.stages.len() > 1 && !calls,
            stages: plan.stages.len() as u64,
            // 0 stands for records that were not read in this run.
            next: 1,
            tick_first: 1,
            epoch_first: 1,
            tick: 1,
            since: now,
        }
    }

    /// The number of the next record.
    pub const fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Ends the tick, and starts the next.
    const fn end(&mut self, barrier: Option<Barrier>, now: Duration) -> TickEnd {
        let mark = TickEnd {
            tick: self.tick,
            barrier,
        };
        self.tick += 1;
        self.tick_first = self.next;
        self.since = now;
        mark
    }

    /// Ends the epoch.
    pub const fn barrier(&mut self, watermark: i64, now: Duration) -> TickEnd {
        let barrier = Barrier {
            watermark,
            at: End {
                first: self.epoch_first,
                end: self.next,
            },
        };
        self.next += PARTS_PER_STAGE * self.stages;
        self.epoch_first = self.next;
        self.end(Some(barrier), now)
    }
}

impl Dispatch {
    /// Ends a tick when it has enough records, when nothing more can be admitted until lanes
    /// continue, or after some time.
    pub(super) fn tick_if_due(&mut self, now: Duration) {
        if !self.ticks.wanted {
            return;
        }
        let records = self.ticks.next - self.ticks.tick_first;
        if records == 0 {
            self.ticks.since = now;
            return;
        }
        let lanes = self.shared.queues.len() as u64;
        let many = records >= MIN_RECORDS.max(RECORDS_PER_LANE * lanes);
        let taken = self.shared.taken() + 1 >= self.ticks.tick;
        let long = now.saturating_sub(self.ticks.since) >= MAX_TICK_TIME;
        // Intake is woken as soon as lanes return credit, which may be before it can admit more.
        let crowded = taken && !self.has_credit();
        if many || crowded || long && taken {
            let mark = self.ticks.end(None, now);
            self.push_mark(mark);
        }
    }

    /// Time left until the tick ends by time.
    pub(super) fn until_tick(&self, now: Duration) -> Option<Duration> {
        let ticks = &self.ticks;
        let open = ticks.wanted && ticks.next > ticks.tick_first;
        open.then(|| MAX_TICK_TIME.saturating_sub(now.saturating_sub(ticks.since)))
    }

    /// Sends the end of a tick to all lanes.
    pub(super) fn push_mark(&self, mark: TickEnd) {
        for queue in &self.shared.queues {
            queue.push(LaneItem::Tick {
                epoch: self.epoch,
                stage: StageId(0),
                mark,
                steps: None,
            });
        }
    }
}
