//! Joins of tables as measured on Kafka Streams (area `join_tt`).

mod orders;

use crate::testing::recorded::{Wiring, kept, registered, replay};
use crate::testing::*;
use stoatflow_core::{SinkId, StoreId};
use stoatflow_plan::{Delivery, Function, JoinKind, Op, View};

pub(super) type Nodes = Vec<(Op, Vec<u32>, Delivery)>;

pub(super) fn source(store: u16, old: bool) -> Op {
    Op::TableSource {
        store: StoreId(store),
        key: serde("string"),
        old,
    }
}

pub(super) fn store(store: u16) -> View {
    View::Store {
        store: StoreId(store),
        key: serde("string"),
    }
}

pub(super) fn side(left: bool, kind: JoinKind, other: View, function: u32, old: bool) -> Op {
    Op::TableJoin {
        left,
        kind,
        other,
        function: Function::Udf(function),
        with_key: false,
        key: serde("string"),
        apart: false,
        old,
    }
}

fn merge(kept: Option<u16>, old: bool) -> Op {
    Op::TableMerge {
        store: kept.map(StoreId),
        key: serde("string"),
        old,
    }
}

pub(super) fn sink(id: u16) -> Op {
    Op::Sink { sink: SinkId(id) }
}

/// Two source tables (entries 0 and 1, stores 0 and 1) and their join into sink 0.
fn two(kind: JoinKind, result: Option<u16>) -> Nodes {
    vec![
        (source(0, kind != JoinKind::Inner), vec![2], Delivery::Batch),
        (source(1, kind == JoinKind::Outer), vec![3], Delivery::Batch),
        (
            side(true, kind, store(1), 0, false),
            vec![4],
            Delivery::Batch,
        ),
        (
            side(false, kind, store(0), 0, false),
            vec![4],
            Delivery::Batch,
        ),
        (merge(result, false), vec![5], Delivery::Batch),
        (sink(0), vec![], Delivery::Batch),
    ]
}

const ENTRIES: &[(&str, &[u32])] = &[("l", &[0]), ("r", &[1])];

#[test]
fn which_updates_come_out_of_each_kind() {
    let kinds = [
        ("inner", JoinKind::Inner),
        ("left", JoinKind::Left),
        ("outer", JoinKind::Outer),
    ];
    for (name, kind) in kinds {
        let wiring = Wiring {
            entries: ENTRIES,
            sinks: &["out"],
            stores: &[kept("L", "string"), kept("R", "string")],
        };
        replay(
            &format!("join_tt__tt_{name}"),
            &two(kind, None),
            &[registered("pair_text")],
            &wiring,
        );
        let wiring = Wiring {
            stores: &[kept("", "string"), kept("", "string"), kept("J", "string")],
            ..wiring
        };
        replay(
            &format!("join_tt__tt_{name}_materialized"),
            &two(kind, Some(2)),
            &[registered("pair_text")],
            &wiring,
        );
    }
}

#[test]
fn a_joiner_that_gives_null_deletes() {
    let (inner, left) = (JoinKind::Inner, JoinKind::Left);
    let nodes = [
        (source(0, true), vec![2, 6], Delivery::Record),
        (source(1, false), vec![3, 7], Delivery::Record),
        (
            side(true, inner, store(1), 0, false),
            vec![4],
            Delivery::Batch,
        ),
        (
            side(false, inner, store(0), 0, false),
            vec![4],
            Delivery::Batch,
        ),
        (merge(Some(2), false), vec![5], Delivery::Batch),
        (sink(0), vec![], Delivery::Batch),
        (
            side(true, left, store(1), 0, false),
            vec![8],
            Delivery::Batch,
        ),
        (
            side(false, left, store(0), 0, false),
            vec![8],
            Delivery::Batch,
        ),
        (merge(None, false), vec![9], Delivery::Batch),
        (sink(1), vec![], Delivery::Batch),
    ];
    replay(
        "join_tt__tt_joiner_null",
        &nodes,
        &[registered("null_if_right_x")],
        &Wiring {
            entries: ENTRIES,
            sinks: &["out", "left"],
            stores: &[kept("", "string"), kept("", "string"), kept("J", "string")],
        },
    );
}

#[test]
fn a_table_joined_with_a_view_of_itself_gives_two_results() {
    let kind = JoinKind::Inner;
    let upper = Op::TableMapValues {
        function: Function::Udf(1),
        with_key: true,
        store: None,
        key: serde("string"),
        old: false,
    };
    let view = View::MapValues {
        of: Box::new(store(0)),
        function: Function::Udf(1),
        with_key: true,
    };
    // The left side receives an update before the mapped copy does.
    let nodes = [
        (source(0, false), vec![1, 2], Delivery::Record),
        (side(true, kind, view, 0, false), vec![4], Delivery::Batch),
        (upper, vec![3], Delivery::Batch),
        (
            side(false, kind, store(0), 0, false),
            vec![4],
            Delivery::Batch,
        ),
        (merge(None, false), vec![5], Delivery::Batch),
        (sink(0), vec![], Delivery::Batch),
    ];
    replay(
        "join_tt__tt_self_join",
        &nodes,
        &["pair_text", "upper"].map(registered),
        &Wiring {
            entries: &[("l", &[0])],
            sinks: &["out"],
            stores: &[kept("L", "string")],
        },
    );
}

#[test]
fn a_filtered_table_joins_through_the_filter() {
    let kind = JoinKind::Left;
    let filter = Op::TableFilter {
        function: Function::Udf(1),
        not: false,
        store: None,
        key: serde("string"),
        old: true,
    };
    let filtered = View::Filter {
        of: Box::new(store(0)),
        function: Function::Udf(1),
        not: false,
    };
    let count = Op::Count {
        store: StoreId(1),
        key: serde("string"),
        old: false,
    };
    let nodes = [
        (source(0, true), vec![1], Delivery::Batch),
        (filter, vec![3], Delivery::Batch),
        (count, vec![4], Delivery::Batch),
        (
            side(true, kind, store(1), 0, false),
            vec![5],
            Delivery::Batch,
        ),
        (
            side(false, kind, filtered, 0, false),
            vec![5],
            Delivery::Batch,
        ),
        (merge(Some(2), false), vec![6], Delivery::Batch),
        (sink(0), vec![], Delivery::Batch),
    ];
    replay(
        "join_tt__tt_filtered_join",
        &nodes,
        &["pair_text", "len_gt_3"].map(registered),
        &Wiring {
            entries: &[("l", &[0]), ("r", &[2])],
            sinks: &["out"],
            stores: &[
                kept("", "string"),
                kept("cnt", "int64"),
                kept("J", "string"),
            ],
        },
    );
}

#[test]
fn old_rows_are_taken_back_behind_a_join() {
    let kind = JoinKind::Left;
    let aggregate = Op::TableAggregate {
        store: StoreId(2),
        key: serde("string"),
        fold: stoatflow_plan::Fold::Aggregate {
            initializer: Function::Udf(2),
            function: Function::Udf(3),
            merger: None,
        },
        subtractor: Some(Function::Udf(4)),
        old: false,
    };
    let group_by = Op::TableGroupBy {
        function: Function::Udf(1),
        key: serde("string"),
    };
    let nodes = [
        (source(0, true), vec![2], Delivery::Batch),
        (source(1, true), vec![3], Delivery::Batch),
        (
            side(true, kind, store(1), 0, true),
            vec![4],
            Delivery::Batch,
        ),
        (
            side(false, kind, store(0), 0, true),
            vec![4],
            Delivery::Batch,
        ),
        (merge(None, true), vec![5], Delivery::Batch),
        (group_by, vec![6], Delivery::Batch),
        (aggregate, vec![7], Delivery::Batch),
        (sink(0), vec![], Delivery::Batch),
    ];
    replay(
        "join_tt__tt_join_regroup",
        &nodes,
        &[
            "pair_text",
            "by_first_char",
            "empty_text",
            "append_plus",
            "append_minus",
        ]
        .map(registered),
        &Wiring {
            entries: ENTRIES,
            sinks: &["out"],
            stores: &[
                kept("", "string"),
                kept("", "string"),
                kept("agg", "string"),
            ],
        },
    );
}

#[test]
fn a_join_of_a_join() {
    let (inner, outer) = (JoinKind::Inner, JoinKind::Outer);
    let nodes = [
        (source(0, true), vec![3], Delivery::Batch),
        (source(1, true), vec![4], Delivery::Batch),
        (source(2, true), vec![7], Delivery::Batch),
        (
            side(true, inner, store(1), 0, true),
            vec![5],
            Delivery::Batch,
        ),
        (
            side(false, inner, store(0), 0, true),
            vec![5],
            Delivery::Batch,
        ),
        (merge(Some(3), true), vec![6], Delivery::Batch),
        (
            side(true, outer, store(2), 0, false),
            vec![8],
            Delivery::Batch,
        ),
        (
            side(false, outer, store(3), 0, false),
            vec![8],
            Delivery::Batch,
        ),
        (merge(Some(4), false), vec![9], Delivery::Batch),
        (sink(0), vec![], Delivery::Batch),
    ];
    replay(
        "join_tt__tt_three_way",
        &nodes,
        &[registered("pair_text")],
        &Wiring {
            entries: &[("l", &[0]), ("r", &[1]), ("x", &[2])],
            sinks: &["out"],
            stores: &[
                kept("", "string"),
                kept("", "string"),
                kept("", "int64"),
                kept("J1", "string"),
                kept("J2", "string"),
            ],
        },
    );
}

#[test]
fn the_joiner_has_one_attach_per_batch_and_its_error_names_the_record() {
    let joiner = closure(|a| {
        if word(a[0]) == "bad" {
            return Err(raised());
        }
        Ok(a[0].clone())
    });
    let mut rig = Rig::new(two(JoinKind::Left, None), vec![joiner.clone()], false);
    rig.push(vec![record("a", "1", 1), record("b", "2", 2)])
        .unwrap();
    assert_eq!(rig.outputs(), ["0:a=1@1", "0:b=2@2"]);
    assert_eq!(joiner.scopes.load(std::sync::atomic::Ordering::Relaxed), 1);
    let failed = rig.push(vec![record("a", "1", 3), record("b", "bad", 4)]);
    let error = failed.unwrap_err().to_string();
    assert!(error.contains("offset 4"), "{error}");
}
