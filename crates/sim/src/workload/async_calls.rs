//! Async functions that call a service: one that gets a value, and joiners, whose fate depends on the
//! left side.
//!
//! Most values get an answer, some fail at the first attempt, some at every attempt, some get no answer
//! before the timeout. That depends on the value alone, so that the checker knows it.

use super::plan::udf;
use crate::rng::SimRng;
use serde_json::{Value, json};

/// The names of the function and of the joiner.
pub(crate) const FUNCTION: &str = "ask";
pub(crate) const JOINER: &str = "ask_both";
/// The store of calls that outlive their epoch.
pub(crate) const PARKED: &str = "asked-parked";
/// The dead letter topic of records whose calls failed for good.
pub(crate) const DEAD_LETTERS: &str = "asks-dead";

/// How an async function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallSettings {
    /// Maximum number of concurrent calls.
    pub concurrency: u32,
    /// How long a barrier waits for calls until it parks them.
    pub park_after_ms: u64,
    /// Whether records are re-keyed before.
    pub rekeyed: bool,
    /// Whether each call is answered in the end.
    pub always_answered: bool,
}

impl CallSettings {
    /// Draws the settings.
    pub fn new(rng: &mut SimRng) -> Self {
        Self {
            concurrency: [1, 2, 5, 40][rng.index(4)],
            park_after_ms: [0, 5, 50][rng.index(3)],
            rekeyed: rng.chance(3000),
            always_answered: false,
        }
    }

    /// Draws the settings of a part that must not lose records.
    pub fn always_answered(rng: &mut SimRng) -> Self {
        Self {
            always_answered: true,
            ..Self::new(rng)
        }
    }

    /// The outcome of the calls for a value: [`fate`], without permanent failures if `always_answered`.
    pub fn fate(self, value: &str) -> Fate {
        match fate(value) {
            Fate::Refused | Fate::Silent if self.always_answered => Fate::Flaky,
            fate => fate,
        }
    }
}

/// The outcome of all calls for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// An answer.
    Answered,
    /// An error, and an answer to the second call.
    Flaky,
    /// An error, every time.
    Refused,
    /// No answer, every time.
    Silent,
}

/// The outcome of all calls for a value, computed from its number.
pub(crate) fn fate(value: &str) -> Fate {
    let digits = value.rsplit(':').next().unwrap_or_default();
    let digits = digits.trim_start_matches(|c: char| !c.is_ascii_digit());
    let number: u32 = digits.parse().unwrap_or_default();
    match number % 23 {
        4 | 11 => Fate::Refused,
        5 => Fate::Silent,
        2 | 9 | 16 => Fate::Flaky,
        _ => Fate::Answered,
    }
}

/// The answer to a value.
pub(crate) fn answer(value: &str) -> String {
    format!("{value}!")
}

/// The function as it is written in a plan.
fn function(name: &str, settings: CallSettings) -> Value {
    let mut function = udf(name);
    if let Value::Object(function) = &mut function {
        function.insert("concurrency".into(), settings.concurrency.into());
        function.insert("park_after_ms".into(), settings.park_after_ms.into());
    }
    json!({"async": function})
}

/// The joiner, which needs the key as an argument.
pub(super) fn joiner(settings: CallSettings) -> Value {
    function(JOINER, settings)
}

/// An error policy: calls again once before `then` decides.
pub(super) fn retry_once_then(then: &Value) -> Value {
    json!({"retry": {"times": 1, "backoff_ms": 0, "then": then}})
}

pub(super) fn nodes(base: usize, settings: CallSettings) -> Vec<Value> {
    let stream = json!({"op": "stream", "topics": ["asks"], "key": "string", "value": "string"});
    let mut nodes = vec![stream];
    if settings.rekeyed {
        nodes.push(json!({"op": "select_key", "from": base, "function": udf("group")}));
    }
    let from = base + nodes.len() - 1;
    nodes.extend([
        json!({"op": "map_values", "from": from, "function": function(FUNCTION, settings), "with_key": true, "name": "asked",
            "on_error": retry_once_then(&json!({"dlq": DEAD_LETTERS}))}),
        json!({"op": "to", "from": from + 1, "topic": "asks-out", "key": "string", "value": "string"}),
    ]);
    nodes
}
