//! The deadline of a commit.

use std::time::Duration;

#[cfg(test)]
mod tests;

/// Maximum time reserved for ending the transaction.
const MAX_END_RESERVE: Duration = Duration::from_secs(10);

/// `commit.timeout.ms`, counted from the moment when all lanes have sealed the epoch.
///
/// Part of it is reserved for `EndTxn`: without a response to that, the outcome of the epoch is unknown.
/// A failure before `EndTxn` aborts the epoch.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// On the monotonic clock.
    at: Duration,
    kept_for_end: Duration,
}

impl Deadline {
    /// For a commit that begins `now`.
    #[must_use]
    pub fn new(now: Duration, timeout: Duration) -> Self {
        Self {
            at: now.saturating_add(timeout),
            kept_for_end: MAX_END_RESERVE.min(timeout / 2),
        }
    }

    /// Time left for the steps before the end of the transaction.
    #[must_use]
    pub fn before_end(&self, now: Duration) -> Duration {
        whole_ms(
            self.at
                .saturating_sub(self.kept_for_end)
                .saturating_sub(now),
        )
    }

    /// Time left for the end of the transaction; never less than the time reserved for it.
    #[must_use]
    pub fn for_end(&self, now: Duration) -> Duration {
        whole_ms(self.at.saturating_sub(now)).max(self.kept_for_end)
    }
}

/// Whole milliseconds, because error messages contain the timeout.
fn whole_ms(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
