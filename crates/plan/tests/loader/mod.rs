//! From the topology steps of the conformance vectors to a logical plan.

use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// A folder below the workspace's root.
pub fn folder(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// The plan of these steps, or `None` if a step uses something that a plan has no call for yet.
pub fn plan(steps: &[Value]) -> Option<Value> {
    let mut functions: Vec<String> = Vec::new();
    let mut nodes: Vec<Value> = Vec::new();
    let mut tables: Vec<bool> = Vec::new();
    let ids: Vec<&str> = steps
        .iter()
        .map(|s| s["id"].as_str().unwrap_or(""))
        .collect();
    let at = |id: &Value| ids.iter().position(|i| Some(*i) == id.as_str());
    for step in steps {
        let op = step["op"].as_str()?;
        let from = step.get("from").and_then(at);
        let mut node = Map::from_iter([("op".to_owned(), json!(op))]);
        for field in ["name", "topic", "topics"] {
            if let Some(value) = step.get(field) {
                node.insert(field.into(), value.clone());
            }
        }
        let known: &[&str] = match op {
            "stream" => &["topics", "key_serde", "value_serde"],
            "table" => &["topic", "key_serde", "value_serde", "materialized"],
            "filter" | "filter_not" => &["predicate"],
            "map" | "map_values" | "flat_map" | "flat_map_values" | "select_key" | "peek"
            | "foreach" => &["fn"],
            "merge" => &["other"],
            "group_by_key" => &["key_serde", "value_serde"],
            "group_by" => &["fn", "key_serde", "value_serde"],
            "count" => &["materialized"],
            "reduce" => &["reducer", "materialized"],
            "aggregate" => &["initializer", "aggregator", "materialized"],
            "to_stream" => &[],
            "to" => &["topic", "key_serde", "value_serde"],
            _ => return None,
        };
        let common = ["id", "op", "name", "from"];
        if step
            .as_object()?
            .keys()
            .any(|k| !known.contains(&k.as_str()) && !common.contains(&k.as_str()))
        {
            return None;
        }
        let is_table = matches!(op, "table" | "count" | "reduce" | "aggregate");
        if from.is_some_and(|f| tables[f]) && op != "to_stream" {
            return None;
        }
        if let Some(from) = from {
            node.insert("from".into(), json!(from));
        }
        if let Some(other) = step.get("other") {
            node.insert("other".into(), json!(at(other)));
        }
        let mut function = |name: &str, field: &str| {
            functions.push(
                step.get(field)
                    .and_then(Value::as_str)
                    .unwrap_or(op)
                    .to_owned(),
            );
            node.insert(name.into(), json!({"udf": functions.len() - 1}));
        };
        match op {
            "filter" | "filter_not" => function("function", "predicate"),
            "reduce" => function("function", "reducer"),
            "aggregate" => {
                function("initializer", "initializer");
                function("function", "aggregator");
            }
            _ if known.contains(&"fn") => function("function", "fn"),
            _ => {}
        }
        for (name, field) in [("key", "key_serde"), ("value", "value_serde")] {
            if let Some(s) = step.get(field) {
                node.insert(name.into(), serde(s)?);
            }
        }
        if let Some(m) = step.get("materialized") {
            let mut kept = Map::new();
            for (name, value) in m.as_object()? {
                match name.as_str() {
                    "store" => kept.insert("store".into(), value.clone()),
                    "key_serde" => kept.insert("key".into(), serde(value)?),
                    "value_serde" => kept.insert("value".into(), serde(value)?),
                    _ => return None,
                };
            }
            node.insert("materialized".into(), Value::Object(kept));
        }
        tables.push(is_table);
        nodes.push(Value::Object(node));
    }
    Some(json!({
        "version": 1, "nodes": nodes, "functions": functions, "default_key": "string", "default_value": "string",
    }))
}

fn serde(name: &Value) -> Option<Value> {
    Some(json!(match name.as_str()? {
        "long" => "int64",
        other => other,
    }))
}

/// Compiles a plan given as JSON.
///
/// # Panics
/// If it is refused.
pub fn compile(plan: &Value) -> stoatflow_plan::PhysicalPlan {
    let bytes = serde_json::to_vec(plan).expect("a value has a JSON form");
    stoatflow_plan::compile(&bytes).unwrap_or_else(|e| panic!("{e}"))
}
