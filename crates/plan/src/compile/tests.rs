use super::*;
use crate::testing::{compiled, ops, stream};
use serde_json::json;

#[test]
fn generated_store_names_are_listed_with_what_to_add() {
    let group = json!({"op": "group_by_key", "from": 0});
    let plan =
        compiled(&json!([stream(), group, {"op": "count", "from": 1}, {"op": "count", "from": 1}]));
    let e = require_explicit_names(&plan).expect_err("two names are generated");
    for part in [
        "2 problems",
        "app.py:3: count()",
        "add store=\"in-count\"",
        "app.py:4: count()",
        "add store=\"in-count-2\"",
    ] {
        assert!(e.message().contains(part), "{part}: {e}");
    }
    assert!(e.next_step().contains("ensure.explicit.naming=false"));
    let kept = json!({"op": "count", "from": 1, "materialized": {"store": "c"}});
    require_explicit_names(&compiled(&json!([stream(), group, kept]))).expect("named");
}

/// The message that asks for the names of a call's stores.
fn added(nodes: &serde_json::Value) -> String {
    let e = require_explicit_names(&compiled(nodes)).expect_err("a name is generated");
    e.message().to_owned()
}

#[test]
fn each_call_is_told_by_which_argument_it_is_named() {
    let window = json!({"before_ms": 1, "after_ms": 1, "grace_ms": 0});
    let other = json!({"op": "stream", "topics": ["b"], "key": "string", "value": "string"});
    let join =
        json!({"op": "left_join", "from": 0, "other": 1, "function": {"udf": 0}, "window": window});
    let message = added(&json!([stream(), other, join]));
    assert!(message.starts_with("app.py:3: left_join()"), "{message}");
    assert!(message.contains("add name=\"in-left_join\""), "{message}");
    let mut named = join;
    named["name"] = json!("j");
    require_explicit_names(&compiled(&json!([stream(), other, named]))).expect("named by the join");

    let table = |topic: &str| json!({"op": "table", "topic": topic, "key": "string", "value": "string", "materialized": {"store": topic}});
    let mut foreign = json!({"op": "join", "from": 0, "other": 1, "function": {"udf": 0}, "foreign_key": {"udf": 1}, "materialized": {"store": "J", "value": "string"}});
    let message = added(&json!([table("l"), table("r"), foreign]));
    assert!(
        message.contains("join() keeps") && message.contains("add name="),
        "{message}"
    );
    foreign["name"] = json!("fk");
    require_explicit_names(&compiled(&json!([table("l"), table("r"), foreign]))).expect("named");

    let suppress =
        json!({"op": "suppress", "from": 0, "until": {"type": "time_limit", "limit_ms": 1}});
    let message = added(&json!([table("l"), suppress]));
    assert!(
        message.contains("suppress() keeps") && message.contains("add name="),
        "{message}"
    );

    let unnamed = json!({"op": "table", "topic": "t", "key": "string", "value": "string"});
    assert!(added(&json!([unnamed])).contains("table() keeps"));
    let message = added(&json!([stream(), {"op": "to_table", "from": 0}]));
    assert!(
        message.contains("to_table() keeps") && message.contains("add store="),
        "{message}"
    );
    let tumbling = json!({"type": "tumbling", "size_ms": 10, "grace_ms": 0});
    let message = added(&json!([
        stream(), {"op": "group_by_key", "from": 0}, {"op": "windowed_by", "from": 1, "window": tumbling},
        {"op": "count", "from": 2},
    ]));
    assert!(message.contains("app.py:4: count() keeps"), "{message}");
}

#[test]
fn entries_are_sources_or_what_exchanges_lead_to() {
    let plan = compiled(&json!([
        stream(),
        {"op": "group_by", "from": 0, "function": {"udf": 0}, "key": "string"},
        {"op": "count", "from": 1, "materialized": {"store": "c"}},
    ]));
    let of = |s| entries(&plan, stoatflow_core::StageId(s));
    assert_eq!(of(0), [plan.sources[0].entry]);
    assert_eq!(of(1), [plan.stages[1].nodes[0]]);
    assert_eq!(ops(&plan, 1), ["count"]);
}
