//! Timers have one processor, and their keys are those of its records.

use crate::testing::{compiled, ops, refused, stream, udf};
use crate::window::StoreKind;
use serde_json::{Value, json};

fn timers(key: &str) -> Value {
    json!({"op": "state_store", "store": "alarms", "kind": {"type": "timers"}, "key": key, "value": "bytes"})
}

fn process(from: usize, op: &str) -> Value {
    let from = if op == "process" {
        json!([from])
    } else {
        json!(from)
    };
    json!({"op": op, "from": from, "processor": 0, "stores": ["alarms"]})
}

#[test]
fn a_processor_may_have_timers() {
    for op in ["process", "process_values"] {
        let plan = compiled(&json!([timers("string"), stream(), process(1, op)]));
        let store = &plan.stores[0];
        assert_eq!((store.kind, store.ordered), (StoreKind::Timers, true));
        assert!(plan.description.contains("(stores: [alarms])"));
    }
}

#[test]
fn two_processors_may_not_share_them() {
    let nodes = json!([
        timers("string"),
        stream(),
        process(1, "process"),
        process(1, "process_values")
    ]);
    let message = refused(&nodes);
    assert!(
        message.contains(
            "app.py:4: process_values(): the timers 'alarms' belong to app.py:3: process()"
        ) && message.contains("of its own"),
        "{message}"
    );
}

#[test]
fn a_transformer_has_no_timers() {
    let table = json!({"op": "table", "topic": "t", "key": "string", "value": "string", "materialized": {"store": "t"}});
    let message = refused(&json!([
        timers("string"),
        table,
        process(1, "transform_values")
    ]));
    assert!(message.contains("has no on_timer"), "{message}");
}

#[test]
fn a_global_store_keeps_no_timers() {
    let global = json!({"op": "global_store", "store": "alarms", "kind": {"type": "timers"}, "topic": "g",
        "key": "string", "value": "string", "processor": 0});
    assert!(refused(&json!([global])).contains("a global store keeps keys and values"));
}

#[test]
fn keys_are_those_of_the_records() {
    let message = refused(&json!([timers("int64"), stream(), process(1, "process")]));
    assert!(
        message.contains("keeps the timers 'alarms' by int64, but its records come by string")
            && message.contains("key="),
        "{message}"
    );
}

#[test]
fn records_of_unknown_keys_walk_to_the_lane_of_the_timers() {
    let select = json!({"op": "select_key", "from": 1, "function": udf()});
    let plan = compiled(&json!([
        timers("int64"),
        stream(),
        select,
        process(2, "process")
    ]));
    assert_eq!(ops(&plan, 0), ["source", "select_key", "exchange"]);
    assert_eq!(ops(&plan, 1), ["process"]);
}
