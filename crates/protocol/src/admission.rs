//! How much may be in flight: as much as lanes process within one commit interval.
//!
//! A barrier waits for everything admitted before it. A budget that only fits memory would delay
//! barriers, and with them every output; and with a function that takes seconds, an epoch would outlive
//! its transaction at every start. So the budget starts small and adapts: if a barrier takes longer than
//! the interval to pass the lanes, the budget shrinks by that factor; otherwise it grows. A small budget
//! also grows between barriers, once lanes have processed all of it in a fraction of the interval:
//! otherwise a job with fast functions would have small batches for its first second.

use std::time::Duration;

/// The first budget: a few dozen records.
const FIRST_BYTES: i64 = 16 << 10;
/// Minimum budget: a few records, however slow they are.
const MIN_BYTES: i64 = 4 << 10;
/// Minimum for each lane beyond the usual number. Hundreds of lanes with blocking functions wait in
/// parallel: the fullest must not keep the others idle. While an epoch commits, the outputs of the next
/// one count too. The price is seconds between commits, which so many slow calls cost anyway.
const MIN_BYTES_PER_LANE: i64 = 4 << 10;
/// The usual number of lanes.
const USUAL_LANES: i64 = 16;
/// Below this the budget doubles, so with fast functions batches are small only for a few barriers.
const SMALL_BYTES: i64 = 1 << 20;
/// Lanes that process a whole small budget within the interval divided by this get twice as much.
const QUICK_DIVISOR: u32 = 16;
/// Upper limit of that time: with an interval of many seconds, slow functions must not count as quick.
const MAX_QUICK_TIME: Duration = Duration::from_millis(10);
/// One slow barrier (a stall of the machine) shrinks it at most by this factor.
const MAX_SHRINK_FACTOR: i64 = 8;

/// The admission budget.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    budget: i64,
    least: i64,
    most: i64,
    patience: Duration,
    /// True while it admits until the budget is used up.
    filling: bool,
    /// Bytes admitted so far.
    admitted: i64,
    /// Bytes that lanes had processed when the budget was last measured, and when that was.
    measured: (i64, Duration),
}

impl Admission {
    /// A budget of at most `most` bytes, aiming at barriers that arrive within `patience`.
    #[must_use]
    pub fn new(most: i64, patience: Duration) -> Self {
        Self {
            budget: FIRST_BYTES.min(most),
            least: MIN_BYTES,
            most,
            patience,
            filling: true,
            admitted: 0,
            measured: (0, Duration::ZERO),
        }
    }

    /// Raises the minimum for this many lanes.
    #[must_use]
    pub fn for_lanes(mut self, lanes: usize) -> Self {
        let lanes = i64::try_from(lanes).unwrap_or(i64::MAX);
        let more = lanes.saturating_sub(USUAL_LANES).max(0);
        let least = more.saturating_mul(MIN_BYTES_PER_LANE);
        self.least = self.least.max(least).min(self.most);
        self.budget = self.budget.max(self.least).min(self.most);
        self
    }

    /// Bytes that may be in flight.
    #[must_use]
    pub const fn budget(&self) -> i64 {
        self.budget
    }

    /// Admission continues once the bytes in flight are below this. With a large budget a quarter of it
    /// must be free: admitting a record whenever one is done would wake lanes for single records.
    #[must_use]
    pub const fn opens_below(&self) -> i64 {
        if self.budget < SMALL_BYTES {
            self.budget
        } else {
            self.budget - self.budget / 4
        }
    }

    /// True if more may be admitted while this much is in flight.
    pub const fn has_room(&mut self, in_flight: i64) -> bool {
        if in_flight >= self.budget {
            self.filling = false;
        } else if in_flight < self.opens_below() {
            self.filling = true;
        }
        self.filling
    }

    /// Counts admitted bytes.
    pub const fn admit(&mut self, bytes: i64) {
        self.admitted = self.admitted.saturating_add(bytes);
    }

    /// Measures the lanes by the bytes that are in flight now. True if they have processed a whole
    /// budget so quickly that it has grown.
    pub fn measure(&mut self, in_flight: i64, now: Duration) -> bool {
        let done = self.admitted - in_flight;
        let (before, since) = self.measured;
        if done - before < self.budget {
            return false;
        }
        self.measured = (done, now);
        let quick =
            now.saturating_sub(since) <= (self.patience / QUICK_DIVISOR).min(MAX_QUICK_TIME);
        let grows = quick && self.budget < SMALL_BYTES.min(self.most);
        if grows {
            self.budget = (self.budget * 2).min(self.most);
        }
        grows
    }

    /// Adapts the budget to a barrier that took this long from dispatch to the last lane's seal.
    pub fn barrier_took(&mut self, aligned: Duration) {
        let next = if aligned > self.patience {
            let times = aligned.as_micros() / self.patience.as_micros().max(1);
            let times = i64::try_from(times).unwrap_or(MAX_SHRINK_FACTOR);
            self.budget / times.clamp(2, MAX_SHRINK_FACTOR)
        } else if self.budget < SMALL_BYTES {
            self.budget * 2
        } else {
            self.budget + self.budget / 4
        };
        self.budget = next.max(self.least).min(self.most);
    }
}

#[cfg(test)]
mod tests;
