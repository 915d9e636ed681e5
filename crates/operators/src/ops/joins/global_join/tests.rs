//! Joins with global tables as measured on Kafka Streams (area `join_global`).

use crate::testing::recorded::{Wiring, kept, registered, replay};
use crate::testing::*;
use stoatflow_core::{SinkId, StoreId};
use stoatflow_plan::{Delivery, Function, JoinKind, Op, View};

fn source() -> Op {
    Op::TableSource {
        store: StoreId(0),
        key: serde("string"),
        old: false,
    }
}

fn join(kind: JoinKind, key: u32, joiner: u32, with_key: bool) -> Op {
    Op::GlobalJoin {
        kind,
        table: View::Store {
            store: StoreId(0),
            key: serde("string"),
        },
        key_function: Function::Udf(key),
        function: Function::Udf(joiner),
        with_key,
    }
}

fn sink(id: u16) -> (Op, Vec<u32>, Delivery) {
    (Op::Sink { sink: SinkId(id) }, vec![], Delivery::Batch)
}

#[test]
fn the_key_comes_from_a_function() {
    for (topology, kind) in [
        ("join_global__global_inner", JoinKind::Inner),
        ("join_global__global_left", JoinKind::Left),
    ] {
        let nodes = [
            (source(), vec![], Delivery::Batch),
            (join(kind, 0, 1, false), vec![2], Delivery::Batch),
            sink(0),
        ];
        replay(
            topology,
            &nodes,
            &["user_of", "enrich"].map(registered),
            &Wiring {
                entries: &[("s", &[1]), ("g", &[0])],
                sinks: &["out"],
                stores: &[kept("G", "string")],
            },
        );
    }
}

#[test]
fn the_joiner_sees_the_key_of_the_stream() {
    let nodes = [
        (source(), vec![], Delivery::Batch),
        (join(JoinKind::Inner, 0, 2, true), vec![2], Delivery::Batch),
        sink(0),
        (join(JoinKind::Left, 1, 2, true), vec![4], Delivery::Batch),
        sink(1),
    ];
    replay(
        "join_global__global_key_joiner",
        &nodes,
        &["first_char", "value_as_key", "key_pair_text"].map(registered),
        &Wiring {
            entries: &[("s", &[1, 3]), ("g", &[0])],
            sinks: &["out", "left"],
            stores: &[kept("", "string")],
        },
    );
}
