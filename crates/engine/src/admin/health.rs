//! Liveness, readiness, and the lifecycle state.
//!
//! Reports reasons that a supervisor or a person can act on; decides nothing itself.

use super::access::Authorised;
use super::{Shared, answer, millis};
use crate::admin::status::RestoreProgress;
use crate::index::state::IndexStatus;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_protocol::Lifecycle;

/// 200 unless the application has failed or is stalled: only then does a restart help.
pub(super) async fn live(
    State(shared): State<Arc<Shared>>,
    Extension(Authorised(authorised)): Extension<Authorised>,
) -> Response {
    let state = shared.status.state();
    let live = state != Lifecycle::Failed && !shared.status.stalled.load(Relaxed);
    let mut body = json!({ "live": live, "state": state.name() });
    if !live && authorised {
        body["error"] = json!(shared.status.error());
    }
    answer(code(live), &body)
}

/// 200 while records are processed; otherwise 503 with the reason.
pub(super) async fn ready(
    State(shared): State<Arc<Shared>>,
    Extension(Authorised(authorised)): Extension<Authorised>,
) -> Response {
    let reason = unready(&shared);
    let status = code(reason.is_none());
    let state = shared.status.state().name();
    let mut body = match reason {
        None => json!({ "ready": true, "state": state }),
        Some(reason) if !authorised => {
            json!({ "ready": false, "reason": reason["reason"], "state": reason["state"] })
        }
        Some(reason) => reason,
    };
    let checks = (shared.status.health_checks).states(shared.clock.monotonic());
    if authorised && !checks.is_empty() {
        body["checks"] = json!(checks);
    }
    answer(status, &body)
}

/// `/state`: everything about the lifecycle.
pub(super) async fn state(State(shared): State<Arc<Shared>>) -> Response {
    let status = &shared.status;
    let ready = unready(&shared).unwrap_or_else(|| json!({ "ready": true }));
    let body = json!({
        "application_id": status.application_id,
        "version": shared.version,
        "state": status.state().name(),
        "history": status.history(),
        "ready": ready,
        "restore": status.restore(),
        "indexes": status.indexes().iter().map(|index| index_progress(index)).collect::<Vec<_>>(),
        "error": status.error(),
        "watermark": super::watermarks::held(status),
        "restarts": status.restarts.load(Relaxed),
        "at_ms": shared.clock.now().0,
        "monotonic_ms": millis(shared.clock.monotonic()),
        "process_id": std::process::id(),
    });
    answer(StatusCode::OK, &body)
}

/// The state and progress of an index.
fn index_progress(index: &IndexStatus) -> Value {
    let mut shown = json!({
        "store": index.store,
        "index": index.name,
        "state": index.state(),
        "unreadable_rows": index.unreadable.load(Relaxed),
    });
    match index.state() {
        "building" => {
            let done = index.done.load(Relaxed);
            shown["done"] = json!(done);
            shown["total"] = json!(index.total.load(Relaxed).max(done));
        }
        "unique_pending" => shown["duplicates"] = json!(index.duplicates.load(Relaxed)),
        _ => {}
    }
    shown
}

const fn code(good: bool) -> StatusCode {
    if good {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

const BROKER_AWAY: &str =
    "check that the broker runs and can be reached; the application then continues by itself";

/// Why the application isn't ready; `None` if it is.
pub(super) fn unready(shared: &Shared) -> Option<Value> {
    let status = &shared.status;
    // Read once, so that reason and state of one answer agree.
    let state = status.state();
    let mut restore = None;
    let away = status.is_broker_away(shared.clock.monotonic());
    let (reason, detail, next_step) = match state {
        Lifecycle::Running => {
            let (reason, detail) = status
                .ready(
                    shared.clock.monotonic(),
                    shared.clock.now().0,
                    shared.stall_after,
                )
                .err()?;
            let next = match reason {
                "broker_away" => BROKER_AWAY,
                "open_transaction" => {
                    "check that its producer runs; if it is gone for good, end the transaction with the \
                        command in the log (kafka-transactions.sh abort)"
                }
                "health_check" => {
                    "repair what the health check reports; it is called again after its interval"
                }
                _ => {
                    "see /debug/barriers for the step that hangs and /debug/threads for the busy lane"
                }
            };
            (reason, detail, next.to_owned())
        }
        Lifecycle::Restoring if away.is_none() => {
            restore = Some(status.restore());
            let stores = restore.as_deref().unwrap_or_default();
            (
                "restoring",
                restored(stores),
                "wait: it reads its changelogs and becomes ready by itself".to_owned(),
            )
        }
        Lifecycle::Paused => (
            "paused",
            "it reads nothing, and all that it has read is committed".to_owned(),
            "POST /resume, or app.resume(), lets it read on".to_owned(),
        ),
        Lifecycle::Failed => {
            let error = status.error();
            let detail = error.as_ref().map_or_else(
                || "the application failed".to_owned(),
                |e| e.message.clone(),
            );
            let next = error.map_or_else(
                || "see the log, then start it again".to_owned(),
                |e| e.next_step,
            );
            ("failed", detail, next)
        }
        Lifecycle::Starting | Lifecycle::Restoring if away.is_some() => {
            let detail = away.unwrap_or_default();
            ("broker_away", detail, BROKER_AWAY.to_owned())
        }
        other => {
            let next = if other.is_final() {
                "start it again"
            } else {
                "wait: the state will change by itself"
            };
            (
                "not_running",
                format!("the application is {}", other.name()),
                next.to_owned(),
            )
        }
    };
    let mut body = json!({
        "ready": false,
        "reason": reason,
        "detail": detail,
        "next_step": next_step,
        "state": state.name(),
    });
    if let Some(stores) = restore {
        body["restore"] = json!(stores);
    }
    Some(body)
}

/// One sentence about the restore of all stores.
pub(crate) fn restored(stores: &[RestoreProgress]) -> String {
    let complete = stores.iter().filter(|s| s.complete).count();
    let done: u64 = stores.iter().map(|s| s.done).sum();
    let total: u64 = stores.iter().map(|s| s.total).sum();
    format!(
        "{complete} of {} stores are restored, {done} of {total} changelog records read",
        stores.len()
    )
}
