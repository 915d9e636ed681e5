//! Alignment: when has every lane finished a stage of a tick?
//!
//! Dispatch cuts the stream into ticks; the last one of an epoch is its barrier. Every record of a tick that
//! walks to another lane is in that lane's queue before the sender arrives here. So once all lanes arrived at
//! (tick, stage), a mark pushed behind into each queue finds every record of that tick and stage before it.
//! Records of later ticks that fast lanes sent meanwhile wait at the receiver until theirs.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use stoatflow_core::StageId;

/// Counts arrivals per stage and tick: a fast lane may be several ticks ahead of others.
#[derive(Debug)]
pub struct Alignment {
    lanes: u64,
    /// By stage: ticks that some lane has finished and not all, with how many have.
    arrived: Vec<Mutex<VecDeque<(u64, u64)>>>,
    require_all: bool,
}

impl Alignment {
    /// For so many lanes and stages.
    #[must_use]
    pub fn new(lanes: u32, stages: usize) -> Self {
        Self {
            lanes: u64::from(lanes),
            arrived: (0..stages).map(|_| Mutex::default()).collect(),
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

    /// A lane finished this stage of this tick; true for the one that completes it (that is the last, and whoever
    /// completes a stage sees all that happened before any arrival) and must push the mark of the next stage.
    pub fn arrive(&self, tick: u64, stage: StageId) -> bool {
        let open = &self.arrived[usize::from(stage.0)];
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let at = open.iter().position(|(of, _)| *of == tick);
        let at = at.unwrap_or_else(|| {
            open.push_back((tick, 0));
            open.len() - 1
        });
        open[at].1 += 1;
        let arrived = open[at].1;
        if arrived == self.lanes {
            open.remove(at);
        }
        if self.require_all {
            arrived == self.lanes
        } else {
            arrived == 1
        }
    }

    /// How many lanes have arrived at each stage of the oldest tick under way.
    #[must_use]
    pub fn arrivals(&self) -> Vec<u64> {
        let count = |open: &Mutex<VecDeque<(u64, u64)>>| {
            let open = open.lock().unwrap_or_else(PoisonError::into_inner);
            open.front().map_or(0, |(_, arrived)| *arrived)
        };
        self.arrived.iter().map(count).collect()
    }
}

#[cfg(test)]
mod tests;
