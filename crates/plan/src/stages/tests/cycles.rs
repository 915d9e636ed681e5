//! Tables and processors that raise each other: a stage is found, or the plan is refused.

use super::sound;
use crate::Op;
use crate::testing::{compiled, refused, stream, udf};
use serde_json::{Value, json};

fn table(topic: &str) -> Value {
    json!({"op": "table", "topic": topic, "key": "string", "value": "string", "materialized": {"store": topic}})
}

fn joined(from: usize, other: usize, name: &str) -> Value {
    json!({"op": "join", "from": from, "other": other, "function": udf(), "foreign_key": udf(), "name": name,
        "materialized": {"value": "string"}})
}

#[test]
fn two_tables_may_look_into_each_other_by_foreign_keys() {
    let plan = compiled(&json!([
        table("a"),
        table("b"),
        joined(0, 1, "one"),
        joined(1, 0, "two"),
        joined(2, 3, "three"),
        joined(3, 2, "four"),
    ]));
    sound(&plan);
    let answers = plan.nodes.iter();
    let answers = answers.filter(|node| matches!(node.op, Op::ForeignAnswer { .. }));
    assert_eq!(answers.count(), 4);
}

#[test]
fn processors_that_share_a_store_are_refused_on_both_sides_of_a_new_key() {
    let process = |from: usize, line: &str| json!({"op": "process", "from": [from], "processor": 0, "stores": ["s"], "line": line});
    let store = json!({"op": "state_store", "store": "s", "kind": {"type": "key_value"}, "key": "string", "value": "string"});
    let error = refused(&json!([
        stream(), store, process(0, "app.py:3"), {"op": "select_key", "from": 2, "function": udf()},
        {"op": "repartition", "from": 3, "key": "string", "value": "string"}, process(4, "app.py:6"),
    ]));
    assert_eq!(
        error,
        "processors that share the store 's' stand before and behind a new key, where they run in different \
         transactions: app.py:3: process(), app.py:6: process()"
    );
}
