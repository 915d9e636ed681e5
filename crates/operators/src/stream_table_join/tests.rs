//! Joins of a stream with a table as measured on Kafka Streams (area `join_st`).

use crate::testing::recorded::{Wiring, kept, registered, replay};
use crate::testing::*;
use stoatflow_core::{SinkId, StoreId};
use stoatflow_plan::{Fork, Function, JoinKind, Op, View};

fn source(store: u16) -> Op {
    Op::TableSource {
        store: StoreId(store),
        key: serde("string"),
        old: false,
    }
}

fn store(store: u16) -> View {
    View::Store {
        store: StoreId(store),
        key: serde("string"),
    }
}

fn join(kind: JoinKind, table: View, with_key: bool) -> Op {
    Op::StreamTableJoin {
        kind,
        table,
        function: Function::Udf(0),
        with_key,
        grace_ms: None,
        buffer: None,
        clock: None,
        key: serde("string"),
        value: serde("string"),
    }
}

fn sink() -> (Op, Vec<u32>, Fork) {
    (Op::Sink { sink: SinkId(0) }, vec![], Fork::Batch)
}

fn check(topology: &str, kind: JoinKind, joiner: &str, with_key: bool, name: &str) {
    let nodes = [
        (source(0), vec![], Fork::Batch),
        (join(kind, store(0), with_key), vec![2], Fork::Batch),
        sink(),
    ];
    replay(
        topology,
        &nodes,
        &[registered(joiner)],
        &Wiring {
            entries: &[("s", &[1]), ("t", &[0])],
            sinks: &["out"],
            stores: &[kept(name, "string")],
        },
    );
}

#[test]
fn only_the_stream_gives_rows() {
    let (inner, left) = (JoinKind::Inner, JoinKind::Left);
    check("join_st__st_inner", inner, "pair_text", false, "tab");
    check("join_st__st_left", left, "key_pair_text", true, "");
    check(
        "join_st__st_joiner_null",
        inner,
        "null_if_right_x",
        false,
        "",
    );
}

#[test]
fn the_table_is_read_through_what_stands_between() {
    let view = View::MapValues {
        of: Box::new(View::Filter {
            of: Box::new(store(0)),
            function: Function::Udf(1),
            not: false,
        }),
        function: Function::Udf(2),
        with_key: true,
    };
    let nodes = [
        (source(0), vec![], Fork::Batch),
        (join(JoinKind::Left, view, false), vec![2], Fork::Batch),
        sink(),
    ];
    replay(
        "join_st__st_filtered_table",
        &nodes,
        &["pair_text", "len_gt_3", "upper"].map(registered),
        &Wiring {
            entries: &[("s", &[1]), ("t", &[0])],
            sinks: &["out"],
            stores: &[kept("", "string")],
        },
    );
}

#[test]
fn two_tables_in_turn() {
    let nodes = [
        (source(0), vec![], Fork::Batch),
        (source(1), vec![], Fork::Batch),
        (join(JoinKind::Left, store(0), false), vec![3], Fork::Batch),
        (join(JoinKind::Inner, store(1), false), vec![4], Fork::Batch),
        sink(),
    ];
    replay(
        "join_st__st_two_tables",
        &nodes,
        &[registered("pair_text")],
        &Wiring {
            entries: &[("s", &[2]), ("t1", &[0]), ("t2", &[1])],
            sinks: &["out"],
            stores: &[kept("", "string"), kept("", "string")],
        },
    );
}

#[test]
fn what_cannot_be_joined_is_counted() {
    let nodes = vec![
        (join(JoinKind::Inner, store(0), false), vec![1], Fork::Batch),
        sink(),
    ];
    let mut rig = Rig::new(nodes, vec![registered("pair_text")], false);
    rig.push(vec![record("~", "1", 1), record("a", "~", 2)])
        .unwrap();
    assert_eq!(rig.dropped(), [(0, "null_key"), (0, "null_value")]);
}
