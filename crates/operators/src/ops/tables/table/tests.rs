//! Source tables as measured on Kafka Streams (vector `table_same_value`).

mod versions;

use crate::testing::*;
use stoatflow_core::StoreId;
use stoatflow_plan::Op;

fn rig(cached: bool) -> Rig {
    Rig::new(
        into_sink(
            Op::TableSource {
                old: false,
                store: StoreId(0),
                key: serde("string"),
            },
            0,
        ),
        vec![],
        cached,
    )
}

fn measured() -> Vec<stoatflow_core::Record> {
    let values = [("p", 10), ("p", 12), ("p", 5), ("q", 6), ("~", 7), ("~", 8)];
    values
        .iter()
        .map(|(value, at)| record("a", value, *at))
        .collect()
}

#[test]
fn every_update_goes_on_out_of_order_ones_and_tombstones_too() {
    let mut rig = rig(false);
    rig.push(measured()[..4].to_vec()).unwrap();
    assert_eq!(
        rig.stored(0, "a"),
        "q@6",
        "a later record overwrites, whatever its time"
    );
    rig.push(measured()[4..].to_vec()).unwrap();
    assert_eq!(
        rig.outputs(),
        [
            "0:a=p@10", "0:a=p@12", "0:a=p@5", "0:a=q@6", "0:a=~@7", "0:a=~@8"
        ]
    );
    assert_eq!(rig.stored(0, "a"), "-");
}

#[test]
fn a_null_key_is_dropped_and_counted() {
    let mut rig = rig(false);
    rig.push(vec![record("~", "x", 1), record("k", "y", 2)])
        .unwrap();
    assert_eq!(rig.outputs(), ["0:k=y@2"]);
    assert_eq!(rig.dropped(), [(0, "null_key")]);
}

#[test]
fn the_cache_hides_what_was_born_and_deleted_within_an_epoch() {
    let mut rig = rig(true);
    rig.push(measured()).unwrap();
    rig.push(vec![record("b", "1", 1)]).unwrap();
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:b=1@1"]);
    rig.push(vec![record("b", "2", 9), record("b", "~", 3)])
        .unwrap();
    rig.barrier();
    assert_eq!(
        rig.outputs(),
        ["0:b=~@3"],
        "known below: its end must be told"
    );
}
