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

/// 200 once everything read is committed, 202 if that takes longer or `/resume` has overtaken it.
pub(super) async fn pause(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    set(&shared, true).await
}

/// 200 once the application reads again, 202 if that takes longer or `/pause` has overtaken it.
pub(super) async fn resume(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    set(&shared, false).await
}

async fn set(shared: &Shared, paused: bool) -> Result<Response, Problem> {
    let gone = |e| Problem::of(StatusCode::CONFLICT, "not_running", &e);
    refuse_ended(shared.status.state())?;
    (shared.target.set_paused(paused)).map_err(gone)?;
    let wanted = if paused {
        Lifecycle::Paused
    } else {
        Lifecycle::Running
    };
    let until = shared.clock.monotonic().saturating_add(STATE_TIMEOUT);
    loop {
        let state = shared.status.state();
        refuse_ended(state)?;
        // Another request, or the application itself, may have asked for the opposite meanwhile.
        let in_force = shared.target.is_paused().map_err(gone)?;
        let is_reached = state == wanted && in_force == paused;
        if is_reached || in_force != paused || shared.clock.monotonic() >= until {
            return Ok(outcome(state, in_force, is_reached));
        }
        tokio::time::sleep(STATE_CHECK_INTERVAL).await;
    }
}

fn refuse_ended(state: Lifecycle) -> Result<(), Problem> {
    if !state.is_final() {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::CONFLICT,
        "not_running",
        format!("the application is {}", state.name()),
        "start it again",
    ))
}

fn outcome(state: Lifecycle, paused: bool, is_reached: bool) -> Response {
    let code = if is_reached {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    answer(code, &json!({ "state": state.name(), "paused": paused }))
}
