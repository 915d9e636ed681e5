//! Where records are sent, and that the shortcut to a hash returns the same as serializing the key.

use crate::key_hash;
use crate::testing::*;
use stoatflow_core::{Datum, NodeId, Serde, SinkId, StageId, StoreId};
use stoatflow_plan::{Delivery, Op};

fn rig(key: &str) -> Rig {
    let exchange = Op::Exchange {
        keep_null: false,
        ahead: false,
        to: vec![],
        stage: StageId(4),
        key: serde(key),
    };
    Rig::new(vec![(exchange, vec![], Delivery::Batch)], vec![], false)
}

#[test]
fn records_leave_in_order_with_the_hash_of_their_key() {
    let mut rig = rig("string");
    rig.push(vec![
        record("b", "1", 1),
        record("~", "2", 2),
        record("a", "~", 3),
    ])
    .unwrap();
    let routed: Vec<_> = rig
        .effects
        .routed
        .iter()
        .map(|r| {
            (
                r.via,
                r.stage,
                r.hash,
                word(&r.record.key),
                r.record.timestamp.0,
            )
        })
        .collect();
    let expected = [("b", 1), ("a", 3)].map(|(key, at)| {
        (
            NodeId(0),
            StageId(4),
            key_hash(key.as_bytes()),
            key.to_owned(),
            at,
        )
    });
    assert_eq!(routed, expected);
    assert_eq!(rig.dropped(), [(0, "null_key")]);
}

#[test]
fn the_hash_is_that_of_the_encoded_key() {
    let keys = [
        ("string", text("wörd")),
        ("bytes", Datum::Bytes("raw".into())),
        ("int64", Datum::Int(-5)),
        ("int32", Datum::Int(77)),
        ("double", Datum::Float(1.5)),
        ("json", json(r#"{"a":1}"#)),
        ("json", text("t")),
        ("json", Datum::Int(3)),
    ];
    for (name, key) in keys {
        let mut rig = rig(name);
        let encoded = Serde::builtin(name).unwrap().encode(&key).unwrap().unwrap();
        let mut one = record("k", "v", 1);
        one.key = key;
        rig.push(vec![one]).unwrap();
        assert_eq!(rig.effects.routed[0].hash, key_hash(&encoded), "{name}");
    }
}

#[test]
fn a_key_that_cannot_be_written_says_where() {
    let error = rig("int64").push(vec![record("text", "v", 8)]).unwrap_err();
    assert_eq!(error.kind(), stoatflow_core::ErrorKind::Serde);
    assert_eq!(
        (
            error.coordinates().node.as_deref(),
            error.coordinates().offset.map(|o| o.0)
        ),
        (Some("exchange-0"), Some(8))
    );
}

#[test]
fn kept_nulls_go_by_their_partition() {
    let exchange = Op::Exchange {
        keep_null: true,
        ahead: false,
        to: vec![],
        stage: StageId(4),
        key: serde("string"),
    };
    let mut rig = Rig::new(vec![(exchange, vec![], Delivery::Batch)], vec![], false);
    let mut elsewhere = record("~", "3", 3);
    elsewhere.origin.partition = stoatflow_core::Partition(4);
    rig.push(vec![record("~", "1", 1), record("~", "2", 2), elsewhere])
        .unwrap();
    let hashes: Vec<u64> = rig.effects.routed.iter().map(|r| r.hash).collect();
    assert!(
        hashes[0] == hashes[1] && hashes[1] != hashes[2],
        "{hashes:?}"
    );
    assert!(rig.dropped().is_empty());
}

#[test]
fn all_windows_of_a_key_go_to_one_lane() {
    use stoatflow_plan::SerdeSpec;
    let time = SerdeSpec::TimeWindowed {
        time_windowed: Box::new(serde("string")),
        size_ms: 10,
    };
    let session = SerdeSpec::SessionWindowed {
        session_windowed: Box::new(serde("string")),
    };
    for key in [time, session] {
        let exchange = Op::Exchange {
            keep_null: false,
            ahead: false,
            to: vec![],
            stage: StageId(4),
            key,
        };
        let mut rig = Rig::new(vec![(exchange, vec![], Delivery::Batch)], vec![], false);
        let windows = [(0, 10), (10, 20)].map(|(start, end)| {
            let mut windowed = record("a", "1", start);
            windowed.key = Datum::windowed(windowed.key, start, end);
            windowed
        });
        rig.push(windows.to_vec()).unwrap();
        let hashes: Vec<u64> = rig.effects.routed.iter().map(|r| r.hash).collect();
        assert_eq!(hashes, [key_hash(b"a"); 2]);
    }
}

/// Values that an exchange sends to `to`; `besides`: where another node sends to.
fn sent(keep_null: bool, cached: bool, to: Vec<Op>, besides: Vec<u32>) -> Vec<Datum> {
    let targets = (2..).take(to.len()).map(NodeId).collect();
    let exchange = Op::Exchange {
        keep_null,
        ahead: false,
        to: targets,
        stage: StageId(0),
        key: serde("string"),
    };
    let mut nodes = vec![
        (exchange, vec![], Delivery::Batch),
        (Op::Merge, besides, Delivery::Batch),
    ];
    nodes.extend(to.into_iter().map(|op| (op, vec![], Delivery::Batch)));
    let mut rig = Rig::new(nodes, vec![], cached);
    rig.push(vec![
        record("a", "1", 1),
        record("b", "2", 2),
        record("a", "3", 3),
    ])
    .unwrap();
    rig.sweep(|chain, context| {
        chain.on_idle(context);
        Ok(())
    });
    let values = rig.effects.routed.iter().map(|r| r.record.value.clone());
    values.collect()
}

fn count(store: u16) -> Op {
    Op::Count {
        old: false,
        store: StoreId(store),
        key: serde("string"),
    }
}

#[test]
fn one_record_stands_for_many_where_all_are_counted_unseen() {
    let (counted, each) = (
        [Datum::Int(1), Datum::Int(2)],
        [text("1"), text("2"), text("3")],
    );
    assert_eq!(sent(false, true, vec![count(1)], vec![]), counted);
    assert_eq!(sent(false, true, vec![count(1), count(2)], vec![]), counted);
    assert_eq!(
        sent(false, false, vec![count(1)], vec![]),
        each,
        "each step is seen"
    );
    assert_eq!(
        sent(true, true, vec![count(1)], vec![]),
        each,
        "null keys go elsewhere"
    );
    assert_eq!(
        sent(false, true, vec![count(1), Op::ToStream], vec![]),
        each,
        "others see the values"
    );
    assert_eq!(
        sent(false, true, vec![count(1)], vec![2]),
        each,
        "the count has records from elsewhere"
    );
}

#[test]
fn a_count_behind_an_exchange_takes_what_it_has_counted() {
    let exchange = Op::Exchange {
        keep_null: false,
        ahead: false,
        to: vec![NodeId(1)],
        stage: StageId(0),
        key: serde("string"),
    };
    let nodes = vec![
        (exchange, vec![], Delivery::Batch),
        (count(1), vec![2], Delivery::Batch),
        (Op::Sink { sink: SinkId(1) }, vec![], Delivery::Batch),
    ];
    let mut rig = Rig::new(nodes, vec![], true);
    for at in [1, 5] {
        rig.push(vec![
            record("a", "x", at),
            record("b", "y", 3),
            record("a", "~", 9),
            record("a", "z", 2),
        ])
        .unwrap();
    }
    assert_eq!(
        rig.effects.routed.len(),
        2,
        "null values go by, the others wait"
    );
    rig.barrier();
    let routed = std::mem::take(&mut rig.effects.routed);
    assert_eq!(routed.len(), 4);
    rig.push_at(1, routed.into_iter().map(|r| r.record).collect())
        .unwrap();
    rig.barrier();
    assert_eq!(rig.outputs(), ["1:b=2@3", "1:a=4@5"]);
    assert_eq!(rig.dropped(), [(1, "null_value"), (1, "null_value")]);
}
