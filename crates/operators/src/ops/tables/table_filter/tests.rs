//! Filters of tables as measured on Kafka Streams (area `tombstones`).

use crate::testing::recorded::{Wiring, kept, registered, replay};
use crate::testing::*;
use stoatflow_core::{SinkId, StoreId};
use stoatflow_plan::{Delivery, Function, Op};

fn source(store: u16, old: bool) -> Op {
    Op::TableSource {
        store: StoreId(store),
        key: serde("string"),
        old,
    }
}

fn filter(function: u32, not: bool, store: Option<u16>, old: bool) -> Op {
    Op::TableFilter {
        function: Function::Udf(function),
        not,
        store: store.map(StoreId),
        key: serde("string"),
        old,
    }
}

fn sink(id: u16) -> (Op, Vec<u32>, Delivery) {
    (Op::Sink { sink: SinkId(id) }, vec![], Delivery::Batch)
}

#[test]
fn over_nothing_kept_every_value_that_does_not_fit_is_a_tombstone() {
    let nodes = [
        (source(0, false), vec![1, 3], Delivery::Batch),
        (filter(0, false, None, false), vec![2], Delivery::Batch),
        sink(0),
        (filter(0, true, None, false), vec![4], Delivery::Batch),
        sink(1),
    ];
    replay(
        "tombstones__table_filter",
        &nodes,
        &[registered("len_gt_3")],
        &Wiring {
            entries: &[("in", &[0])],
            sinks: &["long", "short"],
            stores: &[kept("", "string")],
        },
    );
}

#[test]
fn with_a_store_a_tombstone_ends_only_what_was() {
    let nodes = [
        (source(0, true), vec![1, 3], Delivery::Batch),
        (filter(0, false, Some(1), true), vec![2], Delivery::Batch),
        sink(0),
        (filter(0, true, Some(2), true), vec![4], Delivery::Batch),
        sink(1),
    ];
    replay(
        "tombstones__table_filter_materialized",
        &nodes,
        &[registered("len_gt_3")],
        &Wiring {
            entries: &[("in", &[0])],
            sinks: &["long", "short"],
            stores: &[
                kept("src", "string"),
                kept("long-store", "string"),
                kept("short-store", "string"),
            ],
        },
    );
}

#[test]
fn old_values_of_the_parent_do_as_well() {
    let upper = Op::TableMapValues {
        function: Function::Udf(1),
        with_key: true,
        store: None,
        key: serde("string"),
        old: false,
    };
    let nodes = [
        (source(0, true), vec![1], Delivery::Batch),
        (filter(0, false, None, true), vec![2], Delivery::Batch),
        (upper, vec![3], Delivery::Batch),
        sink(0),
    ];
    replay(
        "tombstones__table_filter_after_store",
        &nodes,
        &[registered("has_x"), registered("upper")],
        &Wiring {
            entries: &[("in", &[0])],
            sinks: &["out"],
            stores: &[kept("src", "string")],
        },
    );
}

#[test]
fn a_chain_of_filters_knows_through_all_of_them() {
    let upper = Op::TableMapValues {
        function: Function::Udf(1),
        with_key: true,
        store: None,
        key: serde("string"),
        old: true,
    };
    let nodes = [
        (source(0, true), vec![1], Delivery::Batch),
        (filter(0, false, None, true), vec![2], Delivery::Batch),
        (upper, vec![3], Delivery::Batch),
        (filter(2, true, Some(1), true), vec![4], Delivery::Batch),
        sink(0),
    ];
    replay(
        "tombstones__table_chain_of_filters",
        &nodes,
        &["len_gt_3", "upper", "starts_with_a"].map(registered),
        &Wiring {
            entries: &[("in", &[0])],
            sinks: &["out"],
            stores: &[kept("src", "string"), kept("last", "string")],
        },
    );
}

#[test]
fn behind_an_aggregation_it_knows_too() {
    let count = Op::Count {
        store: StoreId(0),
        key: serde("string"),
        old: true,
    };
    let nodes = [
        (count, vec![1, 3], Delivery::Batch),
        (filter(0, false, None, true), vec![2], Delivery::Batch),
        sink(0),
        (filter(1, false, Some(1), true), vec![4], Delivery::Batch),
        sink(1),
    ];
    replay(
        "aggregate__count_then_filter_table",
        &nodes,
        &["gt_2", "is_even"].map(registered),
        &Wiring {
            entries: &[("in", &[0])],
            sinks: &["big", "even"],
            stores: &[kept("c", "int64"), kept("even", "int64")],
        },
    );
}

#[test]
fn the_predicate_is_called_once_for_a_batch_and_never_with_null() {
    let long = registered("len_gt_3");
    let nodes = vec![
        (source(0, true), vec![1], Delivery::Batch),
        (filter(0, false, None, true), vec![2], Delivery::Batch),
        sink(0),
    ];
    let mut rig = Rig::new(to_streams(nodes), vec![long.clone()], false);
    rig.push(vec![
        record("a", "long", 1),
        record("a", "~", 2),
        record("a", "x", 3),
        record("b", "longer", 4),
    ])
    .unwrap();
    assert_eq!(rig.outputs(), ["0:a=long@1", "0:a=~@2", "0:b=longer@4"]);
    assert_eq!(long.batches.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[test]
fn a_cached_result_is_one_update_per_epoch() {
    let nodes = vec![
        (source(0, true), vec![1], Delivery::Batch),
        (filter(0, false, Some(2), true), vec![2], Delivery::Batch),
        sink(0),
    ];
    let mut rig = Rig::new(to_streams(nodes), vec![registered("len_gt_3")], true);
    rig.push(vec![record("a", "long", 1), record("a", "longer", 2)])
        .unwrap();
    assert!(rig.outputs().is_empty());
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:a=longer@2"]);
    rig.push(vec![record("a", "x", 3)]).unwrap();
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:a=~@3"]);
}
