//! The ticks that were missed while the engine was down.
//!
//! Takes the last completed tick and the time of the start, returns the ticks to make up for. A
//! timetable with one tick per second has millions after a year, so time and memory here don't grow with
//! the length of the outage.

use super::{CatchUp, Timetable, TimetableSpec};

/// Up to this number missed ticks are counted one by one, if there is no formula.
const MAX_COUNTED_TICKS: u64 = 10_000;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The ticks to emit, in order.
    pub ticks: Vec<i64>,
    /// The number of further missed ticks. A lower bound if they would have to be counted one by one,
    /// and 0 unless all missed ticks are wanted.
    pub left_out: u64,
}

impl Timetable {
    /// The ticks to make up for in `(after, until]`.
    #[must_use]
    pub fn missed(&self, times: &TimetableSpec, after: i64, until: i64) -> Missed {
        let most = match times.catch_up {
            CatchUp::Latest => 1,
            CatchUp::All => times.max_catch_up as usize,
            CatchUp::Skip => 0,
        };
        let mut ticks = Vec::new();
        let mut oldest = until;
        while ticks.len() < most {
            let Some(tick) = self.last(oldest, after) else {
                break;
            };
            ticks.push(tick);
            oldest = tick - 1;
        }
        ticks.reverse();
        let left_out = match times.catch_up {
            CatchUp::All => self
                .between(after, oldest)
                .unwrap_or_else(|| self.count(after, oldest)),
            CatchUp::Latest | CatchUp::Skip => 0,
        };
        Missed { ticks, left_out }
    }

    fn count(&self, after: i64, mut until: i64) -> u64 {
        for count in 0..MAX_COUNTED_TICKS {
            match self.last(until, after) {
                Some(tick) => until = tick - 1,
                None => return count,
            }
        }
        MAX_COUNTED_TICKS
    }
}
