use crate::testing::{compiled, ops, stream, udf};
use crate::{Op, PhysicalPlan};
use serde_json::{Value, json};
use stoatflow_core::StageId;

fn group(from: usize) -> Value {
    json!({"op": "group_by", "from": from, "function": udf(), "key": "string"})
}

fn count(from: usize, store: &str) -> Value {
    json!({"op": "count", "from": from, "materialized": {"store": store}})
}

/// What must hold for every plan.
fn sound(plan: &PhysicalPlan) {
    for node in &plan.nodes {
        for child in &node.children {
            assert!(child > &node.id);
            assert_eq!(plan.nodes[child.0 as usize].stage, node.stage);
        }
        if let Op::Exchange { to, stage, .. } = &node.op {
            assert!(node.children.is_empty() && !to.is_empty());
            assert_eq!(*stage, StageId(node.stage.0 + 1));
            assert!(
                to.iter()
                    .all(|t| plan.nodes[t.0 as usize].stage == *stage && *t > node.id)
            );
        }
    }
    for store in &plan.stores {
        assert_eq!(
            plan.nodes
                .iter()
                .filter(|n| n.op.store() == Some(store.id))
                .count(),
            1
        );
    }
}

#[test]
fn a_stage_ends_only_before_the_aggregation_of_a_re_keyed_stream() {
    let stateless = compiled(&json!([
        stream(),
        {"op": "select_key", "from": 0, "function": udf()},
        {"op": "to", "from": 1, "topic": "o", "key": "string"},
    ]));
    assert_eq!(stateless.stages.len(), 1);
    let same_key = compiled(&json!([stream(), {"op": "group_by_key", "from": 0}, count(1, "c")]));
    assert_eq!(ops(&same_key, 0), ["source", "count"]);
    let rekeyed =
        compiled(&json!([stream(), group(0), count(1, "c"), {"op": "to_stream", "from": 2}]));
    assert_eq!(ops(&rekeyed, 0), ["source", "select_key", "exchange"]);
    assert_eq!(ops(&rekeyed, 1), ["count", "to_stream"]);
    assert_eq!(rekeyed.nodes[2].name, "c-repartition-sink");
    sound(&rekeyed);
}

#[test]
fn two_aggregations_of_one_grouping_share_the_exchange() {
    let plan = compiled(&json!([stream(), group(0), count(1, "a"), count(1, "b")]));
    assert_eq!(ops(&plan, 0), ["source", "select_key", "exchange"]);
    assert_eq!(ops(&plan, 1), ["count", "count"]);
    sound(&plan);
}

#[test]
fn stages_chain_one_by_one() {
    let plan = compiled(&json!([
        stream(), group(0), count(1, "a"), {"op": "to_stream", "from": 2}, group(3), count(4, "b"),
    ]));
    assert_eq!(plan.stages.len(), 3);
    assert_eq!(plan.stores[1].upstream_topics, ["in"]);
    sound(&plan);
}

#[test]
fn where_stages_meet_stateless_nodes_are_doubled_and_stores_are_not() {
    let second = json!({"op": "stream", "topics": ["b"], "key": "string", "value": "int64"});
    let plan = compiled(&json!([
        stream(), group(0), count(1, "a"), {"op": "to_stream", "from": 2}, second,
        {"op": "merge", "from": 3, "other": 4},
        {"op": "to", "from": 5, "topic": "o"},
        {"op": "group_by_key", "from": 5},
        count(7, "b"),
        group(5),
        count(9, "c"),
    ]));
    sound(&plan);
    assert_eq!(plan.sinks.len(), 1);
    assert_eq!(ops(&plan, 0).iter().filter(|o| **o == "sink").count(), 1);
    assert_eq!(ops(&plan, 1).iter().filter(|o| **o == "sink").count(), 1);
    // Not re-keyed: what comes from below walks up to the highest stage of its parents.
    let b = plan
        .nodes
        .iter()
        .find(|n| n.op.store() == Some(plan.stores[1].id))
        .expect("kept once");
    assert_eq!(b.stage, StageId(1));
    // Re-keyed: one stage higher, by a chain of exchanges.
    let c = plan
        .nodes
        .iter()
        .find(|n| n.op.store() == Some(plan.stores[2].id))
        .expect("kept once");
    assert_eq!(c.stage, StageId(2));
    assert_eq!(plan.stores[2].upstream_topics, ["in", "b"]);
}

#[test]
fn a_table_is_kept_behind_its_source() {
    let table = json!({"op": "table", "topic": "t", "key": "string", "value": "string", "materialized": {"store": "s"}});
    let plan = compiled(&json!([table]));
    assert_eq!(ops(&plan, 0), ["source", "table"]);
    assert_eq!(plan.stores[0].source_changelog.as_deref(), Some("t"));
    let mut other = table;
    other["materialized"]["value"] = json!("bytes");
    assert_eq!(compiled(&json!([other])).stores[0].source_changelog, None);
}
