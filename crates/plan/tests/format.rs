//! The plan's format is a contract with the Python package: a change of it must be noticed.

use serde_json::{Value, json};
use std::fmt::Write;
use stoatflow_plan::CALLS;
use stoatflow_plan::LogicalPlan;
use stoatflow_plan::logical::{LogicalNode, VERSION};

/// A materialization with every field.
fn kept() -> Value {
    json!({
        "store": "s", "key": "string", "value": {"custom": 0}, "logged": false, "cached": false,
        "retention_ms": 1, "history_ms": 2, "in_memory": true, "topic": {"a": "b"},
    })
}

/// A column of each type.
fn columns() -> Value {
    let plain = [
        "null",
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float32",
        "float64",
        "string",
        "large_string",
        "binary",
        "date32",
    ];
    let nested = [
        json!({"timestamp": {"unit": "ms", "tz": "UTC"}}),
        json!({"timestamp": {"unit": "ns", "tz": null}}),
        json!({"list": "int64"}),
        json!({"large_list": {"struct": [{"name": "a", "type": "bool"}]}}),
    ];
    let all = plain.map(Value::from).into_iter().chain(nested).enumerate();
    all.map(|(at, kind)| json!({"name": format!("c{at}"), "type": kind}))
        .collect()
}

/// A join with every field.
fn joining(op: &str) -> Value {
    let f = json!({"udf": 0});
    json!({
        "op": op, "from": 0, "other": 2, "function": f, "with_key": true,
        "window": {"before_ms": 1, "after_ms": 2, "grace_ms": 3},
        "key": "string", "value": "string", "other_value": "string", "store": "j", "grace_ms": 4,
        "key_function": f, "foreign_key": f, "foreign_with_key": true, "materialized": kept(), "logged": false,
    })
}

/// One node of each call, with every field.
fn nodes() -> Vec<Value> {
    let f = json!({"udf": 0});
    let m = kept();
    let time = "log_and_skip";
    vec![
        json!({"op": "stream", "topics": ["a"], "pattern": null, "key": "string", "value": "bytes", "reset": "earliest", "timestamp": {"udf": 0}}),
        json!({"op": "table", "topic": "b", "key": "string", "value": "json", "materialized": m, "reset": "latest", "timestamp": "fail_on_invalid"}),
        json!({"op": "global_table", "topic": "g", "key": {"time_windowed": "string", "size_ms": 5}, "value": "json", "materialized": m, "timestamp": time}),
        json!({"op": "state_store", "store": "w", "kind": {"type": "window", "retention_ms": 2, "size_ms": 1, "duplicates": true, "timestamped": true}, "key": {"session_windowed": "string"}, "value": "json", "logged": false, "in_memory": true, "topic": {"a": "b"}}),
        json!({"op": "global_store", "store": "h", "kind": {"type": "key_value"}, "topic": "i", "key": "string", "value": "json", "processor": 0, "timestamp": "wallclock"}),
        json!({"op": "scheduled", "name": "tick", "every_ms": 1, "cron": "* * * * *", "tz": "Europe/Berlin", "start_ms": 2, "catch_up": "all", "max_catch_up": 3}),
        json!({"op": "filter", "from": 0, "function": f, "materialized": m}),
        json!({"op": "filter_not", "from": 0, "function": {"expr": {"op": "value"}}, "materialized": m}),
        json!({"op": "map", "from": 0, "function": f}),
        json!({"op": "map_values", "from": 0, "function": f, "with_key": true, "materialized": m}),
        json!({"op": "flat_map", "from": 0, "function": f}),
        json!({"op": "flat_map_values", "from": 0, "function": f, "with_key": true}),
        json!({"op": "map_batches", "from": 0, "function": f, "schema": columns(), "max_rows": 1, "max_wait_ms": 2, "by_row": "_row"}),
        json!({"op": "select_key", "from": 0, "function": f}),
        json!({"op": "peek", "from": 0, "function": f}),
        json!({"op": "foreach", "from": 0, "function": f}),
        json!({"op": "foreach_batch", "from": 0, "function": f, "schema": columns(), "max_rows": 1, "max_wait_ms": 2}),
        json!({"op": "merge", "from": 0, "other": 2}),
        json!({"op": "split", "from": 0}),
        json!({"op": "branch", "from": 15, "function": f}),
        json!({"op": "repartition", "from": 0, "key": "string", "value": "string"}),
        json!({"op": "to_table", "from": 0, "materialized": m}),
        json!({"op": "process", "from": [0, 1], "processor": 0, "stores": ["w"], "low_level": true}),
        json!({"op": "process_values", "from": 0, "processor": 0, "stores": ["w"]}),
        json!({"op": "transform_values", "from": 1, "processor": 0, "stores": ["w"], "materialized": m}),
        json!({"op": "group_by_key", "from": 0, "key": "int32", "value": "int64"}),
        json!({"op": "group_by", "from": 0, "function": f, "key": "double", "value": "string"}),
        json!({"op": "windowed_by", "from": 22, "window": {"type": "hopping", "size_ms": 2, "advance_ms": 1, "grace_ms": 0}}),
        json!({"op": "emit_strategy", "from": 24, "strategy": "on_window_close"}),
        json!({"op": "cogroup", "from": 22, "other": 23, "function": f}),
        json!({"op": "count", "from": 22, "materialized": m}),
        json!({"op": "reduce", "from": 22, "function": f, "subtractor": f, "materialized": m}),
        json!({"op": "aggregate", "from": 22, "initializer": f, "function": f, "subtractor": f, "merger": f, "materialized": m}),
        json!({"op": "suppress", "from": 27, "until": {"type": "window_closes", "grace_ms": -1}, "max_records": 1, "max_bytes": 2, "when_full": "shutdown", "logged": false}),
        joining("join"),
        joining("left_join"),
        joining("outer_join"),
        json!({"op": "deduplicate", "from": 0, "function": f, "within_ms": 1, "materialized": m}),
        json!({
            "op": "offload", "from": 0, "requests": "q", "responses": "r", "request": f, "function": f, "with_key": true,
            "key": "string", "request_value": "json", "response_value": "json", "instead_of_timeout": f,
            "instead_of_error": f, "timeout_handler": {"dlq": "d"}, "max_parked": 1, "materialized": m,
            "patience": {
                "timeout_ms": 1, "attempts": 2, "first_ms": 3, "most_ms": 4, "jitter": 0.5,
                "retry_timeouts": true, "retry_errors": false,
            },
        }),
        json!({"op": "to_stream", "from": 1}),
        json!({"op": "to", "from": [0, 2], "topic": "c", "topic_function": f, "partitioner": f, "key": "string", "value": "string"}),
    ]
}

/// Calls with fields that have several forms, one node for each form.
fn forms() -> Vec<Value> {
    let mut all = Vec::new();
    for reset in [json!("none"), json!({"by_duration": 1})] {
        all.push(json!({"op": "stream", "topics": ["a"], "key": "string", "value": "bytes", "reset": reset}));
    }
    let avro =
        json!({"avro": {"schema": "\"long\"", "schema_id": 7, "writer_schemas": {"3": "\"int\""}}});
    all.push(json!({"op": "stream", "topics": ["a"], "key": {"avro": {"schema": "\"string\""}}, "value": avro}));
    let protobuf = json!({"protobuf": {"descriptors": "CgA=", "message": "M", "schema_id": 7, "schema_ids": [3], "decode": {"message": 0}}});
    let dict = json!({"protobuf": {"descriptors": "CgA=", "message": "M", "decode": "dict"}});
    all.push(json!({"op": "stream", "topics": ["a"], "key": dict, "value": protobuf}));
    let json_schema = json!({"json_schema": {"schema": "{}", "schema_id": 7, "schema_ids": [3], "validate": false, "decode": "dict"}});
    let plain = json!({"json_schema": {"schema": "{}"}});
    all.push(json!({"op": "stream", "topics": ["a"], "key": plain, "value": json_schema}));
    let session = json!({"type": "session", "gap_ms": 1, "grace_ms": 0});
    all.push(json!({"op": "windowed_by", "from": 22, "window": session, "close_when_idle_ms": 5}));
    for strategy in [
        json!("monotonic"),
        json!("none"),
        json!({"bounded": 5}),
        json!({"udf": 0}),
    ] {
        let watermark = json!({"strategy": strategy, "idle_ms": 7});
        all.push(json!({"op": "stream", "topics": ["a"], "key": "string", "value": "bytes", "watermark": watermark}));
    }
    let watermark = json!({"strategy": "monotonic", "group": "g", "max_drift_ms": 3});
    all.push(json!({"op": "table", "topic": "a", "key": "string", "value": "bytes", "watermark": watermark}));
    for window in [
        json!({"type": "tumbling", "size_ms": 1, "grace_ms": 0}),
        json!({"type": "sliding", "difference_ms": 1, "grace_ms": 0}),
        json!({"type": "session", "gap_ms": 1, "grace_ms": 0}),
        json!({"type": "unlimited", "start_ms": 0}),
        json!({"type": "count", "records": 1}),
    ] {
        all.push(json!({"op": "windowed_by", "from": 22, "window": window}));
    }
    for until in [
        json!({"type": "time_limit", "limit_ms": 1}),
        json!({"type": "barrier"}),
    ] {
        all.push(json!({"op": "suppress", "from": 27, "until": until}));
    }
    let rocksdb = json!({"compression": "zstd", "block_size": 4096, "bloom_bits": 10, "compaction": "universal", "cache_size": 1_048_576});
    all.push(json!({"op": "table", "topic": "a", "key": "string", "value": "bytes", "materialized": {"store": "s", "rocksdb": rocksdb}}));
    all.push(json!({"op": "state_store", "store": "k", "kind": {"type": "key_value"}, "key": "string", "value": "string", "rocksdb": rocksdb}));
    all.push(json!({"op": "global_store", "store": "h", "kind": {"type": "key_value"}, "topic": "i", "key": "string", "value": "json", "processor": 0, "rocksdb": rocksdb}));
    for kind in [
        json!({"type": "timestamped_key_value"}),
        json!({"type": "session", "retention_ms": 1}),
        json!({"type": "versioned", "history_ms": 1}),
        json!({"type": "time_ordered"}),
    ] {
        all.push(json!({"op": "state_store", "store": "k", "kind": kind, "key": "string", "value": "string"}));
    }
    all.push(json!({"op": "stream", "pattern": "a.*", "key": "string", "value": "string", "timestamp": "use_partition_time"}));
    all.push(json!({"op": "stream", "topics": ["a"], "key": "string", "value": "int64", "timestamp": {"expr": {"op": "value"}}}));
    all.push(json!({"op": "to", "from": 0, "topic": "c"}));
    for late in [json!("grace"), json!("drop"), json!({"dlq": "l"})] {
        all.push(json!({"op": "stream", "topics": ["a"], "key": "string", "value": "bytes", "late": late}));
    }
    let late = json!({"call": {"udf": 0, "topics": ["l"]}});
    all.push(json!({"op": "table", "topic": "a", "key": "string", "value": "bytes", "late": late}));
    all
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
    let tags: Vec<String> = nodes()
        .into_iter()
        .map(|n| {
            let node: LogicalNode = serde_json::from_value(n).expect("a node");
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
        "version": VERSION, "nodes": nodes(), "functions": ["app.py:1 f"], "serdes": ["mine"], "processors": ["P"],
        "results": {"0": "string", "1": {"pair": ["string", null]}, "2": {"list": {"pair": [null, "json"]}}},
        "default_key": "string", "default_value": "json",
    });
    plan["nodes"]
        .as_array_mut()
        .expect("a list")
        .extend(forms());
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
    // A test runs in the directory of its crate.
    let path = "plan-format.txt";
    #[allow(clippy::disallowed_methods)] // the user asks this test to write the file
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &text).expect("writable");
    }
    let committed = std::fs::read_to_string(path).expect("the format is committed");
    assert!(
        text == committed,
        "the plan format changed; read the head of plan-format.txt\n{text}"
    );
}
