//! The running topology, as a graph with counters.
//!
//! JSON for the page and tools, or the text of `describe()`. The plan doesn't change while the
//! application runs.

use super::problem::Problem;
use super::{Shared, answer, millis};
use crate::admin::status::Status;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::NodeId;
use stoatflow_plan::{Op, PhysicalNode, PhysicalPlan, Store};

/// The query parameters.
#[derive(Debug, Deserialize)]
pub(super) struct QueryParams {
    format: Option<String>,
}

/// The graph; with `?format=text` only the text of `describe()`.
pub(super) async fn topology(
    State(shared): State<Arc<Shared>>,
    params: Result<Query<QueryParams>, QueryRejection>,
) -> Response {
    let format = match params {
        Ok(Query(params)) => params.format,
        Err(why) => return bad_format(why.body_text()),
    };
    let plan = &shared.status.plan;
    match format.as_deref() {
        None | Some("json") => answer(StatusCode::OK, &graph(&shared)),
        Some("text") => {
            let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
            (kind, plan.description.clone()).into_response()
        }
        Some(other) => bad_format(format!("format={other} is unknown")),
    }
}

fn bad_format(detail: String) -> Response {
    Problem::bad(detail, "use format=json or format=text").into_response()
}

fn graph(shared: &Shared) -> Value {
    let status = &shared.status;
    let plan = &*status.plan;
    let stages: Vec<_> = plan
        .stages
        .iter()
        .map(|s| json!({ "id": s.id, "nodes": s.nodes, "foreign": s.foreign }))
        .collect();
    json!({
        "application_id": status.application_id,
        "state": status.state().name(),
        "at_ms": shared.clock.now().0,
        "monotonic_ms": millis(shared.clock.monotonic()),
        "counts": counts(status),
        "stages": stages,
        "nodes": plan.nodes.iter().map(|n| node(status, n)).collect::<Vec<_>>(),
        "edges": edges(plan),
        "functions": status.calls.spent(),
        "stores": plan.stores.iter().map(|s| store(status, s)).collect::<Vec<_>>(),
        "dropped": status.drops().iter().map(|(node, reason, count)| json!({ "node": node, "reason": reason, "count": count })).collect::<Vec<_>>(),
        "description": plan.description,
    })
}

fn counts(status: &Status) -> Value {
    json!({
        "records_in": status.records_in.load(Relaxed),
        "records_out": status.records_out.load(Relaxed),
        "changelog_out": status.changelog_out.load(Relaxed),
        "records_committed": status.records_committed.load(Relaxed),
        "commits": status.commits.load(Relaxed),
        "in_flight_bytes": status.in_flight_bytes.load(Relaxed).max(0),
        "staged_bytes": status.staged_bytes.load(Relaxed),
        "state_memory_bytes": status.state_memory_bytes.load(Relaxed),
        "lag": status.lag(),
    })
}

fn node(status: &Status, node: &PhysicalNode) -> Value {
    let plan = &*status.plan;
    let mut body = json!({
        "id": node.id,
        "name": node.name,
        "op": node.op.name(),
        "stage": node.stage,
        "foreign": node.foreign,
        "line": node.line,
        "records": of_node(&status.nodes, node.id),
        "busy_seconds": Duration::from_nanos(of_node(&status.node_times, node.id)).as_secs_f64(),
    });
    if let Some(store) = node
        .op
        .store()
        .and_then(|id| plan.stores.get(usize::from(id.0)))
    {
        body["store"] = json!(store.name);
    }
    match &node.op {
        Op::Source { source } => {
            body["topics"] = json!(plan.sources.get(usize::from(source.0)).map(|s| &s.topics));
        }
        Op::Sink { sink } => {
            body["topics"] = json!(plan.sinks.get(usize::from(sink.0)).map(|s| [&s.topic]));
        }
        _ => {}
    }
    body
}

fn of_node(counts: &[AtomicU64], node: NodeId) -> u64 {
    counts
        .get(node.0 as usize)
        .map_or(0, |count| count.load(Relaxed))
}

/// Edges within a stage, exchanges between stages, and lookups of a join in a table.
fn edges(plan: &PhysicalPlan) -> Vec<Value> {
    let mut edges = Vec::new();
    for node in &plan.nodes {
        for child in &node.children {
            edges.push(edge(node.id, *child, "child"));
        }
        if let Op::Exchange { to, .. } = &node.op {
            for target in to {
                edges.push(edge(node.id, *target, "exchange"));
            }
        }
        for store in node.op.looked_up() {
            let owner = plan.nodes.iter().find(|n| n.op.store() == Some(store));
            edges.extend(owner.map(|owner| edge(owner.id, node.id, "lookup")));
        }
    }
    edges
}

fn edge(from: NodeId, to: NodeId, kind: &str) -> Value {
    json!({ "from": from, "to": to, "exchange": kind == "exchange", "lookup": kind == "lookup" })
}

fn store(status: &Status, store: &Store) -> Value {
    // The name that other tools see on the broker.
    let own = || format!("{}-{}-changelog", status.application_id, store.name);
    let source = status
        .source_topic(&store.name)
        .map(|topic| topic.to_string());
    let changelog = source.or_else(|| store.logged.then(own));
    json!({
        "id": store.id,
        "name": store.name,
        "named": store.named,
        "key": store.key,
        "value": store.value,
        "changelog": changelog,
        "rocksdb": status.rocksdb(&store.name),
    })
}
