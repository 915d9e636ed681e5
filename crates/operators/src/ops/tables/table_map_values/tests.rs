//! `map_values` of tables as measured on Kafka Streams (vector `table_map_values`).

use crate::testing::recorded::{Wiring, kept, registered, replay};
use crate::testing::*;
use stoatflow_core::{SinkId, StoreId};
use stoatflow_plan::{Delivery, Function, Op};

fn map_values(function: u32, store: Option<u16>, old: bool) -> Op {
    Op::TableMapValues {
        function: Function::Udf(function),
        with_key: true,
        store: store.map(StoreId),
        key: serde("string"),
        old,
    }
}

#[test]
fn null_is_passed_on_without_a_call_and_a_null_result_deletes() {
    let source = Op::TableSource {
        store: StoreId(0),
        key: serde("string"),
        old: false,
    };
    let nodes = [
        (source, vec![1, 3], Delivery::Batch),
        (map_values(0, None, false), vec![2], Delivery::Batch),
        (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch),
        (map_values(1, Some(1), false), vec![4], Delivery::Batch),
        (Op::Sink { sink: SinkId(1) }, vec![], Delivery::Batch),
    ];
    replay(
        "tombstones__table_map_values",
        &nodes,
        &["prefix_key", "null_if_x"].map(registered),
        &Wiring {
            entries: &[("in", &[0])],
            sinks: &["plain", "nulled"],
            stores: &[kept("", "string"), kept("mv", "string")],
        },
    );
}

#[test]
fn old_values_are_mapped_too_or_read_from_the_store() {
    for store in [None, Some(2)] {
        let source = Op::TableSource {
            store: StoreId(0),
            key: serde("string"),
            old: true,
        };
        let nodes = vec![
            (source, vec![1], Delivery::Batch),
            (map_values(0, store, true), vec![2], Delivery::Batch),
            // A filter that rejects everything makes visible which old values it received.
            (
                Op::TableFilter {
                    function: Function::Udf(1),
                    not: false,
                    store: None,
                    key: serde("string"),
                    old: true,
                },
                vec![3],
                Delivery::Batch,
            ),
            (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch),
        ];
        let has_b = closure(|a| Ok(stoatflow_core::Datum::Bool(word(a[1]).contains('B'))));
        let mut rig = Rig::new(to_streams(nodes), vec![registered("upper"), has_b], false);
        rig.push(vec![
            record("k", "a", 1),
            record("k", "b", 2),
            record("k", "c", 3),
            record("k", "~", 4),
        ])
        .unwrap();
        assert_eq!(rig.outputs(), ["0:k=B@2", "0:k=~@3"], "store: {store:?}");
    }
}
