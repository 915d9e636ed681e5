//! The jobs that a `BenchEngine` runs: a plan, and the values of its records.

use super::RECORDS;
use bytes::Bytes;
use serde_json::{Value, json};

/// A job with its input.
pub struct Job {
    nodes: fn() -> Value,
    value: fn(usize) -> String,
}

/// Orders, JSON of 1 KB: keep those with an amount of at least 20, with the user's name in upper case.
pub const ORDERS: Job = Job {
    nodes: orders,
    value: order,
};

/// Words of a line.
pub const WORDS_PER_LINE: usize = 10;

/// Lines of words: count each word.
pub const WORDS: Job = Job {
    nodes: words,
    value: line,
};

impl Job {
    pub fn plan(&self) -> String {
        json!({"version": 1, "functions": [], "nodes": (self.nodes)()}).to_string()
    }

    pub fn values(&self) -> impl Iterator<Item = Bytes> {
        (0..RECORDS).map(self.value).map(Bytes::from)
    }
}

fn value() -> Value {
    json!({"op": "value"})
}

fn member(name: &str) -> Value {
    json!({"op": "get", "args": [value()], "name": name})
}

fn lit(value: impl Into<Value>) -> Value {
    json!({"op": "lit", "value": value.into()})
}

fn orders() -> Value {
    let worth = json!({"op": "ge", "args": [member("amount"), lit(20)]});
    let upper = json!({"op": "str_upper", "args": [member("user")]});
    json!([
        {"op": "stream", "topics": ["in"], "key": "string", "value": "json"},
        {"op": "filter", "from": 0, "function": {"expr": worth}},
        {"op": "map_values", "from": 1,
         "function": {"expr": {"op": "call", "function": "with_fields", "args": [value(), lit("user"), upper]}}},
        {"op": "to", "from": 2, "topic": "out", "key": "string", "value": "json"},
    ])
}

fn order(at: usize) -> String {
    let pad = "x".repeat(900);
    let (user, amount) = (at % 1_000, at % 100);
    format!(r#"{{"id":{at},"user":"user-{user:04}","amount":{amount},"ts":{at},"pad":"{pad}"}}"#)
}

fn words() -> Value {
    let lower = json!({"op": "str_lower", "args": [value()]});
    let split = json!({"op": "str_split", "args": [lower], "by": null});
    json!([
        {"op": "stream", "topics": ["in"], "key": "string", "value": "string"},
        {"op": "flat_map_values", "from": 0, "function": {"expr": split}},
        {"op": "group_by", "from": 1, "function": {"expr": value()}},
        {"op": "count", "from": 2, "materialized": {"store": "counts"}},
        {"op": "to_stream", "from": 3},
        {"op": "to", "from": 4, "topic": "out"},
    ])
}

/// A line of words from a skewed vocabulary of a thousand.
fn line(at: usize) -> String {
    let word = |n: usize| {
        let n = (at * WORDS_PER_LINE + n).wrapping_mul(2_654_435_761) % 1_000;
        format!("Word{}", n * n / 1_000)
    };
    (0..WORDS_PER_LINE).map(word).collect::<Vec<_>>().join(" ")
}
