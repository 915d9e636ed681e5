//! When the markers of a commit stand.
//!
//! Takes the moment of a commit, gives the wait that is left. After it has said that a transaction is
//! committed, the broker writes markers into all of its partitions, and whoever adds something to the next
//! transaction of the id before they stand is told to come again: librdkafka comes after 20 ms (partitions)
//! or 100 (offsets). Without this wait, nearly every commit of a busy application took 20 ms longer.

use std::time::Duration;

/// For so long they may not stand yet. Waiting 4 ms was too short for a tenth of the commits.
const MARKERS: Duration = Duration::from_millis(8);
/// A wait that is shorter is none.
const SHORTEST: Duration = Duration::from_millis(1);

/// The markers of the last commit of one transactional id.
#[derive(Debug, Default)]
pub(super) struct Markers {
    /// When the broker said that it is committed; `None` once they must stand.
    committed: Option<Duration>,
}

impl Markers {
    /// The broker has said that a transaction is committed.
    pub(super) fn begin(&mut self, now: Duration) {
        self.committed = Some(now);
    }

    /// Waits until they stand, by something that may come back earlier.
    pub(super) fn settle(&mut self, now: impl Fn() -> Duration, wait: impl Fn(Duration)) {
        let Some(committed) = self.committed.take() else {
            return;
        };
        loop {
            let left = (committed + MARKERS).saturating_sub(now());
            if left < SHORTEST {
                return;
            }
            wait(left);
        }
    }
}
