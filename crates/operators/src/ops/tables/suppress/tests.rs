//! Held updates, as recorded from Kafka Streams; bounds, restarts and barriers.

use crate::testing::windows::{check, check_lanes, check_restarted};
use crate::testing::*;
use stoatflow_core::{ClockId, Datum, Record, StoreId};
use stoatflow_plan::{Op, Until, WhenFull};

#[test]
fn recorded() {
    for topology in [
        "suppress__suppress_tumbling",
        "suppress__suppress_hopping",
        "suppress__suppress_session",
        "suppress__suppress_windowed_time_limit",
        "suppress__suppress_count_time_limit",
        "suppress__suppress_time_limit",
        "suppress__suppress_max_records",
        "suppress__suppress_zero_limit",
    ] {
        check(&format!("{topology}__hand"));
        check(&format!("{topology}__seed1"));
    }
}

#[test]
fn suppressed_updates_survive_restarts() {
    for topology in [
        "suppress__suppress_tumbling",
        "suppress__suppress_session",
        "suppress__suppress_windowed_time_limit",
        "suppress__suppress_time_limit",
        "suppress__suppress_max_records",
    ] {
        check_restarted(&format!("{topology}__hand"));
        check_restarted(&format!("{topology}__seed1"));
    }
}

#[test]
fn with_several_lanes_windows_close_at_the_barrier() {
    for topology in [
        "suppress__suppress_tumbling",
        "suppress__suppress_hopping",
        "suppress__suppress_session",
    ] {
        check_lanes(&format!("{topology}__hand"));
        check_lanes(&format!("{topology}__seed1"));
    }
}

fn rig(until: Until, max_records: Option<u64>, max_bytes: Option<u64>, when_full: WhenFull) -> Rig {
    let op = Op::Suppress {
        store: StoreId(3),
        key: serde("string"),
        value: serde("string"),
        until,
        max_records,
        max_bytes,
        when_full,
        clock: ClockId(0),
        old: false,
    };
    Rig::changed(into_sink(op, 0), vec![], |plan| {
        let mut buffer = plan.stores[0].clone();
        (buffer.id, buffer.value) = (StoreId(3), serde("bytes"));
        buffer.kind = stoatflow_plan::StoreKind::TimeOrdered;
        plan.stores.push(buffer);
    })
    .unwrap()
}

fn limit(limit_ms: i64) -> Until {
    Until::TimeLimit { limit_ms }
}

fn update(key: &str, old: &str, new: &str, timestamp: i64) -> Record {
    let old = record(key, old, timestamp).value;
    let mut update = record(key, new, timestamp);
    update.value = Datum::change(old, update.value, true);
    update
}

#[test]
fn at_the_barrier_each_key_gives_its_last_update_once() {
    let mut rig = rig(Until::Barrier, None, None, WhenFull::EmitEarly);
    let first = vec![
        update("b", "~", "1", 9),
        update("a", "0", "1", 5),
        update("b", "1", "2", 3),
        update("c", "~", "1", 4),
        update("c", "1", "~", 5),
        update("d", "1", "2", 5),
        update("d", "2", "~", 6),
    ];
    rig.push(first).unwrap();
    assert!(rig.outputs().is_empty());
    rig.barrier();
    assert_eq!(
        rig.outputs(),
        ["0:b=2@3", "0:a=1@5", "0:d=~@6"],
        "in the order of first touch; c came and went unseen"
    );
    rig.push(vec![update("a", "1", "2", 7)]).unwrap();
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:a=2@7"]);
    assert_eq!(rig.stored(3, "a"), "-", "nothing waits over a barrier");
}

#[test]
fn updates_after_the_barrier_belong_to_their_epoch() {
    for until in [Until::Barrier, limit(100)] {
        let mut rig = rig(until, None, None, WhenFull::EmitEarly);
        rig.barrier();
        rig.epoch = stoatflow_core::Epoch(1);
        rig.push(vec![update("a", "~", "1", 1)]).unwrap();
        let saved = rig.stored(3, "a") != "-";
        assert_eq!(
            (rig.outputs().len(), saved),
            if until == Until::Barrier {
                (1, false)
            } else {
                (0, true)
            }
        );
    }
}

#[test]
fn the_store_hears_of_a_key_once_per_epoch_and_only_if_it_waits() {
    let mut rig = rig(limit(10), None, None, WhenFull::EmitEarly);
    rig.push(vec![update("a", "~", "1", 0), update("a", "1", "2", 1)])
        .unwrap();
    assert_eq!(rig.stored(3, "a"), "-");
    rig.push(vec![update("b", "~", "1", 10)]).unwrap();
    assert_eq!(rig.outputs(), ["0:a=2@1"]);
    rig.barrier();
    assert_eq!(rig.stored(3, "a"), "-", "it came and went within the epoch");
    assert_ne!(rig.stored(3, "b"), "-");
    rig.push(vec![update("c", "~", "1", 20)]).unwrap();
    assert_eq!(
        (rig.outputs(), rig.stored(3, "b")),
        (vec!["0:b=1@10".into()], "-".into())
    );
}

#[test]
fn a_full_buffer_stops_the_engine_and_says_what_to_raise() {
    let mut rig = rig(limit(100), Some(2), None, WhenFull::Shutdown);
    rig.push(vec![update("a", "~", "1", 0), update("b", "~", "1", 1)])
        .unwrap();
    rig.push(vec![update("a", "1", "2", 2)]).unwrap();
    let error = rig.push(vec![update("c", "~", "1", 3)]).unwrap_err();
    assert!(error.message().contains("max_records=2"), "{error}");
    assert!(error.next_step().contains("raise"), "{}", error.next_step());
    assert_eq!(error.coordinates().node.as_deref(), Some("suppress-0"));
}

#[test]
fn bytes_are_counted_as_kafka_streams_does() {
    // 8 time + 1 key + 20 context + 2 topic + values of 4 bytes: 35; replaced by an update with an old
    // value: 39.
    let mut early = rig(limit(100), None, Some(73), WhenFull::EmitEarly);
    early
        .push(vec![
            update("a", "~", "1234", 0),
            update("b", "~", "1234", 1),
        ])
        .unwrap();
    assert!(early.outputs().is_empty(), "70 bytes");
    early.push(vec![update("b", "1234", "5678", 2)]).unwrap();
    assert_eq!(early.outputs(), ["0:a=1234@0"], "74 bytes: the oldest goes");
    let mut full = rig(limit(100), None, Some(34), WhenFull::Shutdown);
    let error = full.push(vec![update("a", "~", "1234", 0)]).unwrap_err();
    assert!(
        error.message().contains("35 bytes, more than max_bytes=34"),
        "{error}"
    );
}

#[test]
fn a_key_without_a_window_is_refused() {
    let mut rig = rig(
        Until::WindowCloses { grace_ms: 0 },
        None,
        None,
        WhenFull::EmitEarly,
    );
    let error = rig.push(vec![update("a", "~", "1", 0)]).unwrap_err();
    assert_eq!(error.kind(), stoatflow_core::ErrorKind::Topology);
}
