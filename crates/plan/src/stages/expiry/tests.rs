//! Stores of processors with a ttl: where their rows are deleted, and which stores may have none.

use crate::physical::Op;
use crate::testing::{compiled, refused, stream, udf};
use serde_json::{Value, json};

fn store(kind: &Value, expiry: &Value) -> Value {
    json!({"op": "state_store", "store": "seen", "kind": kind, "key": "string", "value": "string",
           "logged": false, "in_memory": true, "expiry": expiry})
}

fn fixed(ms: i64) -> Value {
    json!({"ttl": {"fixed": ms}, "clock": "event", "forward": false})
}

fn process(from: usize, op: &str) -> Value {
    let from = if op == "process" {
        json!([from])
    } else {
        json!(from)
    };
    json!({"op": op, "from": from, "processor": 0, "stores": ["seen"]})
}

#[test]
fn rows_are_deleted_by_the_last_node_of_the_processors_stage() {
    let plan = compiled(&json!([
        store(&json!({"type": "key_value"}), &fixed(1_000)),
        stream(),
        {"op": "select_key", "from": 1, "function": udf()},
        process(2, "process"),
        process(3, "process_values"),
    ]));
    let timers = plan.store_named("seen-expiry").unwrap();
    assert_eq!((timers.logged, timers.in_memory), (false, true));
    let last = plan.nodes.last().unwrap();
    let Op::Expire { table, time, .. } = &last.op else {
        panic!("{}", last.name);
    };
    assert_eq!(*table, plan.store_named("seen").unwrap().id);
    assert!(time.is_some(), "it has the clock of its tasks");
    let users = plan
        .nodes
        .iter()
        .filter(|node| matches!(node.op, Op::Process { .. }));
    let stages: Vec<_> = users.map(|node| node.stage).collect();
    assert_eq!(stages, [last.stage, last.stage]);
    let parents = plan
        .nodes
        .iter()
        .filter(|node| node.children.contains(&last.id));
    assert_eq!((parents.count(), last.children.len()), (0, 0));
    let stage = &plan.stages[usize::from(last.stage.0)];
    assert_eq!(stage.nodes.last(), Some(&last.id));
}

#[test]
fn other_kinds_of_stores_have_no_ttl() {
    for (kind, why) in [
        (
            json!({"type": "window", "retention_ms": 9, "size_ms": 3}),
            "a window store has no ttl: its retention",
        ),
        (
            json!({"type": "session", "retention_ms": 9}),
            "a session store has no ttl: its retention",
        ),
        (
            json!({"type": "versioned", "history_ms": 9}),
            "a versioned store has no ttl: its history_retention",
        ),
        (json!({"type": "timers"}), "a store of timers has no ttl"),
    ] {
        let nodes = json!([store(&kind, &fixed(1)), stream(), process(1, "process")]);
        let message = refused(&nodes);
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn a_ttl_is_positive_and_not_forwarded() {
    let forwarded = json!({"ttl": {"fixed": 1}, "clock": "event", "forward": true});
    for (expiry, why) in [
        (fixed(0), "a ttl must be positive, it is 0 ms"),
        (forwarded, "a processor's store has no ttl_forward"),
    ] {
        let kind = json!({"type": "timestamped_key_value"});
        let nodes = json!([store(&kind, &expiry), stream(), process(1, "process")]);
        let message = refused(&nodes);
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn a_transformer_uses_no_store_whose_rows_expire() {
    let table = json!({"op": "table", "topic": "t", "key": "string", "value": "string", "materialized": {"store": "t"}});
    let message = refused(&json!([
        store(&json!({"type": "key_value"}), &fixed(1)),
        table,
        process(1, "transform_values")
    ]));
    assert!(
        message.contains("can't use 'seen', whose rows expire"),
        "{message}"
    );
}
