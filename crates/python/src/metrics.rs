//! The counters of an application, for `StoatFlow.metrics()` and the test driver.

use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_engine::Status;
use stoatflow_operators::custom_metrics::{CustomMetric, MetricKind, Series};

/// All metrics as a JSON object.
pub fn metrics_json(status: &Status) -> String {
    let nodes: Map<String, Value> = status
        .plan
        .nodes
        .iter()
        .zip(&status.nodes)
        .map(|(node, count)| (node.name.clone(), Value::from(count.load(Relaxed))))
        .collect();
    let drops: Vec<Value> = status
        .drops()
        .into_iter()
        .map(|(node, reason, count)| json!({"node": node, "reason": reason, "count": count}))
        .collect();
    let late: Vec<Value> = status
        .lates()
        .into_iter()
        .map(|(topic, policy, count)| json!({"topic": topic, "policy": policy, "count": count}))
        .collect();
    let parked: Map<String, Value> = status
        .parked()
        .into_iter()
        .map(|(node, lot)| {
            let shown = json!({"records": lot.parked, "most": lot.most, "oldest_ms": lot.oldest});
            (node, shown)
        })
        .collect();
    let custom: Vec<Value> = status
        .custom_metrics
        .all()
        .iter()
        .flat_map(|metric| metric.all().into_iter().map(|one| series(metric, &one)))
        .collect();
    json!({
        "state": status.state().name(),
        "records_in": status.records_in.load(Relaxed),
        "records_out": status.records_out.load(Relaxed),
        "records_committed": status.records_committed.load(Relaxed),
        "changelog_out": status.changelog_out.load(Relaxed),
        "restarts": status.restarts.load(Relaxed),
        "commits": status.commits.load(Relaxed),
        "commit_p50_us": status.commit_quantile_us(0.5),
        "commit_p99_us": status.commit_quantile_us(0.99),
        "in_flight_bytes": status.in_flight_bytes.load(Relaxed),
        "state_memory_bytes": status.state_memory_bytes.load(Relaxed),
        "nodes": nodes,
        "functions": status.calls.spent(),
        "dropped": drops,
        "late": late,
        "parked": parked,
        "custom": custom,
    })
    .to_string()
}

/// A series of a metric that user code defines.
fn series(metric: &CustomMetric, (values, series): &(Vec<String>, Arc<Series>)) -> Value {
    let definition = &metric.definition;
    let labels: Map<String, Value> = (definition.labels.iter().cloned())
        .zip(values.iter().map(|value| Value::from(value.as_str())))
        .collect();
    let mut shown = json!({
        "name": definition.name,
        "type": definition.kind.name(),
        "labels": labels,
    });
    if definition.kind == MetricKind::Histogram {
        shown["sum"] = json!(series.value());
        shown["count"] = json!(series.counts().iter().sum::<u64>());
    } else {
        shown["value"] = json!(series.value());
    }
    shown
}
