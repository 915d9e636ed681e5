use crate::testing::{compiled, refused, stream, udf};
use serde_json::{Value, json};

fn says(nodes: &Value, parts: &[&str]) {
    let message = refused(nodes);
    for part in parts {
        assert!(message.contains(part), "{part}: {message}");
    }
}

fn of(topic: &str) -> Value {
    json!({"op": "stream", "topics": [topic], "key": "string", "value": "string"})
}

fn table(topic: &str) -> Value {
    json!({"op": "table", "topic": topic, "key": "string", "value": "string", "materialized": {"store": topic}})
}

#[test]
fn aggregations_have_the_functions_that_they_need() {
    let group = json!({"op": "group_by_key", "from": 0});
    let reduce = json!({"op": "reduce", "from": 1, "function": udf(), "subtractor": udf()});
    says(
        &json!([stream(), group, reduce]),
        &["nothing is taken away"],
    );
    let pairs =
        json!({"op": "group_by", "from": 0, "function": udf(), "key": "string", "value": "string"});
    let reduce = json!({"op": "reduce", "from": 1, "function": udf()});
    says(
        &json!([table("t"), pairs, reduce]),
        &["app.py:3: reduce()", "subtractor="],
    );
    let session = json!({"op": "windowed_by", "from": 1, "window": {"type": "session", "gap_ms": 1, "grace_ms": 0}});
    let aggregate = json!({"op": "aggregate", "from": 2, "initializer": udf(), "function": udf(), "materialized": {"value": "string"}});
    says(
        &json!([stream(), group, session, aggregate]),
        &["add merger="],
    );
    let none = json!({"op": "aggregate", "from": 1, "initializer": udf(), "merger": udf(), "materialized": {"value": "string"}});
    says(
        &json!([stream(), group, none]),
        &["needs an aggregator", "leave merger= out"],
    );
    let cogroup = json!({"op": "cogroup", "from": 1, "function": udf()});
    let own = json!({"op": "aggregate", "from": 2, "initializer": udf(), "function": udf(), "materialized": {"value": "string"}});
    says(
        &json!([stream(), group, cogroup, own]),
        &["each cogrouped stream has its own aggregator"],
    );
}

#[test]
fn kinds_of_the_whole_dsl_are_held() {
    let group = json!({"op": "group_by_key", "from": 0});
    let tumbling = json!({"type": "tumbling", "size_ms": 1, "grace_ms": 0});
    says(
        &json!([stream(), {"op": "windowed_by", "from": 0, "window": tumbling}]),
        &[
            "needs a grouped stream or cogrouped streams",
            ".group_by_key()",
        ],
    );
    let windowed = json!({"op": "windowed_by", "from": 1, "window": tumbling});
    says(
        &json!([stream(), group, windowed, {"op": "windowed_by", "from": 2, "window": tumbling}]),
        &["has windows already"],
    );
    let cogroup = json!({"op": "cogroup", "from": 1, "function": udf()});
    let windowed = json!({"op": "windowed_by", "from": 2, "window": tumbling});
    let emit = json!({"op": "emit_strategy", "from": 3, "strategy": "on_window_close"});
    says(
        &json!([stream(), group, cogroup, windowed, emit]),
        &["use .suppress(...)"],
    );
    says(
        &json!([stream(), group, cogroup, {"op": "count", "from": 2}]),
        &[".aggregate(initializer)"],
    );
    says(
        &json!([stream(), {"op": "split", "from": 0}, {"op": "peek", "from": 1, "function": udf()}]),
        &["gives a split stream", ".branch(...)"],
    );
    let global = json!({"op": "global_table", "topic": "g", "key": "string", "value": "string"});
    says(
        &json!([global, {"op": "to_stream", "from": 0}]),
        &["a global table", "join a stream with it"],
    );
    says(
        &json!([stream(), {"op": "suppress", "from": 0, "until": {"type": "barrier"}}]),
        &["only tables hold results back"],
    );
}

#[test]
fn nothing_comes_after_the_default_branch() {
    let nodes = json!([
        stream(), {"op": "split", "from": 0}, {"op": "branch", "from": 1},
        {"op": "branch", "from": 1, "function": udf()},
    ]);
    says(
        &nodes,
        &[
            "app.py:4: branch()",
            "after the default branch (app.py:3: branch())",
        ],
    );
}

#[test]
fn joins_have_what_their_sides_need() {
    let window = json!({"before_ms": 1, "after_ms": 1, "grace_ms": 0});
    let join = |op: &str, more: Value| {
        let mut join = json!({"op": op, "from": 0, "other": 1, "function": udf()});
        for (k, v) in more.as_object().expect("an object") {
            join[k.as_str()] = v.clone();
        }
        join
    };
    let global = json!({"op": "global_table", "topic": "g", "key": "string", "value": "string", "materialized": {"store": "g"}});
    for (left, right, join, part) in [
        (stream(), of("b"), join("join", json!({})), "needs a window"),
        (
            stream(),
            table("t"),
            join("join", json!({"window": window})),
            "has no window",
        ),
        (
            stream(),
            table("t"),
            join("outer_join", json!({})),
            "can be inner or left",
        ),
        (
            stream(),
            table("t"),
            join("join", json!({"grace_ms": 1})),
            "needs a versioned table",
        ),
        (
            stream(),
            table("t"),
            join("join", json!({"materialized": {"store": "x"}})),
            "gives a stream",
        ),
        (
            stream(),
            global.clone(),
            join("join", json!({})),
            "gives the key to look up",
        ),
        (
            table("l"),
            table("r"),
            join("join", json!({"grace_ms": 1})),
            "doesn't wait",
        ),
        (
            table("l"),
            table("r"),
            join(
                "outer_join",
                json!({"foreign_key": udf(), "materialized": {"value": "string"}}),
            ),
            "inner or left",
        ),
        (
            table("l"),
            stream(),
            join("join", json!({})),
            "can't join a table with a stream",
        ),
        (
            stream(),
            of("b"),
            join("join", json!({"window": window, "foreign_key": udf()})),
            "foreign keys join two tables",
        ),
    ] {
        let message = refused(&json!([left, right, join]));
        assert!(
            message.starts_with("app.py:3: ") && message.contains(part),
            "{part}: {message}"
        );
    }
    let versioned = json!({"op": "table", "topic": "t", "key": "string", "value": "string", "materialized": {"store": "v", "history_ms": 5}});
    says(
        &json!([stream(), versioned, join("join", json!({"grace_ms": 6}))]),
        &["knows only the last 5 ms"],
    );
    compiled(&json!([
        stream(),
        versioned,
        join("join", json!({"grace_ms": 5, "name": "j"}))
    ]));
}

#[test]
fn both_sides_write_their_keys_alike() {
    let window = json!({"before_ms": 1, "after_ms": 1, "grace_ms": 0});
    let other = json!({"op": "stream", "topics": ["b"], "key": "int64", "value": "string"});
    let join = json!({"op": "join", "from": 0, "other": 1, "function": udf(), "window": window});
    says(
        &json!([stream(), other, join]),
        &[
            "string of app.py:1: stream(), int64 of app.py:2: stream()",
            ".select_key(...)",
        ],
    );
}

#[test]
fn stores_of_processors_are_known_used_and_named_once() {
    let process =
        |stores: Value| json!({"op": "process", "from": [0], "processor": 0, "stores": stores});
    let store = json!({"op": "state_store", "store": "seen", "kind": {"type": "key_value"}, "key": "string", "value": "string"});
    says(
        &json!([stream(), store, process(json!(["sen"]))]),
        &["'sen' is unknown, did you mean 'seen'?", "not connected"],
    );
    says(
        &json!([stream(), process(json!(["x"]))]),
        &["no named stores"],
    );
    says(
        &json!([stream(), store, process(json!(["seen", "seen"]))]),
        &["twice"],
    );
    says(
        &json!([stream(), store, store, process(json!(["seen"]))]),
        &["belongs to app.py:2: state_store() already"],
    );
    says(
        &json!([stream(), store]),
        &["not connected to any processor"],
    );
    let group = json!({"op": "group_by_key", "from": 0});
    let count = json!({"op": "count", "from": 2, "materialized": {"store": "c"}});
    says(
        &json!([stream(), process(json!(["c"])), group, count]),
        &["comes later: call that first"],
    );
    let nobody = json!({"op": "process", "from": [0], "processor": 7});
    says(&json!([stream(), nobody]), &["table of 2 processors"]);
    compiled(&json!([stream(), store, process(json!(["seen"]))]));
}

#[test]
fn suppressed_tables_are_not_read_by_key() {
    let suppress =
        json!({"op": "suppress", "from": 0, "until": {"type": "time_limit", "limit_ms": 1}});
    let join = json!({"op": "join", "from": 2, "other": 1, "function": udf()});
    says(
        &json!([table("t"), suppress, of("s"), join]),
        &["reads app.py:2: suppress() by key", ".to_table(store=...)"],
    );
    let versioned = json!({"op": "table", "topic": "t", "key": "string", "value": "string", "materialized": {"store": "v", "history_ms": 5}});
    says(
        &json!([versioned, suppress]),
        &["can't hold back a versioned table"],
    );
}

#[test]
fn a_sink_has_one_way_to_find_its_topic() {
    says(
        &json!([stream(), {"op": "to", "from": 0}]),
        &["needs a topic or a function"],
    );
    says(
        &json!([stream(), {"op": "to", "from": 0, "topic": "a", "topic_function": udf()}]),
        &["not both"],
    );
    let pattern = json!({"op": "stream", "pattern": "a.*", "topics": ["b"], "key": "string", "value": "string"});
    says(&json!([pattern]), &["topics or a pattern"]);
}
