//! `/offsets`: how far each partition is read and committed, and its lag.

use super::{Shared, answer};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn offsets(State(shared): State<Arc<Shared>>) -> Response {
    let mut partitions = shared.status.partitions();
    partitions.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    let mut lag = 0;
    let rows: Vec<Value> = partitions
        .iter()
        .map(|p| {
            let behind = (p.end - p.committed).max(0);
            lag += behind;
            json!({
                "topic": p.topic,
                "partition": p.partition,
                "position": p.position,
                "committed": p.committed,
                "end": p.end,
                "lag": behind,
            })
        })
        .collect();
    let body = json!({
        "group": shared.status.application_id,
        "lag": lag,
        "partitions": rows,
        "at_ms": shared.clock.now().0,
    });
    answer(StatusCode::OK, &body)
}
