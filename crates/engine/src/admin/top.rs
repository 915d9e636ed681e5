//! `/top`: what keeps the application busy, ranked, over the last minute.
//!
//! Computed from samples of the counters in [`Status`], taken every few seconds, and from the keys that
//! lanes have counted. Never touches a lane.

mod ranking;
mod samples;

use super::problem::Problem;
use super::{Shared, answer, millis};
use crate::lane::hot_keys::EntryKeys;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ranking::Ranking;
pub(super) use samples::{SAMPLE_INTERVAL, Sample, Samples};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Default of `?limit=`: rows of each list.
const ROWS: usize = 10;
/// Default of `?seconds=`: the period that rates cover.
const SECONDS: u64 = 60;

/// The query parameters.
#[derive(Debug, Deserialize)]
pub(super) struct QueryParams {
    seconds: Option<u64>,
    limit: Option<usize>,
}

pub(super) async fn top(
    State(shared): State<Arc<Shared>>,
    params: Result<Query<QueryParams>, QueryRejection>,
) -> Response {
    let params = match params {
        Ok(Query(params)) => params,
        Err(why) => return bad_parameter(why.body_text()),
    };
    let seconds = params.seconds.unwrap_or(SECONDS);
    let limit = params.limit.unwrap_or(ROWS);
    if seconds == 0 || limit == 0 {
        return bad_parameter("0 is too small".to_owned());
    }
    // Sizes are read from RocksDB, which may have to wait for its locks.
    let target = Arc::clone(&shared.target);
    let sizes = tokio::task::spawn_blocking(move || target.store_sizes()).await;
    let sizes = sizes
        .ok()
        .and_then(stoatflow_core::Result::ok)
        .unwrap_or_default();
    let status = &shared.status;
    let monotonic = shared.clock.monotonic();
    let now = samples::Sample::take(status, monotonic);
    let before = shared
        .samples
        .before(monotonic, Duration::from_secs(seconds));
    let ranking = Ranking::between(before.as_ref(), &now, limit);
    let lanes = status
        .lanes
        .iter()
        .map(|lane| lane.hot_keys.lock().recent(monotonic));
    let body = json!({
        "application_id": status.application_id,
        "state": status.state().name(),
        "at_ms": shared.clock.now().0,
        "seconds": ranking.seconds,
        "records_per_second": ranking.records_per_second,
        "committed_per_second": ranking.committed_per_second,
        "lanes": ranking.lanes(status, millis(monotonic)),
        "functions": ranking.functions,
        "keys": ranking::keys(&status.plan, lanes.collect::<Vec<Vec<EntryKeys>>>(), limit),
        "stores": ranking::stores(sizes, limit),
        "partitions": ranking.partitions,
        "drops": ranking.drops,
    });
    answer(StatusCode::OK, &body)
}

fn bad_parameter(detail: String) -> Response {
    let next_step = "give ?seconds= and ?limit= as numbers from 1 on, or leave them out";
    Problem::bad(detail, next_step).into_response()
}
