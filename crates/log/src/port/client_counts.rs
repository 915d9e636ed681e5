//! What the clients of a broker have done: requests, answers, connections.
//!
//! Totals since the start of the application, for metrics.

use std::time::Duration;

/// What the clients of one role have done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// `consumer`, `producer` or `admin`.
    pub client: &'static str,
    /// Their connections.
    pub connections: ConnectionCounts,
    /// Their requests, by API. APIs that were never called are left out.
    pub requests: Vec<RequestCounts>,
}

/// Connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Opened, with TLS and authentication.
    pub opened: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Closed, by either side.
    pub closed: u64,
    /// Opened again to a broker that the client had been connected to. Part of `opened`.
    pub reopened: u64,
}

impl ConnectionCounts {
    /// How many are open.
    #[must_use]
    pub const fn open(&self) -> u64 {
        self.opened.saturating_sub(self.closed)
    }
}

/// Requests of one API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Its name in Kafka's protocol (`Produce`).
    pub api: String,
    /// Requests sent.
    pub sent: u64,
    /// Requests whose answer never came.
    pub unanswered: u64,
    /// Requests sent again; of `Produce` it is record batches.
    pub retried: u64,
    /// Bytes of the requests.
    pub sent_bytes: u64,
    /// Bytes of the answers.
    pub received_bytes: u64,
    /// How long a quota has made the client wait.
    pub throttled: Duration,
    /// Error codes in answers, by Kafka's name for them (`NOT_LEADER_OR_FOLLOWER`).
    pub errors: Vec<(String, u64)>,
    /// From the request to its answer.
    pub durations: RequestDurations,
}

/// Durations of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestDurations {
    /// The upper bound of each bucket (`None`: infinite), and the number of durations in it. Not
    /// cumulative.
    pub buckets: Vec<(Option<Duration>, u64)>,
    /// Their sum.
    pub sum: Duration,
}

impl RequestDurations {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}
