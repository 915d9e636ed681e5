//! How `offload` parks records while a worker answers requests for them.
//!
//! Decoded from the plan; used by the `stages` pass and the operator. Never decides anything.

use crate::function::Function;
use crate::materialized::Materialized;
use crate::spec::SerdeSpec;
use serde::{Deserialize, Serialize};
use stoatflow_core::Handler;

/// Requests are written to one topic, responses are read from another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OffloadSpec {
    /// The stream whose records are parked.
    pub from: usize,
    /// The topic of the requests: a sink.
    pub requests: String,
    /// The topic of the answers: a source.
    pub responses: String,
    /// `(value)` returns the request; without it the value itself is the request.
    #[serde(default)]
    pub request: Option<Function>,
    /// The joiner: `(value, answer)`.
    pub function: Function,
    /// Whether the joiner gets the key as its first argument.
    #[serde(default)]
    pub with_key: bool,
    /// Serde of keys, if it differs from the stream's.
    #[serde(default)]
    pub key: Option<SerdeSpec>,
    /// Serde of requests.
    #[serde(default)]
    pub request_value: Option<SerdeSpec>,
    /// Serde of answers.
    pub response_value: SerdeSpec,
    /// How long to wait for a response, and how often to repeat the request.
    pub patience: RetryPolicy,
    /// `(value, message)` returns the result of a record whose last request timed out.
    #[serde(default)]
    pub instead_of_timeout: Option<Function>,
    /// `(value, message)` returns the result of a record whose last response was an error.
    #[serde(default)]
    pub instead_of_error: Option<Function>,
    /// The handler for a record whose last request timed out, if it differs from the application's.
    #[serde(default)]
    pub timeout_handler: Option<Handler>,
    /// While this many records are parked, its input is not read.
    pub max_parked: u64,
    /// How the store of parked records is materialized.
    #[serde(default)]
    pub materialized: Option<Materialized>,
}

/// How long to wait for a response, and how often to repeat the request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Timeout of a request; `None`: no timeout.
    #[serde(default)]
    pub timeout_ms: Option<i64>,
    /// Maximum number of requests, including the first.
    pub attempts: u32,
    /// The first pause before a retry; it doubles with each retry ...
    pub first_ms: i64,
    /// ... up to this.
    pub most_ms: i64,
    /// Random variation of pauses, as a fraction.
    pub jitter: f64,
    /// Whether a timeout is retried.
    pub retry_timeouts: bool,
    /// Whether an error response is retried.
    pub retry_errors: bool,
}
