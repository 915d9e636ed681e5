mod cycles;

use crate::testing::{compiled, ops, stream, udf};
use crate::{Op, PhysicalPlan, StoreKind};
use serde_json::{Value, json};
use stoatflow_core::StageId;

fn group(from: usize) -> Value {
    json!({"op": "group_by", "from": from, "function": udf(), "key": "string"})
}

pub(super) fn count(from: usize, store: &str) -> Value {
    json!({"op": "count", "from": from, "materialized": {"store": store}})
}

/// Invariants of every plan.
pub(super) fn sound(plan: &PhysicalPlan) {
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
    for (n, store) in plan.stores.iter().enumerate() {
        assert_eq!(usize::from(store.id.0), n);
        // Each store is written in one stage only.
        let mut stages: Vec<StageId> = plan
            .nodes
            .iter()
            .filter(|n| n.op.stores().contains(&store.id))
            .map(|n| n.stage)
            .collect();
        assert!(!stages.is_empty(), "{}", store.name);
        stages.dedup();
        assert_eq!(stages.len(), 1, "{}", store.name);
    }
    let mut clocks: Vec<&str> = plan.clocks.iter().map(|c| c.name.as_str()).collect();
    clocks.sort_unstable();
    clocks.dedup();
    assert_eq!(clocks.len(), plan.clocks.len(), "{clocks:?}");
}

#[test]
fn a_stage_ends_where_a_re_keyed_stream_meets_records_of_its_new_keys() {
    let stateless = compiled(&json!([
        stream(),
        {"op": "select_key", "from": 0, "function": udf()},
        {"op": "filter", "from": 1, "function": udf()},
        {"op": "to", "from": 2, "topic": "o", "key": "string"},
    ]));
    // Records of one new key come from several lanes, and the topic gets them in the order of the input.
    assert_eq!(
        ops(&stateless, 0),
        ["source", "select_key", "filter", "exchange"]
    );
    assert_eq!(ops(&stateless, 1), ["sink"]);
    let same = compiled(&json!([
        stream(),
        {"op": "filter", "from": 0, "function": udf()},
        {"op": "to", "from": 1, "topic": "o", "key": "string"},
    ]));
    assert_eq!(same.stages.len(), 1);
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
    // Records from lower and higher stages are merged in the order of the input.
    assert_eq!(ops(&plan, 0).iter().filter(|o| **o == "sink").count(), 0);
    assert_eq!(ops(&plan, 1).iter().filter(|o| **o == "sink").count(), 1);
    // Not re-keyed: records from below are raised to the highest stage of the parents.
    let b = plan
        .nodes
        .iter()
        .find(|n| n.op.store() == Some(plan.stores[1].id))
        .expect("kept once");
    assert_eq!(b.stage, StageId(1));
    // Re-keyed: one stage higher, through a chain of exchanges.
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

fn table(topic: &str) -> Value {
    json!({"op": "table", "topic": topic, "key": "string", "value": "string", "materialized": {"store": topic}})
}

fn of(topic: &str) -> Value {
    json!({"op": "stream", "topics": [topic], "key": "string", "value": "string"})
}

/// Operations of all stages.
fn all_ops(plan: &PhysicalPlan) -> Vec<Vec<&'static str>> {
    (0..plan.stages.len()).map(|s| ops(plan, s)).collect()
}

#[test]
fn both_sides_of_a_stream_join_run_in_one_stage_and_share_stores_and_clock() {
    let window = json!({"before_ms": 3, "after_ms": 4, "grace_ms": 5});
    let plan = compiled(&json!([
        stream(), {"op": "select_key", "from": 0, "function": udf()}, of("b"),
        {"op": "outer_join", "from": 1, "other": 2, "function": udf(), "window": window, "key": "string", "name": "j"},
    ]));
    sound(&plan);
    assert_eq!(
        all_ops(&plan),
        [
            vec!["source", "select_key", "source", "exchange", "exchange"],
            vec!["stream_join", "stream_join", "merge"],
        ]
    );
    let names: Vec<&str> = plan.stores.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "j-outer-this-join-store",
            "j-outer-other-join-store",
            "j-outer-shared-join-store"
        ]
    );
    assert!(plan.stores.iter().all(|s| s.named && s.logged));
    assert!(matches!(
        plan.stores[0].kind,
        StoreKind::Window {
            retention_ms: 12,
            size_ms: 7,
            duplicates: true,
            timestamped: false
        }
    ));
    assert!(matches!(plan.stores[2].kind, StoreKind::TimeOrdered));
    let keeps = |n: &crate::PhysicalNode| {
        matches!(
            n.op,
            Op::Exchange {
                keep_null: true,
                ..
            }
        )
    };
    assert_eq!(plan.nodes.iter().filter(|n| keeps(n)).count(), 2);
    let clocks: Vec<_> = plan.nodes.iter().filter_map(|n| n.op.clock()).collect();
    assert_eq!(clocks.len(), 2);
    assert_eq!(clocks[0], clocks[1]);
}

#[test]
fn the_table_of_a_stream_join_is_read_where_the_stream_is() {
    let filter = json!({"op": "filter", "from": 1, "function": udf()});
    let plan = compiled(&json!([
        stream(), table("t"), filter,
        {"op": "left_join", "from": 0, "other": 2, "function": udf()},
        {"op": "select_key", "from": 0, "function": udf()},
        {"op": "join", "from": 4, "other": 1, "function": udf(), "key": "string"},
    ]));
    sound(&plan);
    // The table is raised with the stream that is re-keyed, and the other stream with it.
    assert_eq!(
        ops(&plan, 1),
        [
            "table",
            "table_filter",
            "stream_table_join",
            "stream_table_join"
        ]
    );
    let view = plan.nodes.iter().find_map(|n| match &n.op {
        Op::StreamTableJoin { table, .. } => Some(table.clone()),
        _ => None,
    });
    assert!(
        matches!(view, Some(crate::View::Filter { of, .. }) if matches!(*of, crate::View::Store { .. }))
    );
}

#[test]
fn the_lower_side_of_a_table_join_walks_up() {
    let plan = compiled(&json!([
        stream(), group(0), count(1, "c"), table("t"),
        {"op": "join", "from": 2, "other": 3, "function": udf()},
        {"op": "to_stream", "from": 4},
    ]));
    sound(&plan);
    assert_eq!(
        ops(&plan, 1),
        [
            "count",
            "table_join",
            "table_join",
            "table_merge",
            "to_stream"
        ]
    );
    assert_eq!(
        ops(&plan, 0).iter().filter(|o| **o == "exchange").count(),
        2
    );
}

#[test]
fn foreign_keys_walk_to_their_lane_and_back() {
    let plan = compiled(&json!([
        table("l"), table("r"),
        {"op": "left_join", "from": 0, "other": 1, "function": udf(), "foreign_key": udf(), "name": "fk", "materialized": {"value": "string"}},
    ]));
    sound(&plan);
    assert_eq!(
        all_ops(&plan),
        [
            vec![
                "source",
                "table",
                "source",
                "exchange",
                "foreign_subscribe",
                "exchange"
            ],
            // The right table is kept where it is read: an answer has its value at the time of the
            // subscription.
            vec!["table", "foreign_answer", "foreign_notify", "exchange"],
            vec!["foreign_join", "table_merge"],
        ]
    );
    // The right table's updates are sent before subscriptions.
    assert!(matches!(plan.nodes[3].op, Op::Exchange { ahead: true, .. }));
    assert!(plan.nodes.iter().all(|n| match n.op {
        Op::TableSource { old, .. } => old,
        _ => true,
    }));
    assert!(plan.stores.iter().all(|s| s.named));
}

#[test]
fn cogrouped_streams_share_a_store_and_have_their_own_times() {
    let tumbling = json!({"type": "tumbling", "size_ms": 10, "grace_ms": 5});
    let plan = compiled(&json!([
        stream(), {"op": "group_by_key", "from": 0}, of("b"), group(2),
        {"op": "cogroup", "from": 1, "function": {"udf": 1}},
        {"op": "cogroup", "from": 4, "other": 3, "function": {"udf": 2}},
        {"op": "windowed_by", "from": 5, "window": tumbling},
        {"op": "aggregate", "from": 6, "initializer": udf(), "materialized": {"store": "co", "value": "string"}},
        {"op": "to_stream", "from": 7}, {"op": "to", "from": 8, "topic": "o"},
    ]));
    sound(&plan);
    assert_eq!(
        ops(&plan, 1),
        [
            "window_aggregate",
            "window_aggregate",
            "merge",
            "to_stream",
            "sink"
        ]
    );
    let clocks: Vec<&str> = plan.clocks.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(clocks, ["co-retention", "co", "co-1"]);
    assert!(matches!(
        plan.sinks[0].key,
        crate::SerdeSpec::TimeWindowed { size_ms: 10, .. }
    ));
    assert_eq!(
        plan.stores[0].key,
        crate::SerdeSpec::Builtin("string".into())
    );
}

#[test]
fn processors_that_share_a_store_run_in_one_stage() {
    let store = json!({"op": "state_store", "store": "s", "kind": {"type": "key_value"}, "key": "string", "value": "string"});
    let process = |from: usize| json!({"op": "process_values", "from": from, "processor": 0, "stores": ["s"]});
    let plan = compiled(&json!([
        stream(), store, process(0), {"op": "to", "from": 2, "topic": "o", "value": "string"},
        {"op": "select_key", "from": 0, "function": {"expr": {"op": "value"}}}, process(4),
    ]));
    sound(&plan);
    assert_eq!(plan.clocks[0].name, "application");
    assert_eq!(ops(&plan, 1), ["process", "sink", "process"]);
    assert!(plan.stores[0].ordered);
    assert_eq!(plan.stores[0].upstream_topics, ["in"]);
    // Without a store the processor runs where its records are.
    let free = json!({"op": "process", "from": [1], "processor": 0});
    let plan =
        compiled(&json!([stream(), {"op": "select_key", "from": 0, "function": udf()}, free]));
    assert_eq!(plan.stages.len(), 1);
}

#[test]
fn global_tables_are_read_from_any_lane() {
    let global = json!({"op": "global_table", "topic": "g", "key": "int64", "value": "string", "materialized": {"store": "G"}});
    let plan = compiled(&json!([
        stream(), global, {"op": "select_key", "from": 0, "function": udf()},
        {"op": "join", "from": 2, "other": 1, "function": udf(), "key_function": udf()},
        {"op": "global_store", "store": "h", "kind": {"type": "key_value"}, "topic": "i", "key": "string", "value": "string", "processor": 1},
        {"op": "process", "from": [0], "processor": 0},
    ]));
    sound(&plan);
    assert_eq!(plan.stages.len(), 1);
    assert_eq!(
        plan.sources.iter().map(|s| s.global).collect::<Vec<_>>(),
        [false, true, true]
    );
    assert!(plan.stores.iter().all(|s| !s.logged && s.named));
    assert_eq!(plan.stores[0].source_changelog.as_deref(), Some("g"));
    // Global stores need no connection.
    let stores = plan.nodes.iter().rev().find_map(|n| match &n.op {
        Op::Process { stores, .. } => Some(stores.len()),
        _ => None,
    });
    assert_eq!(stores, Some(2));
}

#[test]
fn branches_are_children_of_their_split_in_order() {
    let branch = |f: Value| json!({"op": "branch", "from": 1, "function": f});
    let plan = compiled(&json!([
        stream(), {"op": "split", "from": 0}, branch(json!({"udf": 1})), branch(json!({"udf": 2})), {"op": "branch", "from": 1},
        {"op": "to", "from": 4, "topic": "rest"}, {"op": "to", "from": 2, "topic": "one"},
    ]));
    sound(&plan);
    let Op::Split { functions } = &plan.nodes[1].op else {
        panic!("{:?}", plan.nodes[1].op);
    };
    assert_eq!(functions.len(), 2);
    assert_eq!(plan.nodes[1].children.len(), 3);
}

#[test]
fn a_repartition_walks_although_nothing_asks_for_it() {
    let plan = compiled(&json!([
        stream(), {"op": "repartition", "from": 0, "name": "rep"}, {"op": "to_table", "from": 1, "materialized": {"store": "t"}},
        {"op": "suppress", "from": 2, "until": {"type": "barrier"}, "name": "sup"},
    ]));
    sound(&plan);
    assert_eq!(ops(&plan, 1), ["merge", "table", "suppress"]);
    assert_eq!(
        plan.nodes
            .iter()
            .find(|n| n.op.name() == "merge")
            .map(|n| n.name.as_str()),
        Some("rep-repartition-source")
    );
}

#[test]
fn patterns_extractors_and_dynamic_topics_reach_the_engine() {
    let pattern = json!({"op": "stream", "pattern": "a.*", "key": "string", "value": "string", "timestamp": {"udf": 3}});
    let plan = compiled(
        &json!([pattern, {"op": "to", "from": 0, "topic_function": udf(), "partitioner": {"udf": 1}}]),
    );
    assert_eq!(plan.sources[0].pattern.as_deref(), Some("a.*"));
    assert!(matches!(
        plan.sources[0].timestamp,
        crate::TimestampExtractor::Udf(3)
    ));
    assert!(
        plan.sinks[0].topic.is_none()
            && plan.sinks[0].topic_function.is_some()
            && plan.sinks[0].partitioner.is_some()
    );
    assert!(plan.chooses_topics());
}

#[test]
fn functions_of_error_handlers_may_choose_topics() {
    let chooses = |handler: Value| {
        let to = json!({"op": "to", "from": 0, "topic": "out", "on_error": handler});
        compiled(&json!([stream(), to])).chooses_topics()
    };
    let calls = json!({"call": {"udf": 1}});
    let retry = |then: &Value| json!({"retry": {"times": 1, "backoff_ms": 1, "then": then}});
    assert!(chooses(calls.clone()));
    assert!(chooses(retry(&calls)));
    for fixed in [
        json!("fail"),
        json!({"dlq": "dead"}),
        retry(&json!("continue")),
    ] {
        assert!(!chooses(fixed.clone()), "{fixed}");
    }
}

#[test]
fn a_versioned_table_has_its_own_changelog() {
    let versioned = json!({"op": "table", "topic": "t", "key": "string", "value": "string", "materialized": {"store": "v", "history_ms": 9}});
    let plan = compiled(&json!([versioned]));
    assert!(matches!(
        plan.stores[0].kind,
        StoreKind::Versioned { history_ms: 9 }
    ));
    assert_eq!(plan.stores[0].source_changelog, None);
    assert!(!plan.stores[0].cached);
    assert_eq!(plan.clocks[0].name, "v-retention");
    assert_eq!(plan.stores[0].clock, Some(plan.clocks[0].id));
}

#[test]
fn a_view_with_a_materialized_is_versioned_no_more() {
    let table = |kept: Value| json!({"op": "table", "topic": "t", "key": "string", "value": "string", "materialized": kept});
    let (versions, rows) = (
        json!({"store": "v", "history_ms": 9}),
        json!({"store": "v"}),
    );
    let view = |from: u32, kept: Value| json!({"op": "map_values", "from": from, "function": udf(), "materialized": kept});
    let ends = |table: Value, views: &[Value]| {
        let all: Vec<Value> = std::iter::once(table).chain(views.to_vec()).collect();
        let plan = compiled(&json!(all));
        sound(&plan);
        let found = plan.nodes.iter().map(|n| n.op.name().to_owned());
        // A versioned table follows an exchange.
        let found = found.filter(|name| name != "exchange");
        found.skip(2).collect::<Vec<_>>()
    };
    let typed = json!({"key": "string", "value": "string"});
    assert_eq!(
        ends(table(versions.clone()), &[view(0, typed.clone())]),
        ["table_map_values", "unversioned"]
    );
    // A table that is no longer versioned needs no second `unversioned`.
    assert_eq!(
        ends(
            table(versions.clone()),
            &[view(0, typed.clone()), view(1, typed.clone())]
        ),
        ["table_map_values", "unversioned", "table_map_values"]
    );
    let stored = json!({"store": "own", "key": "string", "value": "string"});
    for (table, kept) in [
        (table(versions.clone()), Value::Null),
        (table(versions), stored),
        (table(rows), typed),
    ] {
        assert_eq!(ends(table, &[view(0, kept)]), ["table_map_values"]);
    }
}

#[test]
fn exchanges_without_a_topic_run_first() {
    let plan = compiled(&json!([
        {"op": "table", "topic": "t", "key": "string", "value": "string", "materialized": {"store": "kept"}},
        {"op": "group_by", "from": 0, "function": udf(), "key": "string", "value": "string"},
        count(1, "counted"),
        {"op": "join", "from": 2, "other": 0, "function": udf()},
        {"op": "to_stream", "from": 3},
    ]));
    sound(&plan);
    let ahead: Vec<bool> = plan
        .nodes
        .iter()
        .filter_map(|n| match n.op {
            Op::Exchange { ahead, .. } => Some(ahead),
            _ => None,
        })
        .collect();
    assert_eq!(
        ahead,
        [false, true],
        "the group has a topic, the side of the join has none"
    );
}

#[test]
fn a_join_of_tables_knows_whether_they_are_written_in_lower_stages() {
    let join = |from: usize, other: usize| json!({"op": "join", "from": from, "other": other, "function": udf()});
    let kept = json!({"store": "m", "key": "string", "value": "string"});
    let plan = compiled(&json!([
        table("a"), table("b"), join(0, 1),
        of("s"), {"op": "select_key", "from": 3, "function": udf()},
        {"op": "to_table", "from": 4, "materialized": kept},
        join(0, 5),
        // In the stage of the raised table, but one of the tables that the left side joins is in a lower
        // one.
        join(6, 5),
        {"op": "filter", "from": 5, "function": udf()},
        join(5, 8),
    ]));
    sound(&plan);
    let sides = plan.nodes.iter().filter_map(|node| match node.op {
        Op::TableJoin { apart, .. } => Some((node.stage.0, apart)),
        _ => None,
    });
    let found: Vec<(u16, bool)> = sides.collect();
    let joins = [(0, false), (1, true), (1, true), (1, false)];
    assert_eq!(found, joins.map(|join| [join; 2]).concat());
}

#[test]
fn a_stream_that_is_made_of_a_table_meets_it_as_it_was() {
    // The table can't be in a higher stage than a stream that depends on it.
    let plan = compiled(&json!([
        table("t"),
        {"op": "to_stream", "from": 0},
        {"op": "select_key", "from": 1, "function": udf()},
        {"op": "join", "from": 2, "other": 0, "function": udf(), "key": "string"},
    ]));
    sound(&plan);
    assert_eq!(ops(&plan, 0)[..2], ["source", "table"]);
    assert_eq!(ops(&plan, 1), ["stream_table_join"]);
}
