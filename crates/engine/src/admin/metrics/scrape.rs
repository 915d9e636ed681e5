//! `/metrics`: in the format and with the metric names that the scraper asks for.
//!
//! The names are a parameter instead of a setting: another dashboard needs no restart, and two scrape
//! jobs may use different names.

use super::{kafka_streams, plain_text};
use crate::admin::Shared;
use crate::admin::problem::Problem;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;

/// The content type of OpenMetrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whose metric names to use.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Names {
    #[default]
    Stoatflow,
    KafkaStreams,
}

/// The query parameters. Others are ignored: Prometheus lets users add their own.
#[derive(Debug, Deserialize)]
pub(in crate::admin) struct QueryParams {
    #[serde(default)]
    names: Names,
}

/// The answer to a scraper.
pub(in crate::admin) async fn metrics(
    State(shared): State<Arc<Shared>>,
    params: Result<Query<QueryParams>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let names = match params {
        Ok(Query(params)) => params.names,
        Err(why) => {
            let next_step = "give ?names=stoatflow or ?names=kafka-streams, or leave it out";
            return Problem::bad(why.body_text(), next_step).into_response();
        }
    };
    shared.metrics.stores.refresh(&shared.target).await;
    shared.refresh_clients();
    let text = match names {
        Names::Stoatflow => {
            shared.metrics.disk.refresh().await;
            shared.metrics.text()
        }
        Names::KafkaStreams => kafka_streams::text(&shared),
    };
    match text {
        Ok(body) if plain_text::is_wanted(&headers) => (
            [(header::CONTENT_TYPE, plain_text::CONTENT_TYPE)],
            plain_text::of(&body),
        )
            .into_response(),
        Ok(body) => ([(header::CONTENT_TYPE, OPEN_METRICS)], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
