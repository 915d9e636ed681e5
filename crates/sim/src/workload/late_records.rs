//! Late records that go to a dead letter topic.
//!
//! Which records are late depends on where the barriers are, so it isn't known in advance.

use serde_json::{Value, json};

/// The dead letter topic of late records.
pub(crate) const DEAD_LETTERS: &str = "tardy-dead";

pub(super) fn nodes(base: usize) -> Vec<Value> {
    vec![
        json!({"op": "stream", "topics": ["tardy"], "key": "string", "value": "string",
            "watermark": {"strategy": "monotonic"}, "late": {"dlq": DEAD_LETTERS}}),
        json!({"op": "to", "from": base, "topic": "tardy-out", "key": "string", "value": "string"}),
    ]
}
