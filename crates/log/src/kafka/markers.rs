//! Waits until the markers of a commit are written.
//!
//! Takes the time of a commit, computes the remaining wait. After the broker has answered that a
//! transaction is committed, it writes markers into all partitions of the transaction. Until they are
//! written, it answers additions to the next transaction of the id with a retriable error, and
//! librdkafka retries after 20 ms (partitions) or 100 ms (offsets). Without this wait, nearly every
//! commit of a busy application took 20 ms longer.

use std::time::Duration;

/// The broker may need so long to write them. Waiting 4 ms was too short for a tenth of the commits.
const MARKER_WRITE_TIME: Duration = Duration::from_millis(8);
/// Shorter waits are skipped.
const MIN_WAIT: Duration = Duration::from_millis(1);

/// The markers of the last commit of one transactional id.
#[derive(Debug, Default)]
pub(super) struct Markers {
    /// When the broker answered that it is committed; `None` once the markers must be written.
    committed: Option<Duration>,
}

impl Markers {
    /// Notes that the broker has answered that a transaction is committed.
    pub(super) fn begin(&mut self, now: Duration) {
        self.committed = Some(now);
    }

    /// Waits until the markers are written; `wait` may return early.
    pub(super) fn wait_until_written(
        &mut self,
        now: impl Fn() -> Duration,
        wait: impl Fn(Duration),
    ) {
        let Some(committed) = self.committed.take() else {
            return;
        };
        loop {
            let left = (committed + MARKER_WRITE_TIME).saturating_sub(now());
            if left < MIN_WAIT {
                return;
            }
            wait(left);
        }
    }
}
