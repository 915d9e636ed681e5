use crate::testing::{compiled, refused, stream};
use serde_json::{Value, json};

fn leaf(name: &str) -> Value {
    json!({"expr": {"op": "is_null", "args": [{"op": name}]}})
}

fn group() -> Value {
    json!({"op": "group_by_key", "from": 0})
}

#[test]
fn each_place_has_its_own_names() {
    let table = json!({"op": "table", "topic": "t", "key": "string", "value": "json", "materialized": {"store": "t"}});
    let zero = json!({"expr": {"op": "lit", "value": 0}});
    let kept = json!({"store": "s", "value": "json"});
    let session = json!({"op": "windowed_by", "from": 1, "window": {"type": "session", "gap_ms": 1, "grace_ms": 0}});
    type Build = Box<dyn Fn(Value) -> Value>;
    let cases: Vec<(Build, &[&str])> = vec![
        (
            Box::new(|f| json!([stream(), {"op": "filter", "from": 0, "function": f}])),
            &["key", "value", "timestamp"],
        ),
        (
            Box::new(
                move |f| json!([stream(), table, {"op": "join", "from": 0, "other": 1, "function": f, "with_key": true}]),
            ),
            &["key", "left", "right"],
        ),
        (
            Box::new(
                |f| json!([stream(), group(), {"op": "reduce", "from": 1, "function": f, "materialized": {"store": "s"}}]),
            ),
            &["old", "new"],
        ),
        (
            {
                let (zero, kept) = (zero.clone(), kept.clone());
                Box::new(
                    move |f| json!([stream(), group(), {"op": "aggregate", "from": 1, "initializer": zero, "function": f, "materialized": kept}]),
                )
            },
            &["key", "value", "old"],
        ),
        (
            Box::new(
                move |f| json!([stream(), group(), session, {"op": "aggregate", "from": 2, "initializer": zero, "function": zero, "merger": f, "materialized": kept}]),
            ),
            &["key", "left", "right"],
        ),
        (
            Box::new(|f| {
                let last = json!({"aggregation": {"one": {"kind": "last", "of": f["expr"]}}});
                json!([stream(), group(), {"op": "aggregate", "from": 1, "initializer": {"expr": {"op": "lit", "value": null}}, "function": last, "materialized": {"store": "s"}}])
            }),
            &["key", "value", "timestamp"],
        ),
    ];
    for (build, seen) in cases {
        for name in ["key", "value", "timestamp", "left", "right", "old", "new"] {
            let nodes = build(leaf(name));
            if seen.contains(&name) {
                compiled(&nodes);
            } else {
                let message = refused(&nodes);
                assert!(
                    message.contains(&format!("reads sf.{name}, which isn't there")),
                    "{message}"
                );
            }
        }
    }
}

#[test]
fn an_aggregation_stands_where_something_is_aggregated() {
    let sum = json!({"aggregation": {"one": {"kind": "sum", "of": {"op": "value"}}}});
    let message =
        refused(&json!([stream(), {"op": "map_values", "from": 0, "function": sum.clone()}]));
    assert!(
        message.contains("can't use the aggregation sf.sum"),
        "{message}"
    );
    let message =
        refused(&json!([stream(), group(), {"op": "reduce", "from": 1, "function": sum}]));
    assert!(message.contains("pass it to aggregate()"), "{message}");
}
