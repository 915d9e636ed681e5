//! Late records that go to a topic of their own.
//!
//! Gives the plan's nodes. Whether a record is late depends on where the barriers are: nobody knows it before.

use serde_json::{Value, json};

/// Where late records go.
pub(crate) const LETTERS: &str = "tardy-dead";

pub(super) fn nodes(base: usize) -> Vec<Value> {
    vec![
        json!({"op": "stream", "topics": ["tardy"], "key": "string", "value": "string",
            "watermark": {"strategy": "monotonic"}, "late": {"dlq": LETTERS}}),
        json!({"op": "to", "from": base, "topic": "tardy-out", "key": "string", "value": "string"}),
    ]
}
