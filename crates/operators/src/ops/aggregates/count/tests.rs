//! Counts as measured on Kafka Streams (vectors `count_by_key`), with and without record caching.

use crate::testing::*;
use std::sync::Arc;
use stoatflow_core::{Header, StoreId};
use stoatflow_plan::Op;

fn rig(cached: bool) -> Rig {
    Rig::new(
        into_sink(
            Op::Count {
                old: false,
                store: StoreId(1),
                key: serde("string"),
            },
            1,
        ),
        vec![],
        cached,
    )
}

fn measured() -> Vec<stoatflow_core::Record> {
    vec![
        record("a", "1", 10),
        record("a", "2", 20),
        record("b", "3", 5),
        record("a", "4", 15),
        record("a", "5", 0),
        record("~", "6", 30),
        record("a", "~", 40),
        record("a", "7", 20),
    ]
}

#[test]
fn counts_every_update_with_the_highest_time_and_skips_nulls() {
    let mut rig = rig(false);
    rig.push(measured()).unwrap();
    assert_eq!(
        rig.outputs(),
        [
            "1:a=1@10", "1:a=2@20", "1:b=1@5", "1:a=3@20", "1:a=4@20", "1:a=5@20"
        ]
    );
    assert_eq!(rig.dropped(), [(0, "null_key"), (0, "null_value")]);
    assert_eq!(
        (rig.stored(1, "a"), rig.stored(1, "b")),
        ("5@20".into(), "1@5".into())
    );
    rig.barrier();
    assert!(rig.outputs().is_empty());
}

#[test]
fn cached_counts_come_once_per_key_and_epoch_in_the_order_of_the_newest() {
    let mut rig = rig(true);
    let mut records = measured();
    records[7].headers = Some(Arc::from([Header {
        name: "h".into(),
        value: None,
    }]));
    let split = records.split_off(3);
    rig.push(records).unwrap();
    rig.push(split).unwrap();
    assert!(rig.effects.outputs.is_empty(), "held until the barrier");
    rig.barrier();
    let headers: Vec<_> = rig
        .effects
        .outputs
        .iter()
        .map(|o| (o.headers.is_some(), o.origin.offset.0))
        .collect();
    assert_eq!(
        headers,
        [(false, 5), (true, 20)],
        "headers and origin of the latest record"
    );
    assert_eq!(rig.outputs(), ["1:b=1@5", "1:a=5@20"]);
    rig.push(vec![record("b", "x", 6)]).unwrap();
    rig.barrier();
    assert_eq!(
        rig.outputs(),
        ["1:b=2@6"],
        "only what the new epoch touched"
    );
    rig.barrier();
    assert!(rig.outputs().is_empty());
}

#[test]
fn a_store_of_something_else_is_refused() {
    let mut rig = Rig::new(
        into_sink(
            Op::Count {
                old: false,
                store: StoreId(0),
                key: serde("string"),
            },
            1,
        ),
        vec![],
        false,
    );
    let alien = stoatflow_state::Stored {
        value: text("x"),
        timestamp: stoatflow_core::Timestamp(1),
    };
    let epoch = rig.epoch;
    let kept = &mut rig.stores[0];
    kept.store
        .put(epoch, &mut kept.dirty, &"k".into(), Some(alien))
        .unwrap();
    let error = rig.push(vec![record("k", "v", 2)]).unwrap_err();
    assert_eq!(error.kind(), stoatflow_core::ErrorKind::Incompatible);
    assert_eq!(error.coordinates().node.as_deref(), Some("count-0"));
}

#[test]
fn a_key_of_another_type_is_an_error_with_coordinates() {
    let mut odd = record("k", "v", 7);
    odd.key = stoatflow_core::Datum::Int(1);
    let error = rig(false).push(vec![odd]).unwrap_err();
    assert_eq!(error.kind(), stoatflow_core::ErrorKind::Serde);
    assert_eq!(error.coordinates().offset.map(|o| o.0), Some(7));
}
