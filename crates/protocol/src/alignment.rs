//! Barrier alignment: when has every lane finished a stage of an epoch?
//!
//! Every record of an epoch that walks to another lane is in that lane's queue before the sender
//! arrives here. So once all lanes arrived at (epoch, stage), a barrier pushed behind into each queue
//! finds every record of that epoch and stage before it. Records of the next epoch that fast lanes
//! sent meanwhile are held by the receiver until that barrier.

use std::sync::atomic::{AtomicU64, Ordering};
use stoatflow_core::{Epoch, StageId};

/// Counts arrivals per stage. One epoch is aligned at a time: the dispatcher puts the next barrier
/// in only after the epoch before is committed.
#[derive(Debug)]
pub struct Alignment {
    lanes: u64,
    arrived: Vec<AtomicU64>,
    require_all: bool,
}

impl Alignment {
    /// For so many lanes and stages.
    #[must_use]
    pub fn new(lanes: u32, stages: usize) -> Self {
        Self {
            lanes: u64::from(lanes),
            arrived: (0..stages).map(|_| AtomicU64::new(0)).collect(),
            require_all: true,
        }
    }

    /// Broken on purpose, for the simulator's tests of the tests: the first lane opens the gate.
    #[must_use]
    pub fn broken_unaligned(lanes: u32, stages: usize) -> Self {
        Self {
            require_all: false,
            ..Self::new(lanes, stages)
        }
    }

    /// A lane finished this stage of this epoch; true for the one that completes it and must push the
    /// barrier of the next stage.
    pub fn arrive(&self, _epoch: Epoch, stage: StageId) -> bool {
        let counter = &self.arrived[usize::from(stage.0)];
        // AcqRel: whoever completes the stage sees every queue push that happened before any arrival.
        let arrived = counter.fetch_add(1, Ordering::AcqRel) + 1;
        if arrived == self.lanes {
            counter.store(0, Ordering::Release);
        }
        if self.require_all {
            arrived == self.lanes
        } else {
            arrived == 1
        }
    }

    /// How many lanes have arrived at each stage of the epoch under way.
    #[must_use]
    pub fn arrivals(&self) -> Vec<u64> {
        self.arrived
            .iter()
            .map(|c| c.load(Ordering::Relaxed))
            .collect()
    }
}

#[cfg(test)]
mod tests;
