//! A stream whose records are joined with a table by an async function.
//!
//! Which row a record is joined with depends on which was read first; but a later record of its key must
//! get the same row or a later one. The service's answers are in [`super::async_calls`].

use super::async_calls::{self, CallSettings};
use serde_json::{Value, json};

/// The topics of the stream and of the table.
pub(crate) const RECORDS: &str = "lookups";
pub(crate) const ROWS: &str = "entries";
/// The topic of joined records, and the dead letter topic of records whose calls failed for good.
pub(crate) const RESULTS: &str = "lookups-out";
pub(crate) const DEAD_LETTERS: &str = "lookups-dead";

pub(super) fn nodes(base: usize, settings: CallSettings) -> Vec<Value> {
    vec![
        json!({"op": "stream", "topics": [RECORDS], "key": "string", "value": "string"}),
        json!({"op": "table", "topic": ROWS, "key": "string", "value": "string", "materialized": {"store": "entries-store"}}),
        json!({"op": "left_join", "from": base, "other": base + 1, "function": async_calls::joiner(settings), "with_key": true,
            "on_error": async_calls::retry_once_then(&json!({"dlq": DEAD_LETTERS}))}),
        json!({"op": "to", "from": base + 2, "topic": RESULTS, "key": "string", "value": "string"}),
    ]
}
