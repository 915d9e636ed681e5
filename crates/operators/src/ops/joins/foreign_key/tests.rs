//! Foreign-key joins as measured on Kafka Streams (area `join_fk`).

mod orders;

use crate::testing::recorded::{Wiring, kept, registered, replay};
use crate::testing::*;
use stoatflow_core::{SinkId, StoreId};
use stoatflow_plan::{Delivery, Function, JoinKind, Op, StoreKind, View};

pub(super) type Nodes = Vec<(Op, Vec<u32>, Delivery)>;

fn source(store: u16) -> Op {
    Op::TableSource {
        store: StoreId(store),
        key: serde("string"),
        old: true,
    }
}

fn store(store: u16) -> View {
    View::Store {
        store: StoreId(store),
        key: serde("string"),
    }
}

/// Left (entry 0, store 0), right (entry 1, store 1), subscriptions (store 2), the result (store 3).
pub(super) fn nodes(kind: JoinKind, value: &str, old: bool) -> Nodes {
    let subscribe = Op::ForeignSubscribe {
        kind,
        foreign_key: Function::Udf(0),
        with_key: true,
        key: serde("string"),
        value: serde(value),
        foreign: serde("string"),
        join: 0,
    };
    let answer = Op::ForeignAnswer {
        store: StoreId(2),
        kind,
        right: store(1),
        key: serde("string"),
        foreign: serde("string"),
    };
    let notify = Op::ForeignNotify {
        store: StoreId(2),
        key: serde("string"),
        foreign: serde("string"),
    };
    let join = Op::ForeignJoin {
        kind,
        left: store(0),
        function: Function::Udf(1),
        with_key: false,
        key: serde("string"),
        value: serde(value),
        join: 0,
    };
    let merge = Op::TableMerge {
        store: Some(StoreId(3)),
        key: serde("string"),
        old,
    };
    vec![
        (source(0), vec![2], Delivery::Batch),
        (source(1), vec![3], Delivery::Batch),
        (subscribe, vec![4], Delivery::Batch),
        (notify, vec![5], Delivery::Batch),
        (answer, vec![5], Delivery::Batch),
        (join, vec![6], Delivery::Batch),
        (merge, vec![7], Delivery::Batch),
        (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch),
    ]
}

/// A vector: its topology, the serdes of left, right and result, and the functions.
struct Case<'a> {
    topology: &'a str,
    kind: JoinKind,
    values: [&'a str; 3],
    names: [&'a str; 3],
    functions: [&'a str; 2],
}

fn check(case: &Case<'_>, nodes: &[(Op, Vec<u32>, Delivery)], more: &[&str]) {
    let [left, right, result] = case.values;
    let functions = case.functions.iter().chain(more);
    let functions: Vec<_> = functions.map(|name| registered(name)).collect();
    replay(
        case.topology,
        nodes,
        &functions,
        &Wiring {
            entries: &[("l", &[0]), ("r", &[1])],
            sinks: &["out"],
            stores: &[
                kept(case.names[0], left),
                kept(case.names[1], right),
                ("", StoreKind::TimeOrdered, "bytes"),
                kept(case.names[2], result),
                kept("cnt", "int64"),
            ],
        },
    );
}

#[test]
fn rows_follow_both_tables() {
    let (inner, left) = (JoinKind::Inner, JoinKind::Left);
    let texts = ["string"; 3];
    let case = |topology, kind, values, names, foreign| Case {
        topology,
        kind,
        values,
        names,
        functions: [foreign, "pair_text"],
    };
    let (json, all) = (["json", "string", "string"], ["L", "R", "J"]);
    let result = ["", "", "J"];
    for case in [
        case("join_fk__fk_inner", inner, json, all, "fk_of"),
        case("join_fk__fk_left", left, json, all, "fk_of"),
        case("join_fk__fk_by_key", left, texts, result, "key_prefix_fk"),
        case("join_fk__fk_fan_out", left, texts, result, "text_fk"),
        case(
            "join_fk__fk_same_value_update",
            inner,
            texts,
            result,
            "text_fk",
        ),
        case(
            "join_fk__fk_unmaterialized",
            inner,
            ["string", "int64", "string"],
            [""; 3],
            "text_fk",
        ),
    ] {
        check(&case, &nodes(case.kind, case.values[0], false), &[]);
    }
}

#[test]
fn old_rows_are_taken_back_behind_it() {
    let mut nodes = nodes(JoinKind::Inner, "json", true);
    let to_text = Op::TableMapValues {
        function: Function::Udf(2),
        with_key: true,
        store: None,
        key: serde("string"),
        old: true,
    };
    let group_by = Op::TableGroupBy {
        function: Function::Udf(3),
        key: serde("string"),
    };
    let count = Op::TableAggregate {
        store: StoreId(4),
        key: serde("string"),
        fold: stoatflow_plan::Fold::Count,
        subtractor: None,
        old: false,
    };
    let sink = nodes.pop().expect("a sink");
    nodes.push((to_text, vec![8], Delivery::Batch));
    nodes.push((group_by, vec![9], Delivery::Batch));
    nodes.push((count, vec![10], Delivery::Batch));
    nodes.push(sink);
    let case = Case {
        topology: "join_fk__fk_join_aggregate",
        kind: JoinKind::Inner,
        values: ["json", "string", "json"],
        names: [""; 3],
        functions: ["fk_of", "pair_json"],
    };
    check(&case, &nodes, &["to_text", "swap_kv"]);
}

/// Adds stores 2 and 3 of the nodes above.
pub(super) fn subscriptions_and_result(plan: &mut stoatflow_plan::PhysicalPlan) {
    let text_store = plan.stores[0].clone();
    plan.stores = (0..4)
        .map(|id| {
            let mut store = text_store.clone();
            store.id = StoreId(id);
            if id == 2 {
                store.kind = StoreKind::TimeOrdered;
                store.value = serde("bytes");
            }
            store
        })
        .collect();
}

#[test]
fn a_foreign_key_that_begins_like_another_has_its_own_rows() {
    let nodes = to_streams(nodes(JoinKind::Inner, "string", false));
    let case = |name| registered(name) as std::sync::Arc<dyn crate::Udf>;
    let mut plan = plan(nodes);
    subscriptions_and_result(&mut plan);
    let udfs = vec![case("text_fk"), case("pair_text")];
    let mut rig = Rig::of(&plan, udfs, false).unwrap();
    let rows = [
        ("1", "a:x"),
        ("2", "ab:x"),
        ("3", "a\u{7f}:x"),
        ("4", "a:y"),
    ];
    let rows = rows.map(|(key, value)| record(key, value, 1));
    rig.push(rows.to_vec()).unwrap();
    rig.push_at(1, vec![record("a", "R", 2)]).unwrap();
    assert_eq!(rig.outputs(), ["0:1=a:x/R@2", "0:4=a:y/R@2"]);
}

#[test]
fn a_row_without_a_foreign_key_is_counted() {
    let subscribe = nodes(JoinKind::Inner, "string", false).swap_remove(2).0;
    let no_key = [registered("text_fk") as std::sync::Arc<dyn crate::Udf>];
    let mut rig = Rig::new(
        vec![(subscribe, vec![], Delivery::Batch)],
        no_key.to_vec(),
        false,
    );
    rig.push(vec![record("1", ":x", 1), record("2", "~", 2)])
        .unwrap();
    assert_eq!(rig.dropped(), [(0, "null_key")]);
}

#[test]
fn extractor_and_joiner_have_one_attach_per_batch() {
    let (extract, join) = (registered("text_fk"), registered("pair_text"));
    let mut plan = plan(to_streams(nodes(JoinKind::Inner, "string", false)));
    subscriptions_and_result(&mut plan);
    let udfs: Vec<std::sync::Arc<dyn crate::Udf>> = vec![extract.clone(), join.clone()];
    let mut rig = Rig::of(&plan, udfs, false).unwrap();
    let rows: Vec<_> = (0..20).map(|n| record(&format!("{n}"), "a:x", n)).collect();
    rig.push(rows.clone()).unwrap();
    let count = |n: &std::sync::atomic::AtomicUsize| n.load(std::sync::atomic::Ordering::Relaxed);
    let before = [count(&extract.batches), count(&join.scopes)];
    rig.push_at(2, rows).unwrap();
    assert_eq!(count(&extract.batches), before[0] + 1);
    // Fingerprints for the quiet answers; no rows.
    assert_eq!(count(&join.scopes), before[1] + 1);
    assert_eq!(rig.outputs().len(), 0);
    let before = [0, count(&join.scopes)];
    rig.push_at(1, vec![record("a", "R", 2)]).unwrap();
    assert_eq!(rig.outputs().len(), 20);
    // Fingerprints and rows.
    assert_eq!(count(&join.scopes), before[1] + 2);
}
