//! Positions and event time of all partitions, and which of them hold others back.
//!
//! As reported by dispatch at the last barrier.

use super::{Shared, answer};
use crate::admin::status::{PartitionStatus, Status};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The answer.
pub(super) async fn watermarks(State(shared): State<Arc<Shared>>) -> Response {
    let status = &shared.status;
    let partitions = status.partitions();
    // A partition without records has no time.
    let minimum = partitions
        .iter()
        .map(|p| p.stream_time)
        .filter(|&t| t >= 0)
        .min();
    let now = shared.clock.now().0;
    let application = known(status.watermark.load(Relaxed));
    let rows: Vec<_> = partitions.iter().map(|p| row(p, now)).collect();
    let late: Vec<_> = status
        .lates()
        .into_iter()
        .map(|(topic, policy, count)| json!({"topic": topic, "policy": policy, "count": count}))
        .collect();
    let body = json!({
        "application": application,
        "lag_ms": application.map(|w| now - w),
        "semantics": semantics(status),
        "minimum": minimum,
        "behind_ms": minimum.map(|t| now - t),
        "lag": status.lag(),
        "partitions": rows,
        "late": late,
        "at_ms": now,
    });
    answer(StatusCode::OK, &body)
}

/// The application's watermark, and which partitions hold it back.
pub(super) fn held(status: &Status) -> Value {
    let partitions = status.partitions();
    let holders = partitions.iter().filter(|p| p.holds_back);
    let holders = holders.map(|p| {
        json!({
            "topic": p.topic,
            "partition": p.partition,
            "watermark": known(p.watermark),
        })
    });
    json!({
        "application": known(status.watermark.load(Relaxed)),
        "semantics": semantics(status),
        "held_by": holders.collect::<Vec<_>>(),
    })
}

fn semantics(status: &Status) -> &'static str {
    if status.by_watermark.load(Relaxed) {
        "watermark"
    } else {
        "stream-time"
    }
}

fn known(time: i64) -> Option<i64> {
    (time >= 0).then_some(time)
}

fn row(p: &PartitionStatus, now: i64) -> Value {
    let watermark = known(p.watermark);
    json!({
        "topic": p.topic,
        "partition": p.partition,
        "position": p.position,
        "committed": p.committed,
        "end": p.end,
        "lag": (p.end - p.committed).max(0),
        "stream_time": known(p.stream_time),
        "highest": known(p.stream_time),
        "watermark": watermark,
        "lag_ms": watermark.map(|w| now - w),
        "strategy": &*p.strategy,
        "idle": p.idle,
        "group": p.group.as_deref(),
        "aligned_wait": p.waits,
        "holds_back": p.holds_back,
    })
}
