//! Versioned tables as measured on Kafka Streams (area `versioned`).

use crate::testing::recorded::{Wiring, kept, registered, replay};
use crate::testing::*;
use stoatflow_core::{ClockId, SinkId, StoreId};
use stoatflow_plan::{Delivery, Fold, Function, JoinKind, Op, StoreKind, View};

type Nodes = Vec<(Op, Vec<u32>, Delivery)>;

fn source(store: u16, old: bool) -> Op {
    Op::TableSource {
        store: StoreId(store),
        key: serde("string"),
        old,
    }
}

fn store(store: u16) -> View {
    View::Store {
        store: StoreId(store),
        key: serde("string"),
    }
}

fn versioned<'a>(name: &'a str, history_ms: i64, value: &'a str) -> (&'a str, StoreKind, &'a str) {
    (name, StoreKind::Versioned { history_ms }, value)
}

fn sink(id: u16) -> (Op, Vec<u32>, Delivery) {
    (Op::Sink { sink: SinkId(id) }, vec![], Delivery::Batch)
}

#[test]
fn late_versions_go_on_and_too_old_ones_do_not() {
    for (topology, history_ms) in [
        ("versioned__versioned_table", 60),
        ("versioned__versioned_to_table", 50),
    ] {
        replay(
            topology,
            &[(source(0, false), vec![1], Delivery::Batch), sink(0)],
            &[],
            &Wiring {
                entries: &[("in", &[0])],
                sinks: &["out"],
                stores: &[versioned("V", history_ms, "string")],
            },
        );
    }
}

#[test]
fn filters_never_leave_tombstones_out_and_groups_leave_late_versions_out() {
    let filter = Op::TableFilter {
        function: Function::Udf(0),
        not: false,
        store: None,
        key: serde("string"),
        old: true,
    };
    let upper = Op::TableMapValues {
        function: Function::Udf(1),
        with_key: true,
        store: None,
        key: serde("string"),
        old: false,
    };
    let group_by = Op::TableGroupBy {
        function: Function::Udf(2),
        key: serde("string"),
    };
    let aggregate = Op::TableAggregate {
        store: StoreId(1),
        key: serde("string"),
        fold: Fold::Aggregate {
            initializer: Function::Udf(3),
            function: Function::Udf(4),
            merger: None,
        },
        subtractor: Some(Function::Udf(5)),
        old: false,
    };
    let nodes = [
        (source(0, true), vec![1, 3, 5], Delivery::Batch),
        (filter, vec![2], Delivery::Batch),
        sink(0),
        (upper, vec![4], Delivery::Batch),
        sink(1),
        (group_by, vec![6], Delivery::Batch),
        (aggregate, vec![7], Delivery::Batch),
        sink(2),
    ];
    replay(
        "versioned__versioned_table_filter",
        &nodes,
        &[
            "len_gt_3",
            "upper",
            "by_first_char",
            "empty_text",
            "append_plus",
            "append_minus",
        ]
        .map(registered),
        &Wiring {
            entries: &[("in", &[0])],
            sinks: &["long", "upper", "agg"],
            stores: &[versioned("V", 1000, "string"), kept("agg", "string")],
        },
    );
}

fn join(kind: JoinKind) -> Nodes {
    let side = |left: bool, other: u16| Op::TableJoin {
        left,
        kind,
        other: store(other),
        function: Function::Udf(0),
        with_key: false,
        key: serde("string"),
        apart: false,
        old: false,
    };
    let merge = Op::TableMerge {
        store: None,
        key: serde("string"),
        old: false,
    };
    vec![
        (source(0, true), vec![2], Delivery::Batch),
        (source(1, kind == JoinKind::Outer), vec![3], Delivery::Batch),
        (side(true, 1), vec![4], Delivery::Batch),
        (side(false, 0), vec![4], Delivery::Batch),
        (merge, vec![5], Delivery::Batch),
        sink(0),
    ]
}

#[test]
fn joins_of_tables_leave_late_versions_out() {
    let check = |topology, kind, stores: &[_]| {
        replay(
            topology,
            &join(kind),
            &[registered("pair_text")],
            &Wiring {
                entries: &[("l", &[0]), ("r", &[1])],
                sinks: &["out"],
                stores,
            },
        );
    };
    let left = versioned("L", 1000, "string");
    check(
        "versioned__versioned_table_join",
        JoinKind::Outer,
        &[left, versioned("R", 1000, "string")],
    );
    check(
        "versioned__versioned_one_side_join",
        JoinKind::Left,
        &[left, kept("R", "string")],
    );
}

#[test]
fn a_stream_meets_what_held_at_its_time() {
    for (topology, kind, history_ms, grace_ms) in [
        ("versioned_stream_table", JoinKind::Left, 100, None),
        (
            "versioned_stream_table_grace",
            JoinKind::Inner,
            100,
            Some(10),
        ),
        ("versioned_left_join_grace", JoinKind::Left, 200, Some(5)),
    ] {
        let join = Op::StreamTableJoin {
            kind,
            table: store(0),
            function: Function::Udf(0),
            with_key: false,
            grace_ms,
            buffer: grace_ms.map(|_| StoreId(1)),
            clock: grace_ms.map(|_| ClockId(0)),
            key: serde("string"),
            value: serde("string"),
        };
        replay(
            &format!("versioned__{topology}"),
            &[
                (source(0, false), vec![], Delivery::Batch),
                (join, vec![2], Delivery::Batch),
                sink(0),
            ],
            &[registered("pair_text")],
            &Wiring {
                entries: &[("s", &[1]), ("t", &[0])],
                sinks: &["out"],
                stores: &[
                    versioned("V", history_ms, "string"),
                    ("", StoreKind::TimeOrdered, "bytes"),
                ],
            },
        );
    }
}

#[test]
fn aggregations_may_keep_versions_of_their_results() {
    let count = Op::Count {
        store: StoreId(0),
        key: serde("string"),
        old: false,
    };
    let reduce = Op::Reduce {
        store: StoreId(1),
        key: serde("string"),
        function: Function::Udf(0),
        old: false,
    };
    let nodes = [
        (count, vec![1], Delivery::Batch),
        sink(0),
        (reduce, vec![3], Delivery::Batch),
        sink(1),
    ];
    replay(
        "versioned__versioned_aggregate",
        &nodes,
        &[registered("concat_values")],
        &Wiring {
            entries: &[("in", &[0, 2])],
            sinks: &["c", "r"],
            stores: &[
                versioned("C", 1000, "int64"),
                versioned("R", 1000, "string"),
            ],
        },
    );
}
