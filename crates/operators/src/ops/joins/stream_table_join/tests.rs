//! Joins of a stream with a table as measured on Kafka Streams (area `join_st`).

use crate::testing::recorded::{Wiring, kept, registered, replay};
use crate::testing::*;
use stoatflow_core::{SinkId, StoreId};
use stoatflow_plan::{Delivery, Function, JoinKind, Op, View};

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

fn sink() -> (Op, Vec<u32>, Delivery) {
    (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch)
}

fn check(topology: &str, kind: JoinKind, joiner: &str, with_key: bool, name: &str) {
    let nodes = [
        (source(0), vec![], Delivery::Batch),
        (join(kind, store(0), with_key), vec![2], Delivery::Batch),
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
        (source(0), vec![], Delivery::Batch),
        (join(JoinKind::Left, view, false), vec![2], Delivery::Batch),
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
        (source(0), vec![], Delivery::Batch),
        (source(1), vec![], Delivery::Batch),
        (
            join(JoinKind::Left, store(0), false),
            vec![3],
            Delivery::Batch,
        ),
        (
            join(JoinKind::Inner, store(1), false),
            vec![4],
            Delivery::Batch,
        ),
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
fn unjoinable_records_are_counted() {
    let nodes = vec![
        (
            join(JoinKind::Inner, store(0), false),
            vec![1],
            Delivery::Batch,
        ),
        sink(),
    ];
    let mut rig = Rig::new(nodes, vec![registered("pair_text")], false);
    rig.push(vec![record("~", "1", 1), record("a", "~", 2)])
        .unwrap();
    assert_eq!(rig.dropped(), [(0, "null_key"), (0, "null_value")]);
}

/// A left join with a grace of 10 (entry 1) with a versioned table (entry 0).
fn patient() -> Rig {
    use stoatflow_plan::StoreKind;
    let join = Op::StreamTableJoin {
        kind: JoinKind::Left,
        table: store(0),
        function: Function::Udf(0),
        with_key: false,
        grace_ms: Some(10),
        buffer: Some(StoreId(1)),
        clock: Some(stoatflow_core::ClockId(0)),
        key: serde("string"),
        value: serde("string"),
    };
    let mut plan = plan(vec![
        (source(0), vec![], Delivery::Batch),
        (join, vec![2], Delivery::Batch),
        sink(),
    ]);
    plan.stores[0].kind = StoreKind::Versioned { history_ms: 100 };
    plan.stores[0].clock = Some(stoatflow_core::ClockId(1));
    plan.stores[1].kind = StoreKind::TimeOrdered;
    plan.stores[1].value = serde("bytes");
    Rig::of(&plan, vec![registered("pair_text")], false).unwrap()
}

#[test]
fn waiting_records_survive_a_restart_with_headers_and_order() {
    let mut rig = patient();
    let mut waits = [
        record("b", "1", 5),
        record("a", "2", 5),
        record("b", "3", 5),
    ];
    let header = stoatflow_core::Header {
        name: "trace".into(),
        value: None,
    };
    waits[0].headers = Some(vec![header].into());
    rig.push_at(1, waits.to_vec()).unwrap();
    assert!(rig.outputs().is_empty());
    rig.reopen(patient());
    rig.push_at(1, vec![record("b", "4", 5)]).unwrap();
    rig.push_at(0, vec![record("b", "late", 4)]).unwrap();
    rig.push_at(1, vec![record("c", "5", 15)]).unwrap();
    let headers: Vec<_> = rig
        .effects
        .outputs
        .iter()
        .map(|o| o.headers.clone())
        .collect();
    assert_eq!(headers, [None, waits[0].headers.clone(), None, None]);
    assert_eq!(
        rig.outputs(),
        [
            "0:a=2/null@5",
            "0:b=1/late@5",
            "0:b=3/late@5",
            "0:b=4/late@5"
        ]
    );
    // Emitted records wait no more.
    rig.reopen(patient());
    rig.push_at(1, vec![record("c", "6", 30)]).unwrap();
    assert_eq!(rig.outputs(), ["0:c=5/null@15"]);
}

#[test]
fn with_several_lanes_records_come_out_when_those_of_others_make_them_due() {
    let mut rig = patient();
    rig.clocks = crate::LaneClocks::new(rig.clocks.times().len(), false);
    rig.push_at(1, vec![record("b", "1", 5)]).unwrap();
    assert!(rig.outputs().is_empty());
    rig.clocks
        .see(stoatflow_core::ClockId(0), stoatflow_core::Task(0), 20);
    rig.advance();
    assert_eq!(rig.outputs(), ["0:b=1/null@5"]);
    rig.push_at(1, vec![record("b", "old", 1)]).unwrap();
    assert_eq!(rig.outputs(), ["0:b=old/null@1"], "too old to wait");
}
