//! Counts which lanes have finished a stage of a tick.
//!
//! Dispatch cuts the stream into ticks; the last tick of an epoch is its barrier. A record that
//! goes to another lane is in that lane's queue before its sender arrives here. So when all lanes
//! have arrived at (tick, stage), an end of tick pushed into each queue is behind every record of
//! that tick and stage. Records of later ticks, sent by fast lanes, wait at the receiver.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use stoatflow_core::StageId;

/// Arrivals per stage and tick: a fast lane may be several ticks ahead.
#[derive(Debug)]
pub struct Alignment {
    lanes: u64,
    /// By stage: unfinished ticks, with the number of lanes that have arrived.
    arrived: Vec<Mutex<VecDeque<(u64, u64)>>>,
    require_all: bool,
}

impl Alignment {
    /// For this many lanes and stages.
    #[must_use]
    pub fn new(lanes: u32, stages: usize) -> Self {
        Self {
            lanes: u64::from(lanes),
            arrived: (0..stages).map(|_| Mutex::default()).collect(),
            require_all: true,
        }
    }

    /// Broken on purpose, for the simulator's mutation tests: the first lane completes a stage.
    #[must_use]
    pub fn broken_unaligned(lanes: u32, stages: usize) -> Self {
        Self {
            require_all: false,
            ..Self::new(lanes, stages)
        }
    }

    /// A lane has finished this stage of this tick. True for the last one, which must push the end
    /// of the tick to the next stage; it sees everything that happened before any arrival.
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

    /// How many lanes have arrived at each stage of the oldest open tick.
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
