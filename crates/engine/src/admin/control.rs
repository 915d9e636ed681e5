//! `POST /pause` and `POST /resume`: stop and continue reading. Neither can lose a record.

use super::problem::Problem;
use super::{Shared, answer};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_protocol::Lifecycle;

/// How long a request waits for the state that it has asked for.
const STATE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a waiting request checks the state.
const STATE_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// 200 once everything read is committed, 202 if that takes longer.
pub(super) async fn pause(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    set(&shared, true).await
}

/// 200 once the application reads again, 202 if that takes longer.
pub(super) async fn resume(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    set(&shared, false).await
}

async fn set(shared: &Shared, paused: bool) -> Result<Response, Problem> {
    let state = shared.status.state();
    if state.is_final() {
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "not_running",
            format!("the application is {}", state.name()),
            "start it again",
        ));
    }
    (shared.target.set_paused(paused))
        .map_err(|e| Problem::of(StatusCode::CONFLICT, "not_running", &e))?;
    let wanted = if paused {
        Lifecycle::Paused
    } else {
        Lifecycle::Running
    };
    let until = shared.clock.monotonic().saturating_add(STATE_TIMEOUT);
    while shared.status.state() != wanted && shared.clock.monotonic() < until {
        tokio::time::sleep(STATE_CHECK_INTERVAL).await;
    }
    let state = shared.status.state();
    let code = if state == wanted {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    Ok(answer(
        code,
        &json!({ "state": state.name(), "paused": paused }),
    ))
}
