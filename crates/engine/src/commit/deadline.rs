//! When a commit must be over.

use std::time::Duration;

#[cfg(test)]
mod tests;

/// Most time that is kept for ending the transaction.
const END_MOST: Duration = Duration::from_secs(10);

/// `commit.timeout.ms`, from when all lanes have sealed the epoch.
///
/// Some of it is kept for `EndTxn`: without an answer to that, the outcome of the epoch is unknown. A
/// failure before `EndTxn` aborts the epoch.
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
            kept_for_end: END_MOST.min(timeout / 2),
        }
    }

    /// What is left for steps before the end of the transaction.
    #[must_use]
    pub fn before_end(&self, now: Duration) -> Duration {
        whole_ms(
            self.at
                .saturating_sub(self.kept_for_end)
                .saturating_sub(now),
        )
    }

    /// What is left for the end of the transaction; never less than what is kept for it.
    #[must_use]
    pub fn for_end(&self, now: Duration) -> Duration {
        whole_ms(self.at.saturating_sub(now)).max(self.kept_for_end)
    }
}

/// Errors say how long was waited.
fn whole_ms(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
