//! How much may be in flight: as much as the lanes work off within one commit interval, and no more.
//!
//! A barrier waits for everything that was admitted before it. So a budget that only fits memory would
//! make barriers, and with them every output, late under load. The budget follows what is seen: it
//! halves when a barrier took longer than the interval to reach the end of the lanes, and grows back
//! by a quarter when it didn't.

use std::time::Duration;

/// Below this, batches become too small to be worth a hand-off.
const LEAST_BYTES: i64 = 1 << 20;

/// The admission budget.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    budget: i64,
    most: i64,
    patience: Duration,
}

impl Admission {
    /// Never more than `most` bytes, aiming at barriers that arrive within `patience`.
    #[must_use]
    pub fn new(most: i64, patience: Duration) -> Self {
        let least = LEAST_BYTES.min(most);
        Self {
            budget: (most / 8).max(least),
            most,
            patience,
        }
    }

    /// Bytes that may be in flight.
    #[must_use]
    pub const fn budget(&self) -> i64 {
        self.budget
    }

    /// A barrier took this long from dispatch to the last lane's seal.
    pub fn barrier_took(&mut self, aligned: Duration) {
        self.budget = if aligned > self.patience {
            (self.budget / 2).max(LEAST_BYTES.min(self.most))
        } else {
            (self.budget + self.budget / 4).min(self.most)
        };
    }
}

#[cfg(test)]
mod tests;
