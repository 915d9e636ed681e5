//! Timestamps that are further ahead of the clock than `max.timestamp.ahead.ms` allows.
//!
//! Checks a timestamp against the latest one that is allowed now, and logs such records at a bounded
//! rate.

use crate::runtime::shared::Shared;
use std::time::Duration;
use stoatflow_core::{Error, Result, TopicPartition};

/// Timestamps ahead of the clock are logged at most this often.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Why a timestamp is invalid.
#[derive(Debug)]
pub struct InvalidTime {
    /// The error.
    pub error: Error,
    /// True if it is too far ahead of the clock.
    pub ahead: bool,
}

impl From<Error> for InvalidTime {
    fn from(error: Error) -> Self {
        let ahead = false;
        Self { error, ahead }
    }
}

/// The latest timestamp allowed now.
pub(super) fn latest(max_ahead: Option<i64>, shared: &Shared) -> i64 {
    max_ahead.map_or(i64::MAX, |ahead| shared.clock.now().0.saturating_add(ahead))
}

pub(super) fn in_time(time: i64, latest: i64) -> Result<i64, InvalidTime> {
    if time <= latest {
        return Ok(time);
    }
    let error = Error::serde(format!(
        "the record's time {time} is {} ms further ahead of the clock than max.timestamp.ahead.ms allows",
        time.saturating_sub(latest)
    ))
    .hint("correct the clock where the record was made; let the source leave such records out \
        (on_error=DLQ(...) or log_and_continue()), or raise max.timestamp.ahead.ms");
    Err(InvalidTime { error, ahead: true })
}

/// Rate-limits the log about records too far ahead of the clock.
#[derive(Debug, Default)]
pub(super) struct AheadOfClock {
    /// Records since the last log line.
    pub(super) records: u64,
    logged_at: Option<Duration>,
}

impl AheadOfClock {
    /// Logs the records counted so far, if a log line is due.
    pub(super) fn log_if_due(&mut self, shared: &Shared, partition: &TopicPartition) {
        let now = shared.clock.monotonic();
        let due = |then| now.saturating_sub(then) >= LOG_EVERY;
        if self.records == 0 || !self.logged_at.is_none_or(due) {
            return;
        }
        let records = std::mem::take(&mut self.records);
        self.logged_at = Some(now);
        tracing::warn!(%partition, records, "records are further ahead of the clock than \
            max.timestamp.ahead.ms allows; they don't move time, and their sources' handlers decide \
            about them. Next: correct the clock of the producer");
    }
}
