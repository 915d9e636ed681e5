//! Detects source partitions that another producer's open transaction holds back.
//!
//! A `read_committed` consumer sees nothing past the first record of an open transaction. A producer
//! that hangs, or died before its transaction timed out, stops all such consumers while the lag looks
//! like 0. Compares the last stable offsets of partitions over time: a partition is held back if it
//! doesn't move although its high watermark is higher.

use serde::Serialize;
use std::time::Duration;
use stoatflow_core::{Offset, Timestamp};
use stoatflow_log::OpenTransaction;

#[cfg(test)]
mod tests;

/// Logged after this time: transactions of a few seconds are normal.
const LOG_AFTER: Duration = Duration::from_secs(10);

/// The open transaction that holds a partition back, for `/state` and the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldBack {
    /// The transaction's first offset: nothing from there on can be read.
    pub start_offset: i64,
    /// Offsets from there to the high watermark.
    pub records: i64,
    /// Since when (wall clock, ms).
    pub since_ms: i64,
    /// Its producer, if the broker tells.
    pub producer_id: Option<i64>,
}

impl HeldBack {
    /// The command that ends the transaction.
    #[must_use]
    pub fn command(&self, address: &str, topic: &str, partition: i32) -> String {
        format!(
            "kafka-transactions.sh --bootstrap-server {address} abort --topic {topic} --partition \
                {partition} --start-offset {}",
            self.start_offset
        )
    }
}

/// What was last seen of a partition.
#[derive(Clone, Debug, Default)]
struct Seen {
    stable_end: Option<Offset>,
    since: Option<(Duration, Timestamp)>,
    logged: bool,
}

/// Watches all source partitions.
#[derive(Debug)]
pub(crate) struct OpenTransactionWatch(Vec<Seen>);

impl OpenTransactionWatch {
    pub fn new(partitions: usize) -> Self {
        Self(vec![Seen::default(); partitions])
    }

    /// Compares the ends of a partition with those before; returns what holds it back, if anything does.
    pub fn update(
        &mut self,
        partition: usize,
        (stable_end, high_watermark): (Offset, Offset),
        now: (Duration, Timestamp),
    ) -> Option<HeldBack> {
        let seen = &mut self.0[partition];
        let stands_still = seen.stable_end.replace(stable_end) == Some(stable_end);
        if high_watermark <= stable_end || !stands_still {
            (seen.since, seen.logged) = (None, false);
            return None;
        }
        let (_, since) = *seen.since.get_or_insert(now);
        Some(HeldBack {
            start_offset: stable_end.0,
            records: high_watermark.0 - stable_end.0,
            since_ms: since.0,
            producer_id: None,
        })
    }

    /// Whether to log it now; true once for each transaction.
    pub fn should_log(&mut self, partition: usize, now: Duration) -> bool {
        let seen = &mut self.0[partition];
        let Some((since, _)) = seen.since else {
            return false;
        };
        let due = !seen.logged && now.saturating_sub(since) >= LOG_AFTER;
        seen.logged |= due;
        due
    }
}

/// The producer id, if the transaction found is the one that holds the partition back.
pub(crate) fn owner(held: &HeldBack, found: Option<OpenTransaction>) -> Option<i64> {
    found
        .filter(|open| open.start.0 <= held.start_offset)
        .map(|open| open.producer)
}
