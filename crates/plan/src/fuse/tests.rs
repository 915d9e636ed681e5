use crate::Fork;
use crate::testing::{compiled, stream, udf};
use serde_json::json;

#[test]
fn branches_that_stay_apart_take_batches() {
    let plan = compiled(&json!([
        stream(),
        {"op": "to", "from": 0, "topic": "a"},
        {"op": "to", "from": 0, "topic": "b"},
    ]));
    assert_eq!(plan.nodes[0].fork, Fork::Batch);
    assert!(!plan.stages[0].foreign && plan.stages[0].independent_entries);
}

#[test]
fn branches_that_meet_in_a_topic_or_a_node_go_record_by_record() {
    let sinks = json!([stream(), {"op": "to", "from": 0, "topic": "a"}, {"op": "to", "from": 0, "topic": "a"}]);
    assert_eq!(compiled(&sinks).nodes[0].fork, Fork::Record);
    let merge = json!([
        stream(),
        {"op": "peek", "from": 0, "function": udf()},
        {"op": "merge", "from": 0, "other": 1},
    ]);
    let plan = compiled(&merge);
    assert_eq!(plan.nodes[0].fork, Fork::Record);
    assert_eq!(plan.nodes[1].fork, Fork::Batch);
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
