//! Records that are offloaded: parked while a worker answers requests for them.
//!
//! Defines the nodes, the timeouts and retries, and the worker's answers. An answer depends only on
//! the value and the number of the request, so that the checker knows it.

use super::plan::udf;
use crate::rng::SimRng;
use serde_json::{Value, json};

/// The topics of the records, the requests, the answers and the results.
pub(crate) const RECORDS: &str = "jobs";
pub(crate) const REQUESTS: &str = "jobs-asked";
pub(crate) const ANSWERS: &str = "jobs-answered";
pub(crate) const RESULTS: &str = "jobs-out";
/// Where failed records go, and records without an answer in time.
pub(crate) const FAILED: &str = "jobs-dead";
pub(crate) const UNANSWERED: &str = "jobs-late";
/// The operator.
pub(crate) const NAME: &str = "jobs";
/// The store of what is parked.
pub(crate) const PARKED: &str = "jobs-parked";
/// The function that makes a request.
pub(super) const PLEA: &str = "plea";
/// An answer that can't be read.
pub(crate) const GARBLED: &[u8] = b"\xff";
/// More requests than any run has time for.
const ENDLESS: u32 = 1_000_000;

/// How long an answer to a request is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until it comes.
    Forever,
    /// So many milliseconds; then it is asked again, until an answer comes.
    Endless(i64),
    /// So many milliseconds, and so many requests in all.
    Limited(i64, u32),
}

/// How records are offloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parking {
    pub patience: Patience,
    /// Is it asked again after an error, as often as there are requests?
    pub retry_errors: bool,
    /// And after a timeout?
    pub retry_timeouts: bool,
    /// The first pause before another request.
    pub pause_ms: i64,
    /// Does a function stand in for what was not answered? Else such records are dead letters.
    pub instead: bool,
    /// So many more requests a handler wants before that.
    pub again: u32,
    /// So many records may be parked.
    pub most: u64,
    /// Have records got another key before?
    pub rekeyed: bool,
}

impl Parking {
    /// One of a seed.
    pub fn new(rng: &mut SimRng) -> Self {
        let timeout = [60, 200, 800][rng.index(3)];
        let patience = match rng.below(10) {
            0..=3 => Patience::Forever,
            4..=5 => Patience::Endless(timeout),
            _ => Patience::Limited(timeout, [1, 1, 2, 3][rng.index(4)]),
        };
        let endless = matches!(patience, Patience::Endless(_));
        let instead = rng.chance(4000);
        Self {
            patience,
            retry_errors: rng.chance(6000) && !endless,
            retry_timeouts: rng.chance(7500) || endless,
            // With endless retries there must be an end, or answers come faster than they are read.
            pause_ms: if endless {
                200
            } else {
                [0, 20, 200][rng.index(3)]
            },
            instead,
            again: u32::from(rng.chance(3000) && !instead),
            most: [3, 10, 40, 100_000][rng.index(4)],
            rekeyed: rng.chance(3000),
        }
    }

    /// So many requests are sent before handlers are asked.
    pub fn attempts(self) -> u32 {
        match self.patience {
            // Then only errors are asked about again.
            Patience::Forever => 2,
            Patience::Endless(_) => ENDLESS,
            Patience::Limited(_, attempts) => attempts,
        }
    }

    /// What a request asks about a value; `None`: it can't be made.
    pub fn plea(self, value: &str) -> Option<String> {
        if self.instead {
            return Some(value.to_owned());
        }
        (fate(value) != Fate::Unasked).then(|| plea(value))
    }
}

/// What becomes of the requests for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Each is answered.
    Answered,
    /// The first one is answered with an error.
    Flaky,
    /// Each is answered with an error; of requests without end, the first ones.
    Refused,
    /// The same with bytes that can't be read.
    Garbled,
    /// None is answered, if that is not waited for without end.
    Silent,
    /// The first one is not.
    Slow,
    /// There is none, if a function makes it.
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

/// What the worker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Answer(String),
    Error(String),
    Garbled,
    Nothing,
}

impl Parking {
    /// The answer to the n-th request of this value.
    pub fn said(self, request: &str, attempt: u32) -> Said {
        let value = request.trim_end_matches('?');
        let answer = Said::Answer(answer(value));
        let error = Said::Error(error(value));
        match (fate(value), self.patience) {
            (Fate::Answered | Fate::Unasked, _)
            | (Fate::Silent | Fate::Slow, Patience::Forever) => answer,
            // Errors may come too late each time: they count only until it is asked again.
            (Fate::Refused | Fate::Garbled, Patience::Endless(_)) if attempt > 3 => answer,
            (Fate::Refused, _) => error,
            (Fate::Garbled, _) => Said::Garbled,
            (Fate::Flaky, _) if attempt == 1 => error,
            (Fate::Silent, Patience::Limited(..)) => Said::Nothing,
            (Fate::Silent | Fate::Slow, _) if attempt == 1 => Said::Nothing,
            (Fate::Flaky | Fate::Silent | Fate::Slow, _) => answer,
        }
    }
}

pub(super) fn plea(value: &str) -> String {
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

/// Asked again as often as is wanted, then a dead letter.
fn handler(again: u32, topic: &str) -> Value {
    let letter = json!({"dlq": topic});
    if again == 0 {
        return letter;
    }
    json!({"retry": {"times": again, "backoff_ms": 30, "then": letter}})
}

pub(super) fn nodes(base: usize, parking: Parking) -> Vec<Value> {
    let mut nodes =
        vec![json!({"op": "stream", "topics": [RECORDS], "key": "string", "value": "string"})];
    if parking.rekeyed {
        nodes.push(json!({"op": "select_key", "from": base, "function": udf("group")}));
    }
    let from = base + nodes.len() - 1;
    let timeout = match parking.patience {
        Patience::Forever => None,
        Patience::Endless(ms) | Patience::Limited(ms, _) => Some(ms),
    };
    let most_ms = match parking.patience {
        Patience::Endless(_) => 20_000,
        _ => 2 * parking.pause_ms,
    };
    let mut offload = json!({
        "op": "offload", "from": from, "name": NAME, "requests": REQUESTS, "responses": ANSWERS,
        "function": udf("pair"), "key": "string", "request_value": "string", "response_value": "string",
        "max_parked": parking.most,
        "patience": {
            "timeout_ms": timeout, "attempts": parking.attempts(), "first_ms": parking.pause_ms,
            "most_ms": most_ms, "jitter": 0.5, "retry_timeouts": parking.retry_timeouts,
            "retry_errors": parking.retry_errors,
        },
    });
    let own = if parking.instead {
        json!({"instead_of_timeout": udf("pair"), "instead_of_error": udf("pair")})
    } else {
        json!({"request": udf(PLEA), "timeout_handler": handler(parking.again, UNANSWERED),
            "on_error": handler(parking.again, FAILED)})
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
