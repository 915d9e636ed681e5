//! An async function that asks a service.
//!
//! Gives the plan's nodes, and what the service says to whom: most values get an answer, some fail at the first
//! attempt, some at each, some get none until the time limit. That is a matter of the value alone, so that the
//! checker knows it. Never knows when an answer comes (that is [`crate::caller`]).

use super::plan::udf;
use crate::rng::SimRng;
use serde_json::{Value, json};

/// The function's name.
pub(crate) const FUNCTION: &str = "ask";
/// The store of calls that outlive their epoch.
pub(crate) const PARKED: &str = "asked-parked";
/// Where records go whose calls have failed for good.
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
}

impl Asking {
    /// One of a seed.
    pub fn new(rng: &mut SimRng) -> Self {
        Self {
            concurrency: [1, 2, 5, 40][rng.index(4)],
            park_after_ms: [0, 5, 50][rng.index(3)],
            rekeyed: rng.chance(3000),
        }
    }
}

/// What a value is told.
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

pub(super) fn nodes(base: usize, asking: Asking) -> Vec<Value> {
    let stream = json!({"op": "stream", "topics": ["asks"], "key": "string", "value": "string"});
    let mut nodes = vec![stream];
    if asking.rekeyed {
        nodes.push(json!({"op": "select_key", "from": base, "function": udf("group")}));
    }
    let from = base + nodes.len() - 1;
    let Value::Object(mut function) = udf(FUNCTION) else {
        return nodes;
    };
    function.insert("concurrency".into(), asking.concurrency.into());
    function.insert("park_after_ms".into(), asking.park_after_ms.into());
    let letter = json!({"dlq": LETTERS});
    let again = json!({"retry": {"times": 1, "backoff_ms": 0, "then": letter}});
    nodes.extend([
        json!({"op": "map_values", "from": from, "function": {"async": function}, "with_key": true, "name": "asked", "on_error": again}),
        json!({"op": "to", "from": from + 1, "topic": "asks-out", "key": "string", "value": "string"}),
    ]);
    nodes
}
