//! Changes move between groups.

use crate::testing::recorded::registered;
use crate::testing::*;
use stoatflow_core::{Datum, Record, SinkId, StoreId, Timestamp};
use stoatflow_plan::{Delivery, Function, Op};

/// A group-by with an aggregation that records its calls.
fn rig() -> Rig {
    let nodes = vec![
        (
            Op::TableGroupBy {
                function: Function::Udf(0),
                key: serde("string"),
            },
            vec![1],
            Delivery::Batch,
        ),
        (
            Op::TableAggregate {
                store: StoreId(0),
                key: serde("string"),
                fold: stoatflow_plan::Fold::Aggregate {
                    initializer: Function::Udf(1),
                    function: Function::Udf(2),
                    merger: None,
                },
                subtractor: Some(Function::Udf(3)),
                old: false,
            },
            vec![2],
            Delivery::Batch,
        ),
        (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch),
    ];
    let udfs = ["by_first_char", "empty_text", "append_plus", "append_minus"];
    let udfs = udfs.map(|name| registered(name) as _).to_vec();
    Rig::new(nodes, udfs, false)
}

fn change(old: &str, new: &str, latest: bool, at: i64) -> Record {
    let sides = record(old, new, at);
    Record {
        key: text("k"),
        value: Datum::change(sides.key, sides.value, latest),
        timestamp: Timestamp(at),
        ..Record::default()
    }
}

#[test]
fn the_same_group_gets_one_change_and_two_groups_one_each() {
    let mut rig = rig();
    rig.push(vec![
        change("~", "a1", true, 1),
        change("a1", "a2", true, 2),
        change("a2", "b1", true, 3),
        change("b1", "~", true, 4),
        change("~", "~", true, 5),
    ])
    .unwrap();
    assert_eq!(
        rig.outputs(),
        [
            "0:a=+a1@1",
            "0:a=+a1-a1+a2@2",
            "0:a=+a1-a1+a2-a2@3",
            "0:b=+b1@3",
            "0:b=+b1-b1@4"
        ]
    );
}

#[test]
fn outdated_versions_and_rows_without_a_group_are_left_out() {
    let mut rig = rig();
    rig.push(vec![
        change("~", "a1", false, 1),
        change("~", "", true, 2),
        record("k", "a3", 3),
    ])
    .unwrap();
    assert_eq!(rig.outputs(), ["0:a=+a3@3"]);
}
