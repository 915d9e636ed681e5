use crate::testing::{compiled, plan, refused, stream, udf};
use crate::{Op, SerdeSpec, compile};
use serde_json::{Value, json};

fn named(name: &str) -> SerdeSpec {
    SerdeSpec::Builtin(name.into())
}

fn split() -> Value {
    json!({"expr": {"op": "str_split", "args": [{"op": "str_lower", "args": [{"op": "value"}]}], "by": null}})
}

#[test]
fn word_count_with_expressions_needs_no_serde_arguments() {
    let plan = compiled(&json!([
        stream(),
        {"op": "flat_map_values", "from": 0, "function": split()},
        {"op": "group_by", "from": 1, "function": {"expr": {"op": "value"}}},
        {"op": "count", "from": 2, "materialized": {"store": "counts"}},
        {"op": "to_stream", "from": 3},
        {"op": "to", "from": 4, "topic": "out"},
    ]));
    assert_eq!(
        (&plan.sinks[0].key, &plan.sinks[0].value),
        (&named("string"), &named("int64"))
    );
    assert_eq!(
        (&plan.stores[0].key, &plan.stores[0].value),
        (&named("string"), &named("int64"))
    );
    let exchange = plan.nodes.iter().find_map(|n| match &n.op {
        Op::Exchange { key, .. } => Some(key),
        _ => None,
    });
    assert_eq!(exchange, Some(&named("string")));
    assert!(plan.nodes.iter().all(|n| !n.foreign));
}

#[test]
fn a_sink_after_a_callable_names_the_argument_and_the_culprit() {
    let nodes = json!([stream(), {"op": "map_values", "from": 0, "function": udf()}, {"op": "peek", "from": 1, "function": udf()}, {"op": "to", "from": 2, "topic": "o"}]);
    let message = refused(&nodes);
    assert_eq!(
        message,
        "app.py:4: to(): doesn't know the serde of its value: app.py:2: map_values() calls 'f0', which can return anything. Give value="
    );
    let mut with_default = plan(&nodes);
    with_default["default_value"] = json!("json");
    let plan = compile(with_default.to_string().as_bytes()).expect("the default stands in");
    assert_eq!(
        (&plan.sinks[0].key, &plan.sinks[0].value),
        (&named("string"), &named("json"))
    );
}

#[test]
fn each_operation_forgets_the_side_it_changes() {
    for (op, key, value) in [
        ("map", false, false),
        ("flat_map", false, false),
        ("select_key", false, true),
        ("map_values", true, false),
        ("flat_map_values", true, false),
        ("filter", true, true),
        ("filter_not", true, true),
        ("peek", true, true),
    ] {
        let sink = |k: bool, v: bool| {
            let mut to = json!({"op": "to", "from": 1, "topic": "o"});
            if k {
                to["key"] = json!("bytes");
            }
            if v {
                to["value"] = json!("bytes");
            }
            json!([stream(), {"op": op, "from": 0, "function": udf()}, to])
        };
        compiled(&sink(!key, !value));
        if !key {
            assert!(refused(&sink(false, true)).contains("Give key="), "{op}");
        }
        if !value {
            assert!(refused(&sink(true, false)).contains("Give value="), "{op}");
        }
    }
}

#[test]
fn a_grouping_is_reported_once_and_takes_the_key_of_its_table() {
    let group = json!({"op": "group_by", "from": 0, "function": udf()});
    let message =
        refused(&json!([stream(), group, {"op": "count", "from": 1}, {"op": "count", "from": 1}]));
    assert_eq!(message.matches("serde of its key").count(), 1, "{message}");
    assert!(message.contains("Give key= to the grouping"), "{message}");
    let kept = json!({"op": "count", "from": 1, "materialized": {"store": "c", "key": "int64"}});
    let plan = compiled(&json!([stream(), group, kept]));
    assert!(
        plan.nodes
            .iter()
            .any(|n| matches!(&n.op, Op::Exchange { key, .. } if *key == named("int64")))
    );
}

#[test]
fn a_merge_keeps_what_both_agree_on() {
    let other = json!({"op": "stream", "topics": ["b"], "key": "string", "value": "bytes"});
    let merge = json!({"op": "merge", "from": 0, "other": 1});
    let message = refused(&json!([stream(), other, merge, {"op": "to", "from": 2, "topic": "o"}]));
    assert!(
        message.contains("value: app.py:3: merge() joins streams whose value serdes differ"),
        "{message}"
    );
    assert!(!message.contains("its key"), "{message}");
}

#[test]
fn tables_of_aggregations() {
    let group = json!({"op": "group_by_key", "from": 0});
    let plan = compiled(&json!([stream(), group, {"op": "reduce", "from": 1, "function": udf()}]));
    assert_eq!(plan.stores[0].value, named("string"));
    let aggregate = json!({"op": "aggregate", "from": 1, "initializer": {"expr": {"op": "lit", "value": 0}}, "function": udf()});
    assert!(refused(&json!([stream(), group, aggregate])).contains("Materialized(value=...)"));
}

#[test]
fn a_sink_knows_whether_its_records_are_as_they_were_read() {
    let sides = |op: &str, more: Value| {
        let mut node = json!({"op": op, "from": 0});
        let members = node.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        let plan = compiled(
            &json!([stream(), node, {"op": "peek", "from": 1, "function": udf()}, {"op": "to", "from": 2, "topic": "o", "key": "bytes", "value": "bytes"}]),
        );
        (plan.sinks[0].key_as_read, plan.sinks[0].value_as_read)
    };
    let function = || json!({"function": udf()});
    assert_eq!(sides("filter", function()), (true, true));
    assert_eq!(sides("filter_not", function()), (true, true));
    assert_eq!(sides("repartition", json!({"value": "json"})), (true, true));
    assert_eq!(sides("map_values", function()), (true, false));
    assert_eq!(sides("flat_map_values", function()), (true, false));
    assert_eq!(sides("select_key", function()), (false, true));
    assert_eq!(sides("map", function()), (false, false));
    assert_eq!(sides("flat_map", function()), (false, false));
}

#[test]
fn a_merge_or_a_table_gives_what_was_made_too() {
    let to = |from: usize| json!({"op": "to", "from": from, "topic": "o", "key": "string", "value": "string"});
    let plan = compiled(&json!([
        stream(),
        {"op": "map_values", "from": 0, "function": udf()},
        {"op": "merge", "from": 0, "other": 1},
        to(2),
        {"op": "to_table", "from": 0, "materialized": {"store": "t"}},
        {"op": "to_stream", "from": 4},
        to(5),
        {"op": "filter", "from": 0, "function": udf()},
        {"op": "merge", "from": 0, "other": 7},
        to(8),
    ]));
    let sides = |at: usize| (plan.sinks[at].key_as_read, plan.sinks[at].value_as_read);
    assert_eq!(sides(0), (true, false), "a merge with what was made");
    assert_eq!(sides(1), (false, false), "a table");
    assert_eq!(sides(2), (true, true), "a merge of what was read");
}
