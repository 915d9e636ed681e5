//! How long the answer to a request is waited for.
//!
//! A request that was lost on its way is noticed by nothing but time, so the first wait is short. A broker
//! that is slow would never get an answer through then, so each wait without one is followed by one that is
//! twice as long.

use std::time::Duration;

/// The first wait, unless `request.timeout.ms` says another one. Java's clients and librdkafka wait for 30
/// and 60 s.
pub(in crate::kafka::native) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How many times as long as the first the longest one is.
const MOST: u32 = 8;

/// The wait for the next answer.
#[derive(Clone, Copy, Debug)]
pub(in crate::kafka::native) struct AnswerTimeout {
    first: Duration,
    times: u32,
}

impl AnswerTimeout {
    pub(in crate::kafka::native) const fn new(first: Duration) -> Self {
        Self { first, times: 1 }
    }

    pub(in crate::kafka::native) fn time(self) -> Duration {
        self.first * self.times
    }

    /// None came in time.
    pub(in crate::kafka::native) fn missed(&mut self) {
        self.times = (self.times * 2).min(MOST);
    }

    /// One came.
    pub(in crate::kafka::native) const fn answered(&mut self) {
        self.times = 1;
    }
}

#[cfg(test)]
mod tests;
