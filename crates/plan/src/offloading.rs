//! How `offload` parks records while a worker answers requests for them.
//!
//! Decoded from the plan, read when stages are cut and by the operator. Never decides anything.

use crate::function::Function;
use crate::materialized::Materialized;
use crate::spec::SerdeSpec;
use serde::{Deserialize, Serialize};
use stoatflow_core::Handler;

/// Requests go to one topic, answers come from another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offloading {
    /// The stream whose records are parked.
    pub from: usize,
    /// The topic of the requests: a sink.
    pub requests: String,
    /// The topic of the answers: a source.
    pub responses: String,
    /// `(value)` gives what is asked; without it the value itself is.
    #[serde(default)]
    pub request: Option<Function>,
    /// The joiner: `(value, answer)`.
    pub function: Function,
    /// Does the joiner get the key first?
    #[serde(default)]
    pub with_key: bool,
    /// Serde of keys, if it is not the stream's.
    #[serde(default)]
    pub key: Option<SerdeSpec>,
    /// Serde of requests.
    #[serde(default)]
    pub request_value: Option<SerdeSpec>,
    /// Serde of answers.
    pub response_value: SerdeSpec,
    /// How long an answer is waited for, and how often it is asked for.
    pub patience: Patience,
    /// `(value, message)` gives the result of a record whose last request was not answered in time.
    #[serde(default)]
    pub instead_of_timeout: Option<Function>,
    /// `(value, message)` gives the result of a record whose last request was answered with an error.
    #[serde(default)]
    pub instead_of_error: Option<Function>,
    /// Who decides about a record whose last request was not answered in time, if it is not the
    /// application's handler.
    #[serde(default)]
    pub timeout_handler: Option<Handler>,
    /// While so many records are parked, no more are read for it.
    pub max_parked: u64,
    /// How the parking lot is kept.
    #[serde(default)]
    pub materialized: Option<Materialized>,
}

/// How long an answer is waited for, and how often it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patience {
    /// Since the last request; `None`: without end.
    #[serde(default)]
    pub timeout_ms: Option<i64>,
    /// Requests in all.
    pub attempts: u32,
    /// The first pause before another request; it doubles with each ...
    pub first_ms: i64,
    /// ... up to this.
    pub most_ms: i64,
    /// Pauses vary by this share.
    pub jitter: f64,
    /// Is it asked again after a timeout?
    pub retry_timeouts: bool,
    /// Is it asked again after an answer that is an error?
    pub retry_errors: bool,
}
