//! Aggregations of grouped tables as measured on Kafka Streams (vectors `table_group_*`).

use crate::testing::recorded::{Wiring, kept, registered, replay};
use crate::testing::*;
use stoatflow_core::{SinkId, StoreId};
use stoatflow_plan::{Delivery, Fold, Function, Op};

type Nodes = Vec<(Op, Vec<u32>, Delivery)>;

fn source(store: u16) -> Op {
    Op::TableSource {
        store: StoreId(store),
        key: serde("string"),
        old: true,
    }
}

fn group_by(function: u32) -> Op {
    Op::TableGroupBy {
        function: Function::Udf(function),
        key: serde("string"),
    }
}

fn aggregate(store: u16, fold: Fold, subtractor: Option<u32>) -> Op {
    Op::TableAggregate {
        store: StoreId(store),
        key: serde("string"),
        fold,
        subtractor: subtractor.map(Function::Udf),
        old: false,
    }
}

/// Operators in sequence, followed by a sink.
fn chain(ops: impl IntoIterator<Item = Op>) -> Nodes {
    let mut nodes: Nodes = (1..)
        .zip(ops)
        .map(|(next, op)| (op, vec![next], Delivery::Batch))
        .collect();
    nodes.push((Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch));
    nodes
}

#[test]
fn a_count_follows_its_members() {
    replay(
        "aggregate__table_group_count",
        &chain([source(0), group_by(0), aggregate(1, Fold::Count, None)]),
        &[registered("by_first_char")],
        &Wiring {
            entries: &[("in", &[0])],
            sinks: &["out"],
            stores: &[kept("src", "string"), kept("counts", "int64")],
        },
    );
}

#[test]
fn a_reduce_takes_away_before_it_adds() {
    let add = Fold::Reduce {
        function: Function::Udf(1),
    };
    replay(
        "aggregate__table_group_reduce",
        &chain([source(0), group_by(0), aggregate(1, add, Some(2))]),
        &["parity_group", "add_longs", "sub_longs"].map(registered),
        &Wiring {
            entries: &[("in", &[0])],
            sinks: &["out"],
            stores: &[kept("src", "int64"), kept("red", "int64")],
        },
    );
}

#[test]
fn an_aggregate_shows_the_order_of_its_calls() {
    let append = Fold::Aggregate {
        initializer: Function::Udf(1),
        function: Function::Udf(2),
        merger: None,
    };
    replay(
        "aggregate__table_group_aggregate",
        &chain([source(0), group_by(0), aggregate(1, append, Some(3))]),
        &["by_first_char", "empty_text", "append_plus", "append_minus"].map(registered),
        &Wiring {
            entries: &[("in", &[0])],
            sinks: &["out"],
            stores: &[kept("src", "string"), kept("agg", "string")],
        },
    );
}

#[test]
fn a_filter_between_retracts_what_no_longer_fits() {
    let filter = Op::TableFilter {
        function: Function::Udf(0),
        not: false,
        store: None,
        key: serde("string"),
        old: true,
    };
    let add = Fold::Reduce {
        function: Function::Udf(2),
    };
    replay(
        "aggregate__table_group_unmaterialized_source",
        &chain([source(0), filter, group_by(1), aggregate(1, add, Some(3))]),
        &["gt_2", "parity_group", "add_longs", "sub_longs"].map(registered),
        &Wiring {
            entries: &[("in", &[0])],
            sinks: &["out"],
            stores: &[kept("", "int64"), kept("red", "int64")],
        },
    );
}

#[test]
fn a_count_of_counts_starts_from_zero_not_from_nothing() {
    let count = Op::Count {
        store: StoreId(0),
        key: serde("string"),
        old: true,
    };
    replay(
        "aggregate__count_of_counts",
        &chain([count, group_by(0), aggregate(1, Fold::Count, None)]),
        &[registered("parity_group")],
        &Wiring {
            entries: &[("in", &[0])],
            sinks: &["out"],
            stores: &[kept("c", "int64"), kept("cc", "int64")],
        },
    );
}

#[test]
fn with_the_cache_a_group_hears_one_change_per_key_and_epoch() {
    let nodes = chain([source(0), group_by(0), aggregate(1, Fold::Count, None)]);
    let mut nodes = nodes;
    nodes[3].0 = Op::Sink { sink: SinkId(1) };
    let mut rig = Rig::new(nodes, vec![registered("by_first_char")], true);
    rig.push(vec![record("k", "a1", 1), record("k", "b1", 2)])
        .unwrap();
    rig.barrier();
    assert_eq!(rig.outputs(), ["1:b=1@2"], "a never had it");
    rig.push(vec![
        record("k", "c1", 3),
        record("k", "b2", 4),
        record("k", "d1", 5),
    ])
    .unwrap();
    rig.barrier();
    assert_eq!(rig.outputs(), ["1:b=0@5", "1:d=1@5"]);
}
