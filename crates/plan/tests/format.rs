//! The plan's format is a contract with the Python package: a change of it must be noticed.

use serde_json::{Value, json};
use std::fmt::Write;
use stoatflow_plan::LogicalPlan;
use stoatflow_plan::logical::{CALLS, Node, VERSION};

/// One node of every call, with every field.
fn nodes() -> Vec<Value> {
    let f = json!({"udf": 0});
    let m = json!({"store": "s", "key": "string", "value": {"custom": 0}, "logged": false});
    vec![
        json!({"op": "stream", "topics": ["a"], "key": "string", "value": "bytes", "reset": "earliest"}),
        json!({"op": "table", "topic": "b", "key": "string", "value": "json", "materialized": m, "reset": "latest"}),
        json!({"op": "filter", "from": 0, "function": f}),
        json!({"op": "filter_not", "from": 0, "function": {"expr": {"op": "value"}}}),
        json!({"op": "map", "from": 0, "function": f}),
        json!({"op": "map_values", "from": 0, "function": f, "with_key": true}),
        json!({"op": "flat_map", "from": 0, "function": f}),
        json!({"op": "flat_map_values", "from": 0, "function": f, "with_key": true}),
        json!({"op": "select_key", "from": 0, "function": f}),
        json!({"op": "peek", "from": 0, "function": f}),
        json!({"op": "foreach", "from": 0, "function": f}),
        json!({"op": "merge", "from": 0, "other": 2}),
        json!({"op": "group_by_key", "from": 0, "key": "int32", "value": "int64"}),
        json!({"op": "group_by", "from": 0, "function": f, "key": "double", "value": "string"}),
        json!({"op": "count", "from": 12, "materialized": m}),
        json!({"op": "reduce", "from": 12, "function": f, "materialized": m}),
        json!({"op": "aggregate", "from": 12, "initializer": f, "function": f, "materialized": m}),
        json!({"op": "to_stream", "from": 1}),
        json!({"op": "to", "from": 0, "topic": "c", "key": "string", "value": "string"}),
    ]
}

/// One expression of every operation.
fn expressions() -> Vec<Value> {
    let v = json!({"op": "value"});
    let mut all = vec![json!({"op": "key"}), v.clone(), json!({"op": "timestamp"})];
    for literal in [json!(null), json!(true), json!(1), json!(0.5), json!("x")] {
        all.push(json!({"op": "lit", "value": literal}));
    }
    all.push(json!({"op": "get", "args": [v], "name": "a"}));
    all.push(json!({"op": "at", "args": [v], "index": -1}));
    for op in [
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "and",
        "or",
        "add",
        "sub",
        "mul",
        "div",
        "floor_div",
        "mod",
    ] {
        all.push(json!({"op": op, "args": [v, v]}));
    }
    for op in [
        "not",
        "is_null",
        "str_lower",
        "str_upper",
        "str_strip",
        "len",
    ] {
        all.push(json!({"op": op, "args": [v]}));
    }
    all.push(json!({"op": "str_split", "args": [v], "by": ","}));
    for op in ["str_contains", "str_starts_with", "str_ends_with"] {
        all.push(json!({"op": op, "args": [v], "text": "t"}));
    }
    all.push(json!({"op": "cast", "args": [v], "to": "int"}));
    all.push(json!({"op": "coalesce", "args": [v, v]}));
    all.push(json!({"op": "when", "args": [v, v, v]}));
    all.push(json!({"op": "object", "names": ["a"], "args": [v]}));
    all
}

#[test]
fn the_calls_are_these() {
    assert_eq!(
        CALLS,
        [
            "stream",
            "table",
            "filter",
            "filter_not",
            "map",
            "map_values",
            "flat_map",
            "flat_map_values",
            "select_key",
            "peek",
            "foreach",
            "merge",
            "group_by_key",
            "group_by",
            "count",
            "reduce",
            "aggregate",
            "to_stream",
            "to",
        ]
    );
    let tags: Vec<String> = nodes()
        .into_iter()
        .map(|n| {
            let node: Node = serde_json::from_value(n).expect("a node");
            let tag = serde_json::to_value(&node).expect("a JSON form")["op"]
                .as_str()
                .expect("tagged")
                .to_owned();
            assert_eq!(tag, node.call.name());
            tag
        })
        .collect();
    assert_eq!(tags, CALLS);
}

#[test]
fn the_format_is_the_committed_one() {
    let mut plan = json!({
        "version": VERSION, "nodes": nodes(), "functions": ["app.py:1 f"], "serdes": ["mine"],
        "default_key": "string", "default_value": "json",
    });
    for (i, e) in expressions().into_iter().enumerate() {
        let node = json!({"op": "filter", "from": 0, "function": {"expr": e}, "line": format!("app.py:{i}"), "name": format!("e{i}")});
        plan["nodes"].as_array_mut().expect("a list").push(node);
    }
    let plan = LogicalPlan::decode(plan.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    let mut text = String::from(
        "# The plan format: every call with every field, every expression, as this crate writes them.\n\
         # A line changed or removed breaks the border: raise logical::VERSION. A line added does not.\n\
         # To accept a change: BLESS=1 cargo test --release -p stoatflow-plan --test format\n",
    );
    let mut head = serde_json::to_value(&plan).expect("a JSON form");
    let nodes = head["nodes"].take();
    writeln!(text, "{head}").expect("text");
    for node in nodes.as_array().expect("a list") {
        writeln!(text, "{node}").expect("text");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/plan-format.txt");
    #[allow(clippy::disallowed_methods)] // a person asks this test to write the file
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &text).expect("writable");
    }
    let committed = std::fs::read_to_string(path).expect("the format is committed");
    assert!(
        text == committed,
        "the plan format changed; read the head of plan-format.txt\n{text}"
    );
}
