//! `/doctor`: what is wrong with the running application, the most serious first, each with what to do.
//!
//! Takes counters, samples of them, and what threads are doing; gives findings. Asks no broker,
//! runs nothing of the user's, and keeps nothing: what is over is no longer found. Where an alert
//! of deploy/monitoring means the same, the finding names its section of the guide.

mod finding;
mod progress;
mod records;
mod surroundings;
#[cfg(test)]
mod tests;

use super::top::Sample;
use super::{Shared, answer, health, millis};
use crate::admin::status::Status;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use finding::LiveFinding;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// How far counters are looked back at.
const LOOK_BACK: Duration = Duration::from_secs(100);

/// What findings are made from: the counters now and some time ago.
struct Facts<'s> {
    status: &'s Status,
    /// Monotonic.
    monotonic_ms: u64,
    /// By the wall clock.
    now_ms: i64,
    /// As `/health/ready` says it.
    unready: Option<Value>,
    before: Option<Sample>,
    now: Sample,
    /// Of the file system under `state.dir`: free, and all.
    disk: Option<(u64, u64)>,
    /// Of the process: open files, and how many it may open.
    files: Option<(u64, u64)>,
}

impl Facts<'_> {
    /// The counters of a while ago, and how many seconds ago that is; `None` at the start.
    fn before(&self, at_least: Duration) -> Option<(&Sample, f64)> {
        let before = self.before.as_ref()?;
        let passed = self.now.at.saturating_sub(before.at);
        (passed >= at_least && !passed.is_zero()).then_some((before, passed.as_secs_f64()))
    }

    /// All findings.
    fn examine(&self) -> Vec<LiveFinding> {
        let mut found = progress::find(self);
        found.extend(surroundings::find(self));
        found.extend(records::find(self));
        // Stable: what was looked at first stays before what is as serious.
        found.sort_by_key(|finding| finding.severity);
        found
    }
}

/// The endpoint.
pub(super) async fn doctor(State(shared): State<Arc<Shared>>) -> Response {
    let monotonic = shared.clock.monotonic();
    let facts = Facts {
        status: &shared.status,
        monotonic_ms: millis(monotonic),
        now_ms: shared.clock.now().0,
        unready: health::unready(&shared),
        before: shared.samples.before(monotonic, LOOK_BACK),
        now: Sample::take(&shared.status, monotonic),
        disk: shared.metrics.state_disk().await,
        files: super::metrics::files(),
    };
    let body = json!({
        "application_id": facts.status.application_id,
        "at_ms": facts.now_ms,
        "findings": facts.examine(),
    });
    answer(StatusCode::OK, &body)
}
