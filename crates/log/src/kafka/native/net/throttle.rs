//! Quotas of a broker (KIP-219): for how long it wants no further request of this client.
//!
//! A broker that slows a client down answers at once, says for how long, and reads nothing from
//! that connection until then. What is sent meanwhile would only wait there, while the time for its
//! answer runs.

use kafka_protocol::messages as m;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// How often, and for how long in all, brokers have slowed the clients of an application down.
#[derive(Debug, Default)]
pub(in crate::kafka) struct ThrottleTotals {
    times: AtomicU64,
    micros: AtomicU64,
}

impl ThrottleTotals {
    /// Once more, for so long. Gives whether it was the first time.
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

/// An answer, as far as it says for how long nothing more is to be sent.
pub(in crate::kafka::native) trait Throttled {
    /// In milliseconds; 0 for not at all.
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

/// A login is never slowed down.
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
