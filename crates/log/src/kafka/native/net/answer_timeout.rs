//! How long to wait for the answer to a request.
//!
//! Only the timeout detects a request that was lost on the network, so the first one is short. With a
//! fixed short timeout, a slow broker would never get an answer through, so each timeout that passes
//! doubles the next one.

use std::time::Duration;

/// The first timeout, unless `request.timeout.ms` sets another one. Java's clients and librdkafka wait
/// for 30 and 60 s.
pub(in crate::kafka::native) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest timeout, as a multiple of the first.
const MAX_TIMEOUT_MULTIPLE: u32 = 8;

/// The timeout of the next answer.
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

    /// No answer arrived in time.
    pub(in crate::kafka::native) fn missed(&mut self) {
        self.times = (self.times * 2).min(MAX_TIMEOUT_MULTIPLE);
    }

    /// An answer arrived.
    pub(in crate::kafka::native) const fn answered(&mut self) {
        self.times = 1;
    }
}

#[cfg(test)]
mod tests;
