//! Which ticks a time without the engine has missed.
//!
//! Takes the last tick that is known to be done and the time of the start, gives the ticks to make up
//! for. A timetable of seconds that was left alone for a year has millions of them, so nothing here grows
//! with the time that was missed.

use super::{CatchUp, Times, Timetable};

/// Up to here missed ticks are counted one by one, where there is no formula.
const COUNTED: u64 = 10_000;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// To be made, in order.
    pub ticks: Vec<i64>,
    /// How many more should have been made: at least so many, where only going through them would tell, and
    /// none where it is not all of them that are wanted.
    pub left_out: u64,
}

impl Timetable {
    /// What is to be made up for, of the ticks after one instant and up to another.
    #[must_use]
    pub fn missed(&self, times: &Times, after: i64, until: i64) -> Missed {
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
        for count in 0..COUNTED {
            match self.last(until, after) {
                Some(tick) => until = tick - 1,
                None => return count,
            }
        }
        COUNTED
    }
}
