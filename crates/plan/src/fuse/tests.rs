use crate::Delivery;
use crate::testing::{compiled, stream, udf};
use serde_json::json;

#[test]
fn branches_that_stay_apart_take_batches() {
    let plan = compiled(&json!([
        stream(),
        {"op": "to", "from": 0, "topic": "a"},
        {"op": "to", "from": 0, "topic": "b"},
    ]));
    assert_eq!(plan.nodes[0].fork, Delivery::Batch);
    assert!(!plan.stages[0].foreign && plan.stages[0].independent_entries);
}

#[test]
fn branches_that_meet_in_a_topic_or_a_node_go_record_by_record() {
    let sinks = json!([stream(), {"op": "to", "from": 0, "topic": "a"}, {"op": "to", "from": 0, "topic": "a"}]);
    assert_eq!(compiled(&sinks).nodes[0].fork, Delivery::Record);
    let merge = json!([
        stream(),
        {"op": "peek", "from": 0, "function": udf()},
        {"op": "merge", "from": 0, "other": 1},
    ]);
    let plan = compiled(&merge);
    assert_eq!(plan.nodes[0].fork, Delivery::Record);
    assert_eq!(plan.nodes[1].fork, Delivery::Batch);
    assert!(plan.nodes[1].foreign && plan.stages[0].foreign && !plan.nodes[0].foreign);
}

#[test]
fn entries_that_meet_are_not_independent() {
    let second = json!({"op": "stream", "topics": ["b"], "key": "string", "value": "string"});
    let apart = json!([stream(), second, {"op": "to", "from": 0, "topic": "x"}, {"op": "to", "from": 1, "topic": "y"}]);
    assert!(compiled(&apart).stages[0].independent_entries);
    let meet = json!([stream(), second, {"op": "to", "from": 0, "topic": "x"}, {"op": "to", "from": 1, "topic": "x"}]);
    assert!(!compiled(&meet).stages[0].independent_entries);
}

#[test]
fn a_custom_serde_is_foreign() {
    let custom = json!({"op": "stream", "topics": ["in"], "key": "string", "value": {"custom": 0}});
    assert!(compiled(&json!([custom])).nodes[0].foreign);
}

fn table(topic: &str) -> serde_json::Value {
    json!({"op": "table", "topic": topic, "key": "string", "value": "string", "materialized": {"store": topic}})
}

#[test]
fn a_branch_that_reads_what_another_one_writes_sees_records_in_turn() {
    let plan = compiled(&json!([
        stream(),
        {"op": "group_by_key", "from": 0},
        {"op": "reduce", "from": 1, "function": udf(), "materialized": {"store": "r"}},
        {"op": "left_join", "from": 0, "other": 2, "function": udf()},
    ]));
    assert_eq!(plan.nodes[0].fork, Delivery::Record);
    // Tables of different topics: the sources may not be grouped, but each processes batches.
    let plan = compiled(&json!([
        table("l"), table("r"), {"op": "join", "from": 0, "other": 1, "function": udf()},
    ]));
    assert!(!plan.stages[0].independent_entries);
    assert!(plan.nodes.iter().all(|n| n.fork == Delivery::Batch));
}

#[test]
fn a_store_that_is_read_below_its_writer_is_written_record_by_record() {
    let plan = compiled(&json!([
        table("t"),
        {"op": "map_values", "from": 0, "function": udf()},
        {"op": "join", "from": 0, "other": 1, "function": udf()},
    ]));
    assert_eq!(plan.nodes[0].fork, Delivery::Batch);
    assert_eq!(plan.nodes[1].fork, Delivery::Record);
    // A table that is read in a later stage is no conflict.
    let plan = compiled(&json!([
        table("l"), table("r"),
        {"op": "join", "from": 0, "other": 1, "function": udf(), "foreign_key": udf(), "name": "fk", "materialized": {"value": "string"}},
    ]));
    assert!(plan.nodes.iter().all(|n| n.fork == Delivery::Batch));
}

#[test]
fn a_processor_whose_store_is_touched_below_takes_records_in_turn() {
    let store = json!({"op": "state_store", "store": "s", "kind": {"type": "key_value"}, "key": "string", "value": "string"});
    let process = |from: usize, stores: serde_json::Value| json!({"op": "process", "from": [from], "processor": 0, "stores": stores, "low_level": true});
    let shared = compiled(&json!([
        stream(),
        store,
        process(0, json!(["s"])),
        process(2, json!(["s"]))
    ]));
    assert_eq!(shared.nodes[1].fork, Delivery::Record);
    assert_eq!(shared.nodes[0].fork, Delivery::Batch);
    let alone = compiled(&json!([
        stream(),
        store,
        process(0, json!(["s"])),
        process(2, json!([]))
    ]));
    assert_eq!(alone.nodes[1].fork, Delivery::Batch);
    assert!(alone.nodes[1].foreign);
}

#[test]
fn a_topic_that_a_function_chooses_may_be_any() {
    let sinks = json!([stream(), {"op": "to", "from": 0, "topic": "a"}, {"op": "to", "from": 0, "topic_function": udf()}]);
    let plan = compiled(&sinks);
    assert_eq!(plan.nodes[0].fork, Delivery::Record);
    assert!(plan.nodes[2].foreign && !plan.nodes[1].foreign);
}
