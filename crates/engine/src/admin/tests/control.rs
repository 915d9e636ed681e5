//! Requests that pause and resume at the same time. The port's clock stands still: a request that
//! waited for its time-out would never be answered.

use super::fixture::{NoState, Port};
use crate::admin::target::AdminTarget;
use serde_json::{Value, json};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;
use stoatflow_core::settings::AdminAccess;
use stoatflow_protocol::Lifecycle;

/// Sends one request on a thread, and runs `meanwhile` once the port has taken it.
fn overtaken(
    states: &[Lifecycle],
    path: &'static str,
    meanwhile: impl FnOnce(&Port, &NoState),
) -> (u16, Value) {
    let target = Arc::new(NoState {
        runs: true,
        ..NoState::default()
    });
    let shared: Arc<dyn AdminTarget> = Arc::clone(&target) as _;
    let port = Arc::new(Port::of(AdminAccess::default(), shared));
    port.enter(states);
    let before = path == "/resume";
    target.set_paused(before).unwrap();
    let asking = Arc::clone(&port);
    let asked = Builder::new()
        .spawn(move || asking.ask("POST", path))
        .unwrap();
    while target.is_paused().unwrap() == before {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    meanwhile(&port, &target);
    let (code, _, body) = asked.join().unwrap();
    (code, serde_json::from_str(&body).unwrap_or_default())
}

const RUNNING: [Lifecycle; 3] = [
    Lifecycle::Starting,
    Lifecycle::Restoring,
    Lifecycle::Running,
];

#[test]
fn a_pause_that_a_resume_overtakes_returns_at_once_and_says_so() {
    let answer = overtaken(&RUNNING, "/pause", |port, _| {
        let (code, _, body) = port.ask("POST", "/resume");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (code, body),
            (200, json!({ "state": "RUNNING", "paused": false }))
        );
    });
    assert_eq!(
        answer,
        (202, json!({ "state": "RUNNING", "paused": false }))
    );
}

#[test]
fn a_resume_that_a_pause_overtakes_returns_at_once_and_says_so() {
    let states = [&RUNNING[..], &[Lifecycle::Paused]].concat();
    let answer = overtaken(&states, "/resume", |port, _| {
        let (code, _, body) = port.ask("POST", "/pause");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (code, body),
            (200, json!({ "state": "PAUSED", "paused": true }))
        );
    });
    assert_eq!(answer, (202, json!({ "state": "PAUSED", "paused": true })));
}

#[test]
fn a_pause_waits_for_the_state() {
    let answer = overtaken(&RUNNING, "/pause", |port, _| {
        port.enter(&[Lifecycle::Paused]);
    });
    assert_eq!(answer, (200, json!({ "state": "PAUSED", "paused": true })));
}

#[test]
fn a_pause_ends_with_the_application() {
    let (code, problem) = overtaken(&RUNNING, "/pause", |port, _| {
        port.enter(&[Lifecycle::Failed]);
    });
    assert_eq!(
        (code, &problem["type"]),
        (409, &json!("urn:stoatflow:not_running"))
    );
}
