//! Converts the topology steps of the conformance vectors to a logical plan.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A directory below the workspace's root.
pub fn folder(path: &str) -> PathBuf {
    // A test runs in the directory of its crate.
    PathBuf::from("../..").join(path)
}

/// Collects the calls of a topology.
#[derive(Default)]
struct Loader {
    nodes: Vec<Value>,
    functions: Vec<String>,
    processors: Vec<String>,
    /// The node of each id.
    ids: BTreeMap<String, usize>,
}

/// The logical plan of these steps.
pub fn plan(steps: &[Value]) -> Value {
    let mut loader = Loader::default();
    for step in steps {
        loader.step(step.as_object().expect("a step is an object"));
    }
    json!({
        "version": 1, "nodes": loader.nodes, "functions": loader.functions, "processors": loader.processors,
        "default_key": "string", "default_value": "string",
    })
}

impl Loader {
    fn step(&mut self, step: &Map<String, Value>) {
        let op = text(&step["op"]);
        if op == "split" {
            return self.split(step);
        }
        let mut node = Map::from_iter([("op".to_owned(), json!(op))]);
        let udf = |loader: &mut Self, field: &str| {
            let name = step.get(field).and_then(Value::as_str).unwrap_or(field);
            loader.function(name)
        };
        for (name, value) in step {
            match name.as_str() {
                "id" | "op" => {}
                "from" if op == "process" => {
                    node.insert("from".into(), json!([self.at(value)]));
                }
                "from" | "other" => {
                    node.insert(name.clone(), json!(self.at(value)));
                }
                "name" | "topic" | "topics" | "store" | "stores" | "window" | "strategy"
                | "grace_ms"
                    if op != "state_store" || name != "window" =>
                {
                    node.insert(name.clone(), value.clone());
                }
                "store_name" => {
                    node.insert("store".into(), value.clone());
                }
                "key_serde" => {
                    node.insert("key".into(), serde(value));
                }
                "value_serde" => {
                    node.insert("value".into(), serde(value));
                }
                "other_value_serde" => {
                    node.insert("other_value".into(), serde(value));
                }
                "materialized" => {
                    node.insert("materialized".into(), materialized(value));
                }
                "timestamp_extractor" => {
                    let f = udf(self, name);
                    node.insert("timestamp".into(), f);
                }
                "processor" => {
                    self.processors.push(text(value).to_owned());
                    node.insert("processor".into(), json!(self.processors.len() - 1));
                }
                "predicate" | "fn" | "reducer" | "adder" | "aggregator" | "joiner"
                    if op != "to_stream" =>
                {
                    let f = udf(self, name);
                    node.insert("function".into(), f);
                }
                "initializer" | "subtractor" | "merger" => {
                    let f = udf(self, name);
                    node.insert(name.clone(), f);
                }
                "fk_fn" => {
                    let f = udf(self, name);
                    node.insert("foreign_key".into(), f);
                    node.insert("foreign_with_key".into(), json!(true));
                }
                "key_fn" => {
                    let f = udf(self, name);
                    node.insert("key_function".into(), f);
                }
                "topic_fn" => {
                    let f = udf(self, name);
                    node.insert("topic_function".into(), f);
                }
                "fn"
                | "kind"
                | "retention_ms"
                | "window_size_ms"
                | "versioned_history_ms"
                | "until"
                | "time_limit_ms"
                | "buffer" => {}
                other => panic!("a step {op} with {other}"),
            }
        }
        let functional = matches!(
            op,
            "filter"
                | "filter_not"
                | "map"
                | "map_values"
                | "flat_map"
                | "flat_map_values"
                | "select_key"
                | "peek"
                | "foreach"
                | "group_by"
        );
        if functional && !node.contains_key("function") {
            let f = self.function(op);
            node.insert("function".into(), f);
        }
        if op == "reduce" && !node.contains_key("function") {
            let f = self.function(op);
            node.insert("function".into(), f);
        }
        if op == "aggregate" && !node.contains_key("initializer") {
            let f = self.function(op);
            node.insert("initializer".into(), f.clone());
            node.insert("function".into(), f);
        }
        if matches!(op, "map_values" | "flat_map_values") || op.ends_with("join") {
            node.insert("with_key".into(), json!(true));
        }
        if op == "state_store" {
            node.insert("kind".into(), kind(step));
        }
        if op == "suppress" {
            suppress(step, &mut node);
        }
        self.push(step.get("id"), node);
        if let (true, Some(_)) = (op == "to_stream", step.get("fn")) {
            let from = self.nodes.len() - 1;
            let f = udf(self, "fn");
            let node = json!({"op": "select_key", "from": from, "function": f});
            self.push(step.get("id"), node.as_object().expect("an object").clone());
        }
    }

    fn split(&mut self, step: &Map<String, Value>) {
        let mut node = Map::from_iter([("op".to_owned(), json!("split"))]);
        node.insert("from".into(), json!(self.at(&step["from"])));
        if let Some(name) = step.get("name") {
            node.insert("name".into(), name.clone());
        }
        self.push(step.get("id"), node);
        let split = self.nodes.len() - 1;
        let branches = step["branches"].as_array().expect("a list");
        for branch in branches.iter().chain(step.get("default")) {
            let mut node = Map::from_iter([("op".to_owned(), json!("branch"))]);
            node.insert("from".into(), json!(split));
            if let Some(name) = branch.get("name") {
                node.insert("name".into(), name.clone());
            }
            if let Some(predicate) = branch.get("predicate") {
                let f = self.function(text(predicate));
                node.insert("function".into(), f);
            }
            self.push(branch.get("id"), node);
        }
    }

    fn push(&mut self, id: Option<&Value>, node: Map<String, Value>) {
        if let Some(id) = id {
            self.ids.insert(text(id).to_owned(), self.nodes.len());
        }
        self.nodes.push(Value::Object(node));
    }

    fn at(&self, id: &Value) -> usize {
        self.ids[text(id)]
    }

    fn function(&mut self, name: &str) -> Value {
        self.functions.push(name.to_owned());
        json!({"udf": self.functions.len() - 1})
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn kind(step: &Map<String, Value>) -> Value {
    match text(&step["kind"]) {
        "kv" => json!({"type": "key_value"}),
        "timestamped_kv" => json!({"type": "timestamped_key_value"}),
        "window" => {
            json!({"type": "window", "retention_ms": step["retention_ms"], "size_ms": step["window_size_ms"]})
        }
        "session" => json!({"type": "session", "retention_ms": step["retention_ms"]}),
        "versioned" => json!({"type": "versioned", "history_ms": step["versioned_history_ms"]}),
        other => panic!("a store {other}"),
    }
}

fn suppress(step: &Map<String, Value>, node: &mut Map<String, Value>) {
    let until = match text(&step["until"]) {
        "window_closes" => json!({"type": "window_closes", "grace_ms": -1}),
        _ => json!({"type": "time_limit", "limit_ms": step["time_limit_ms"]}),
    };
    node.insert("until".into(), until);
    if let Some(records) = step.get("buffer").and_then(|b| b.get("max_records")) {
        node.insert("max_records".into(), records.clone());
    }
}

fn materialized(given: &Value) -> Value {
    let mut kept = Map::new();
    for (name, value) in given.as_object().expect("an object") {
        match name.as_str() {
            "store" | "retention_ms" => kept.insert(name.clone(), value.clone()),
            "versioned_history_ms" => kept.insert("history_ms".into(), value.clone()),
            "key_serde" => kept.insert("key".into(), serde(value)),
            "value_serde" => kept.insert("value".into(), serde(value)),
            other => panic!("a materialization with {other}"),
        };
    }
    Value::Object(kept)
}

fn serde(given: &Value) -> Value {
    match given {
        Value::String(name) if name == "long" => json!("int64"),
        Value::Object(windowed) => {
            let mut windowed = windowed.clone();
            for inner in ["time_windowed", "session_windowed"] {
                if let Some(inner) = windowed.get_mut(inner) {
                    *inner = serde(inner);
                }
            }
            Value::Object(windowed)
        }
        other => other.clone(),
    }
}

/// Compiles a plan given as JSON.
///
/// # Panics
/// If the plan is refused.
pub fn compile(plan: &Value) -> stoatflow_plan::PhysicalPlan {
    let bytes = serde_json::to_vec(plan).expect("a value has a JSON form");
    stoatflow_plan::compile(&bytes).unwrap_or_else(|e| panic!("{e}"))
}
