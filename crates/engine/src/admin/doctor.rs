//! `/doctor`: what is wrong with the running application, most serious first, each with a next step.
//!
//! Takes counters, samples of them, and what threads are doing; gives findings. Asks no broker, runs no
//! user code, and keeps nothing: a finding disappears with its cause. If an alert in deploy/monitoring
//! has the same cause, the finding names the alert's section of the guide.

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

/// Age of the sample that the current counters are compared with.
const COMPARED_SAMPLE_AGE: Duration = Duration::from_secs(100);

/// What findings are based on: the counters now and some time ago.
struct Facts<'s> {
    status: &'s Status,
    /// Monotonic.
    monotonic_ms: u64,
    /// Wall clock.
    now_ms: i64,
    /// The answer of `/health/ready` if the application isn't ready.
    unready: Option<Value>,
    before: Option<Sample>,
    now: Sample,
    /// Free and total bytes of the file system under `state.dir`.
    disk: Option<(u64, u64)>,
    /// Open files of the process, and their limit.
    files: Option<(u64, u64)>,
}

impl Facts<'_> {
    /// The earlier sample and its age in seconds; `None` if it isn't at least this old.
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
        // A stable sort: findings of the same severity keep the order above.
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
        before: shared.samples.before(monotonic, COMPARED_SAMPLE_AGE),
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
