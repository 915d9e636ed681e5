//! Async functions that call a service: one with a value, and joiners, where the left side decides.
//!
//! Most values get an answer, some fail at the first attempt, some at each, some get none before
//! the timeout. That depends on the value alone, so that the checker knows it.

use super::plan::udf;
use crate::rng::SimRng;
use serde_json::{Value, json};

/// The function's name, and that of the joiner.
pub(crate) const FUNCTION: &str = "ask";
pub(crate) const JOINER: &str = "ask_both";
/// The store of calls that outlive their epoch.
pub(crate) const PARKED: &str = "asked-parked";
/// Where records go if their calls have failed for good.
pub(crate) const LETTERS: &str = "asks-dead";

/// How it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asking {
    /// So many calls run at a time.
    pub concurrency: u32,
    /// So long a barrier waits for them.
    pub park_after_ms: u64,
    /// For records that have got another key before.
    pub rekeyed: bool,
    /// Does each call come to an answer at last?
    pub lucky: bool,
}

impl Asking {
    /// One of a seed.
    pub fn new(rng: &mut SimRng) -> Self {
        Self {
            concurrency: [1, 2, 5, 40][rng.index(4)],
            park_after_ms: [0, 5, 50][rng.index(3)],
            rekeyed: rng.chance(3000),
            lucky: false,
        }
    }

    /// One for whom nothing may be left out.
    pub fn lucky(rng: &mut SimRng) -> Self {
        Self {
            lucky: true,
            ..Self::new(rng)
        }
    }

    /// The fate of a value.
    pub fn fate(self, value: &str) -> Fate {
        match fate(value) {
            Fate::Refused | Fate::Silent if self.lucky => Fate::Flaky,
            fate => fate,
        }
    }
}

/// The answer to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its answer.
    Answered,
    /// An error, and its answer when it asks again.
    Flaky,
    /// An error, each time.
    Refused,
    /// Nothing, each time.
    Silent,
}

/// The fate of a value.
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

/// The function as a call of the plan has it.
fn function(name: &str, asking: Asking) -> Value {
    let mut function = udf(name);
    if let Value::Object(function) = &mut function {
        function.insert("concurrency".into(), asking.concurrency.into());
        function.insert("park_after_ms".into(), asking.park_after_ms.into());
    }
    json!({"async": function})
}

/// The joiner. It must get the key.
pub(super) fn joiner(asking: Asking) -> Value {
    function(JOINER, asking)
}

/// What has failed is called once more before a handler decides.
pub(super) fn once_more(then: &Value) -> Value {
    json!({"retry": {"times": 1, "backoff_ms": 0, "then": then}})
}

pub(super) fn nodes(base: usize, asking: Asking) -> Vec<Value> {
    let stream = json!({"op": "stream", "topics": ["asks"], "key": "string", "value": "string"});
    let mut nodes = vec![stream];
    if asking.rekeyed {
        nodes.push(json!({"op": "select_key", "from": base, "function": udf("group")}));
    }
    let from = base + nodes.len() - 1;
    nodes.extend([
        json!({"op": "map_values", "from": from, "function": function(FUNCTION, asking), "with_key": true, "name": "asked",
            "on_error": once_more(&json!({"dlq": LETTERS}))}),
        json!({"op": "to", "from": from + 1, "topic": "asks-out", "key": "string", "value": "string"}),
    ]);
    nodes
}
