//! Records that are offloaded: parked while a worker answers requests for them.
//!
//! Defines the nodes, the timeouts and retries, and the worker's answers. An answer depends only on the
//! value and the number of the request, so that the checker knows it.

use super::plan::udf;
use crate::rng::SimRng;
use serde_json::{Value, json};

/// The topics of the records, the requests, the answers and the results.
pub(crate) const RECORDS: &str = "jobs";
pub(crate) const REQUESTS: &str = "jobs-asked";
pub(crate) const ANSWERS: &str = "jobs-answered";
pub(crate) const RESULTS: &str = "jobs-out";
/// The topics of failed records, and of records without an answer in time.
pub(crate) const FAILED: &str = "jobs-dead";
pub(crate) const UNANSWERED: &str = "jobs-late";
/// The name of the operator.
pub(crate) const NAME: &str = "jobs";
/// The store of parked records.
pub(crate) const PARKED: &str = "jobs-parked";
/// The function that makes a request.
pub(super) const REQUEST_FUNCTION: &str = "plea";
/// An answer that can't be decoded.
pub(crate) const GARBLED: &[u8] = b"\xff";
/// More requests than any run has time for.
const UNLIMITED_REQUESTS: u32 = 1_000_000;

/// How long a record waits for the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until it arrives.
    Forever,
    /// This many milliseconds; then another request is sent, until an answer arrives.
    Endless(i64),
    /// This many milliseconds, with this many requests in total.
    Limited(i64, u32),
}

/// How records are offloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffloadSettings {
    pub patience: Patience,
    /// Whether another request follows an error, as long as the number of requests allows it.
    pub retry_errors: bool,
    /// Whether another request follows a timeout.
    pub retry_timeouts: bool,
    /// The first pause before another request.
    pub pause_ms: i64,
    /// Whether a function substitutes for missing answers; otherwise such records become dead letters.
    pub substitute: bool,
    /// Number of additional requests that a handler makes before that.
    pub extra_requests: u32,
    /// Maximum number of parked records.
    pub max_parked: u64,
    /// Whether records are re-keyed before.
    pub rekeyed: bool,
}

impl OffloadSettings {
    /// Draws the settings.
    pub fn new(rng: &mut SimRng) -> Self {
        let timeout = [60, 200, 800][rng.index(3)];
        let patience = match rng.below(10) {
            0..=3 => Patience::Forever,
            4..=5 => Patience::Endless(timeout),
            _ => Patience::Limited(timeout, [1, 1, 2, 3][rng.index(4)]),
        };
        let endless = matches!(patience, Patience::Endless(_));
        let substitute = rng.chance(4000);
        Self {
            patience,
            retry_errors: rng.chance(6000) && !endless,
            retry_timeouts: rng.chance(7500) || endless,
            // Endless retries need a pause, or answers arrive faster than they are read.
            pause_ms: if endless {
                200
            } else {
                [0, 20, 200][rng.index(3)]
            },
            substitute,
            extra_requests: u32::from(rng.chance(3000) && !substitute),
            max_parked: [3, 10, 40, 100_000][rng.index(4)],
            rekeyed: rng.chance(3000),
        }
    }

    /// Number of requests that are sent before handlers are called.
    pub fn attempts(self) -> u32 {
        match self.patience {
            // Then only errors lead to another request.
            Patience::Forever => 2,
            Patience::Endless(_) => UNLIMITED_REQUESTS,
            Patience::Limited(_, attempts) => attempts,
        }
    }

    /// The request for a value; `None` if it can't be made.
    pub fn request_text(self, value: &str) -> Option<String> {
        if self.substitute {
            return Some(value.to_owned());
        }
        (fate(value) != Fate::Unasked).then(|| request_text(value))
    }
}

/// The outcome of all requests for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// All are answered.
    Answered,
    /// The first one is answered with an error.
    Flaky,
    /// All are answered with an error; if requests are endless, only the first ones.
    Refused,
    /// Like `Refused`, with bytes that can't be decoded.
    Garbled,
    /// None is answered, if their number is limited.
    Silent,
    /// The first one is not answered, if there is a timeout.
    Slow,
    /// There is none, if a function has to make it.
    Unasked,
}

/// The fate of a value.
pub(crate) fn fate(value: &str) -> Fate {
    let digits = value.rsplit(':').next().unwrap_or_default();
    let number: u32 = digits.parse().unwrap_or_default();
    match number % 29 {
        3 => Fate::Refused,
        8 => Fate::Garbled,
        5 | 20 => Fate::Flaky,
        11 => Fate::Silent,
        17 | 23 => Fate::Slow,
        26 => Fate::Unasked,
        _ => Fate::Answered,
    }
}

/// The worker's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    Answer(String),
    Error(String),
    Garbled,
    Nothing,
}

impl OffloadSettings {
    /// The response to the n-th request for this value.
    pub fn response(self, request: &str, attempt: u32) -> Response {
        let value = request.trim_end_matches('?');
        let answer = Response::Answer(answer(value));
        let error = Response::Error(error(value));
        match (fate(value), self.patience) {
            (Fate::Answered | Fate::Unasked, _)
            | (Fate::Silent | Fate::Slow, Patience::Forever) => answer,
            // Errors may arrive too late every time: they count only until the next request is sent.
            (Fate::Refused | Fate::Garbled, Patience::Endless(_)) if attempt > 3 => answer,
            (Fate::Refused, _) => error,
            (Fate::Garbled, _) => Response::Garbled,
            (Fate::Flaky, _) if attempt == 1 => error,
            (Fate::Silent, Patience::Limited(..)) => Response::Nothing,
            (Fate::Silent | Fate::Slow, _) if attempt == 1 => Response::Nothing,
            (Fate::Flaky | Fate::Silent | Fate::Slow, _) => answer,
        }
    }
}

pub(super) fn request_text(value: &str) -> String {
    format!("{value}?")
}

/// The answer to a value.
pub(crate) fn answer(value: &str) -> String {
    format!("{value}!")
}

/// The text of the error that a value is answered with.
pub(crate) fn error(value: &str) -> String {
    format!("'{value}' is refused")
}

/// An error policy: this many retries, then a dead letter.
fn error_policy(retries: u32, topic: &str) -> Value {
    let letter = json!({"dlq": topic});
    if retries == 0 {
        return letter;
    }
    json!({"retry": {"times": retries, "backoff_ms": 30, "then": letter}})
}

pub(super) fn nodes(base: usize, settings: OffloadSettings) -> Vec<Value> {
    let mut nodes =
        vec![json!({"op": "stream", "topics": [RECORDS], "key": "string", "value": "string"})];
    if settings.rekeyed {
        nodes.push(json!({"op": "select_key", "from": base, "function": udf("group")}));
    }
    let from = base + nodes.len() - 1;
    let timeout = match settings.patience {
        Patience::Forever => None,
        Patience::Endless(ms) | Patience::Limited(ms, _) => Some(ms),
    };
    let max_pause_ms = match settings.patience {
        Patience::Endless(_) => 20_000,
        _ => 2 * settings.pause_ms,
    };
    let mut offload = json!({
        "op": "offload", "from": from, "name": NAME, "requests": REQUESTS, "responses": ANSWERS,
        "function": udf("pair"), "key": "string", "request_value": "string", "response_value": "string",
        "max_parked": settings.max_parked,
        "patience": {
            "timeout_ms": timeout, "attempts": settings.attempts(), "first_ms": settings.pause_ms,
            "most_ms": max_pause_ms, "jitter": 0.5, "retry_timeouts": settings.retry_timeouts,
            "retry_errors": settings.retry_errors,
        },
    });
    let own = if settings.substitute {
        json!({"instead_of_timeout": udf("pair"), "instead_of_error": udf("pair")})
    } else {
        json!({"request": udf(REQUEST_FUNCTION), "timeout_handler": error_policy(settings.extra_requests, UNANSWERED),
            "on_error": error_policy(settings.extra_requests, FAILED)})
    };
    if let (Value::Object(all), Value::Object(own)) = (&mut offload, own) {
        all.extend(own);
    }
    nodes.extend([
        offload,
        json!({"op": "to", "from": from + 1, "topic": RESULTS, "key": "string", "value": "string"}),
    ]);
    nodes
}
