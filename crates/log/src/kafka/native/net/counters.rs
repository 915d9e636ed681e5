//! Counts what the clients of one role do: requests and their answers by API, and connections.
//!
//! Connections count once per request and never per record. All counters are atomic: the metrics read
//! them while clients count. An API gets its counters with its first request.

use crate::{ClientCounts, ConnectionCounts, RequestCounts, RequestDurations};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::ApiKey;
use std::array::from_fn;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// API keys below this are counted; a test finds out when Kafka has more.
const API_KEYS: usize = 96;
/// Error codes below this are counted by themselves, from -1 on; all others together.
const ERROR_CODES: usize = 160;
/// Upper bounds of buckets, in microseconds. One more bucket counts anything longer.
const BOUNDS_US: [u64; 11] = [
    1_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000,
    30_000_000,
];

/// Counters of one API.
#[derive(Debug)]
struct ApiCounters {
    sent: AtomicU64,
    unanswered: AtomicU64,
    retried: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    throttled_us: AtomicU64,
    /// By code, from -1 on.
    errors: [AtomicU64; ERROR_CODES],
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    duration_us: AtomicU64,
}

impl Default for ApiCounters {
    fn default() -> Self {
        Self {
            sent: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
            retried: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            throttled_us: AtomicU64::new(0),
            errors: from_fn(|_| AtomicU64::new(0)),
            buckets: from_fn(|_| AtomicU64::new(0)),
            duration_us: AtomicU64::new(0),
        }
    }
}

/// Counters of the clients of one role.
#[derive(Debug)]
pub(in crate::kafka) struct ClientCounters {
    apis: [OnceLock<Box<ApiCounters>>; API_KEYS],
    opened: AtomicU64,
    failed: AtomicU64,
    closed: AtomicU64,
    reopened: AtomicU64,
}

impl Default for ClientCounters {
    fn default() -> Self {
        Self {
            apis: from_fn(|_| OnceLock::new()),
            opened: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            reopened: AtomicU64::new(0),
        }
    }
}

impl ClientCounters {
    fn of(&self, api: i16) -> Option<&ApiCounters> {
        let counters = self.apis.get(usize::try_from(api).ok()?)?;
        Some(counters.get_or_init(Box::default))
    }

    /// A request is being sent.
    pub(super) fn sent(&self, api: i16, bytes: usize) {
        if let Some(of) = self.of(api) {
            of.sent.fetch_add(1, Relaxed);
            of.sent_bytes.fetch_add(bytes as u64, Relaxed);
        }
    }

    /// Its answer has arrived, after this long.
    pub(super) fn answered(&self, api: i16, bytes: usize, after: Duration) {
        if let Some(of) = self.of(api) {
            let us = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
            let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
            of.buckets[bucket].fetch_add(1, Relaxed);
            of.duration_us.fetch_add(us, Relaxed);
            of.received_bytes.fetch_add(bytes as u64, Relaxed);
        }
    }

    /// Its answer won't come.
    pub(super) fn unanswered(&self, api: i16) {
        if let Some(of) = self.of(api) {
            of.unanswered.fetch_add(1, Relaxed);
        }
    }

    /// Requests, or record batches, are sent again.
    pub(in crate::kafka::native) fn retried(&self, api: i16, count: usize) {
        if let Some(of) = self.of(api) {
            of.retried.fetch_add(count as u64, Relaxed);
        }
    }

    /// A quota makes the client wait after an answer.
    pub(super) fn throttled(&self, api: i16, time: Duration) {
        if let Some(of) = self.of(api) {
            let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            of.throttled_us.fetch_add(us, Relaxed);
        }
    }

    /// An answer has these error codes; 0 is none.
    pub(super) fn codes(&self, api: i16, codes: impl Iterator<Item = i16>) {
        for code in codes.filter(|code| *code != 0) {
            if let Some(of) = self.of(api) {
                let at = usize::try_from(i32::from(code) + 1).unwrap_or(ERROR_CODES);
                of.errors[at.min(ERROR_CODES - 1)].fetch_add(1, Relaxed);
            }
        }
    }

    pub(super) fn opened(&self) {
        self.opened.fetch_add(1, Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    pub(super) fn closed(&self) {
        self.closed.fetch_add(1, Relaxed);
    }

    pub(super) fn reopened(&self) {
        self.reopened.fetch_add(1, Relaxed);
    }

    /// What was counted so far.
    pub(in crate::kafka) fn counts(&self, client: &'static str) -> ClientCounts {
        // Closed ones are read first: more can't be closed than were opened.
        let closed = self.closed.load(Relaxed);
        let apis = (0_i16..).zip(&self.apis);
        ClientCounts {
            client,
            connections: ConnectionCounts {
                opened: self.opened.load(Relaxed),
                failed: self.failed.load(Relaxed),
                closed,
                reopened: self.reopened.load(Relaxed),
            },
            requests: apis
                .filter_map(|(key, of)| Some(of.get()?.counts(key)))
                .collect(),
        }
    }
}

impl ApiCounters {
    fn counts(&self, key: i16) -> RequestCounts {
        let errors = (-1_i16..).zip(&self.errors).filter_map(|(code, count)| {
            let count = count.load(Relaxed);
            (count > 0).then(|| (error_name(code), count))
        });
        let bounds = BOUNDS_US.map(Duration::from_micros);
        let bounds = bounds.into_iter().map(Some).chain([None]);
        let counts = self.buckets.iter().map(|count| count.load(Relaxed));
        RequestCounts {
            api: ApiKey::try_from(key).map_or_else(|()| key.to_string(), |key| format!("{key:?}")),
            sent: self.sent.load(Relaxed),
            unanswered: self.unanswered.load(Relaxed),
            retried: self.retried.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
            throttled: Duration::from_micros(self.throttled_us.load(Relaxed)),
            errors: errors.collect(),
            durations: RequestDurations {
                buckets: bounds.zip(counts).collect(),
                sum: Duration::from_micros(self.duration_us.load(Relaxed)),
            },
        }
    }
}

/// Kafka's name for an error code. The last one stands for all that are counted together.
fn error_name(code: i16) -> String {
    let place = usize::try_from(i32::from(code) + 1);
    if place.is_ok_and(|place| place >= ERROR_CODES - 1) {
        return "OTHER".to_owned();
    }
    let error = match ResponseError::try_from_code(code) {
        None => return "NONE".to_owned(),
        Some(ResponseError::Unknown(_)) => return format!("CODE_{code}"),
        Some(error) => error,
    };
    let mut name = String::new();
    for (at, letter) in format!("{error:?}").chars().enumerate() {
        if letter.is_ascii_uppercase() && at > 0 {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}
