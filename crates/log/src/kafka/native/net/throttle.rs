//! Quotas of a broker (KIP-219): for how long it accepts no further request of this client.
//!
//! A broker that throttles a client answers at once with the duration, and reads nothing from the
//! connection until that is over. A request sent meanwhile would only wait there, while its timeout
//! runs.

use super::error_codes::ErrorCodes;
use kafka_protocol::messages as m;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// How often, and for how long in total, brokers have throttled the clients of an application.
#[derive(Debug, Default)]
pub(in crate::kafka) struct ThrottleTotals {
    times: AtomicU64,
    micros: AtomicU64,
}

impl ThrottleTotals {
    /// Adds one; returns true for the first time.
    pub(in crate::kafka) fn add(&self, time: Duration) -> bool {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Relaxed);
        self.times.fetch_add(1, Relaxed) == 0
    }

    /// The sum of all times.
    pub(in crate::kafka) fn time(&self) -> Duration {
        Duration::from_micros(self.micros.load(Relaxed))
    }
}

/// A response with a throttle time.
pub(in crate::kafka::native) trait Throttled: ErrorCodes {
    /// In milliseconds; 0 if not throttled.
    fn throttle_time_ms(&self) -> i32;
}

macro_rules! throttled {
    ($($answer:ident),* $(,)?) => {
        $(impl Throttled for m::$answer {
            fn throttle_time_ms(&self) -> i32 {
                self.throttle_time_ms
            }
        })*
    };
}

throttled!(
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    ConsumerGroupDescribeResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    DescribeConfigsResponse,
    DescribeGroupsResponse,
    DescribeProducersResponse,
    DescribeTransactionsResponse,
    EndTxnResponse,
    FetchResponse,
    FindCoordinatorResponse,
    InitProducerIdResponse,
    ListGroupsResponse,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetFetchResponse,
    OffsetForLeaderEpochResponse,
    ProduceResponse,
    TxnOffsetCommitResponse,
);

/// Markers are never throttled, nor is authentication.
impl Throttled for m::WriteTxnMarkersResponse {
    fn throttle_time_ms(&self) -> i32 {
        0
    }
}

impl Throttled for m::SaslHandshakeResponse {
    fn throttle_time_ms(&self) -> i32 {
        0
    }
}

impl Throttled for m::SaslAuthenticateResponse {
    fn throttle_time_ms(&self) -> i32 {
        0
    }
}
