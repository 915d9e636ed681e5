//! A table whose rows live for 160 ms, so that times are rounded to 10 ms.

use crate::testing::{Rig, plan, record, serde};
use crate::{LaneClocks, LaneStore, RunCoordinator};
use std::sync::Arc;
use stoatflow_core::{ClockId, Datum, Record, SinkId, StoreId, Task, Timestamp};
use stoatflow_plan::{Delivery, Expiry, ExpiryClock, Op, StoreKind, Ttl};
use stoatflow_state::{KeyRange, Stored, split_timer};

const FORWARDED: Expiry = Expiry {
    ttl: Ttl::Fixed(160),
    clock: ExpiryClock::Event,
    forward: true,
};

fn fresh(expiry: Expiry, eager: bool) -> Rig {
    let table = Op::TableSource {
        store: StoreId(0),
        key: serde("string"),
        old: false,
    };
    let expire = Op::Expire {
        table: StoreId(0),
        timers: StoreId(1),
        expiry,
        old: false,
        of_processors: false,
        clock: ClockId(0),
        time: None,
    };
    let mut shape = plan(vec![
        (table, vec![1], Delivery::Batch),
        (expire, vec![2], Delivery::Batch),
        (Op::ToStream, vec![3], Delivery::Batch),
        (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch),
    ]);
    shape.stores[1].kind = StoreKind::Timers;
    shape.stores[1].value = serde("bytes");
    let mut rig = Rig::of(&shape, vec![], false).expect("a rig");
    if !eager {
        rig.clocks = LaneClocks::new(4, false);
    }
    rig
}

fn rig(expiry: Expiry, eager: bool) -> Rig {
    let mut rig = fresh(expiry, eager);
    rig.open();
    rig
}

/// Ends the epoch at this stream time; returns the outputs.
fn end_at(rig: &mut Rig, time: i64) -> Vec<String> {
    rig.clocks.see(ClockId(0), Task(0), time);
    rig.punctuate();
    rig.advance();
    let outputs = rig.outputs();
    rig.barrier();
    outputs
}

fn deleted(key: &str, time: i64) -> Record {
    Record {
        value: Datum::Null,
        ..record(key, "", time)
    }
}

/// Pending timers: key and time.
fn timers(rig: &Rig) -> Vec<String> {
    let rows = rig.stores[1]
        .store
        .scan(rig.epoch, &KeyRange::default(), 100)
        .unwrap();
    let shown = rows.iter().map(|(row, _)| {
        let timer = split_timer(row).expect("a timer");
        let key = String::from_utf8_lossy(timer.key).into_owned();
        format!("{key}@{}", timer.at)
    });
    shown.collect()
}

#[test]
fn a_row_expires_a_ttl_after_its_time_and_not_before() {
    for eager in [true, false] {
        let mut rig = rig(FORWARDED, eager);
        rig.push(vec![record("a", "x", 3), record("b", "y", 8)])
            .unwrap();
        assert_eq!(end_at(&mut rig, 8), ["0:a=x@3", "0:b=y@8"]);
        assert_eq!(end_at(&mut rig, 162), [""; 0]);
        assert_eq!(rig.stored(0, "a"), "x@3");
        assert_eq!(end_at(&mut rig, 163), ["0:a=~@163"]);
        assert_eq!(
            (rig.stored(0, "a"), rig.stored(0, "b")),
            ("-".into(), "y@8".into())
        );
        assert_eq!(end_at(&mut rig, 1_000), ["0:b=~@168"]);
        assert_eq!(timers(&rig), [""; 0]);
    }
}

#[test]
fn expiry_is_not_forwarded_unless_requested() {
    let silent = Expiry {
        forward: false,
        ..FORWARDED
    };
    let mut rig = rig(silent, true);
    rig.push(vec![record("a", "x", 0)]).unwrap();
    assert_eq!(end_at(&mut rig, 0), ["0:a=x@0"]);
    assert_eq!(end_at(&mut rig, 160), [""; 0]);
    assert_eq!(rig.stored(0, "a"), "-");
}

#[test]
fn an_update_lives_on_and_a_hot_key_has_few_timers() {
    let mut rig = rig(FORWARDED, true);
    for time in 0..=500 {
        rig.push(vec![record("a", "x", time)]).unwrap();
        let told = end_at(&mut rig, time);
        assert_eq!(told, [format!("0:a=x@{time}")]);
        assert!(timers(&rig).len() <= 18, "{:?}", timers(&rig));
    }
    assert_eq!(end_at(&mut rig, 659), [""; 0]);
    assert_eq!(end_at(&mut rig, 660), ["0:a=~@660"]);
    assert_eq!(timers(&rig), [""; 0]);
}

#[test]
fn a_deleted_row_that_comes_again_lives_its_own_time() {
    let mut rig = rig(FORWARDED, true);
    rig.push(vec![record("a", "x", 0)]).unwrap();
    end_at(&mut rig, 0);
    rig.push(vec![deleted("a", 50)]).unwrap();
    end_at(&mut rig, 50);
    rig.push(vec![record("a", "z", 100)]).unwrap();
    end_at(&mut rig, 100);
    assert_eq!(end_at(&mut rig, 259), [""; 0]);
    assert_eq!(end_at(&mut rig, 260), ["0:a=~@260"]);
}

#[test]
fn a_row_that_comes_too_late_expires_at_once() {
    for eager in [true, false] {
        let mut rig = rig(FORWARDED, eager);
        rig.push(vec![record("a", "x", 0)]).unwrap();
        end_at(&mut rig, 1_000);
        for _ in 0..2 {
            // The same timestamp again: the timer has already fired and is registered again.
            rig.push(vec![record("a", "x", 0)]).unwrap();
            assert_eq!(end_at(&mut rig, 1_000)[0], "0:a=x@0");
            end_at(&mut rig, 1_000);
            assert_eq!(rig.stored(0, "a"), "-");
        }
    }
}

#[test]
fn by_the_machines_clock() {
    let expiry = Expiry {
        clock: ExpiryClock::Processing,
        ..FORWARDED
    };
    let mut rig = rig(expiry, false);
    rig.clocks.wall = Timestamp(10);
    rig.push(vec![record("a", "x", 0)]).unwrap();
    assert_eq!(end_at(&mut rig, 10_000), ["0:a=x@0"]);
    rig.clocks.wall = Timestamp(159);
    assert_eq!(end_at(&mut rig, 10_000), [""; 0]);
    assert_eq!(rig.run.next_timer(), 160);
    rig.clocks.wall = Timestamp(160);
    assert_eq!(end_at(&mut rig, 10_000), ["0:a=~@160"]);
}

#[test]
fn rows_of_before_the_ttl_get_timers_at_the_start() {
    let mut rig = rig(FORWARDED, false);
    rig.push(vec![record("a", "x", 0), record("b", "y", 100)])
        .unwrap();
    end_at(&mut rig, 100);
    let epoch = rig.epoch;
    let LaneStore { store, dirty } = &mut rig.stores[1];
    for (row, _) in store.scan(epoch, &KeyRange::default(), 100).unwrap() {
        store.put(epoch, dirty, &row, None).unwrap();
    }
    assert_eq!(timers(&rig), [""; 0]);
    let next = fresh(FORWARDED, false);
    rig.run = Arc::new(RunCoordinator::new("app"));
    rig.reopen(next);
    assert_eq!(end_at(&mut rig, 100), [""; 0]);
    assert_eq!(timers(&rig), ["a@160", "b@260"]);
    assert_eq!(end_at(&mut rig, 259), ["0:a=~@160"]);
    assert_eq!(end_at(&mut rig, 260), ["0:b=~@260"]);
}

/// Timers left by a run long ago don't prove that all rows have one.
#[test]
fn rows_of_a_time_without_the_ttl_get_timers_too() {
    let mut rig = rig(FORWARDED, false);
    rig.push(vec![record("a", "x", 0)]).unwrap();
    end_at(&mut rig, 0);
    let epoch = rig.epoch;
    let LaneStore { store, dirty } = &mut rig.stores[0];
    let row = |key: &str| {
        Some(Stored {
            value: Datum::text(key),
            timestamp: Timestamp(50),
        })
    };
    for number in 0..5_000 {
        let key = format!("k{number}");
        store
            .put(epoch, dirty, &key.clone().into(), row(&key))
            .unwrap();
    }
    rig.run = Arc::new(RunCoordinator::new("app"));
    rig.reopen(fresh(FORWARDED, false));
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.push(rig.chain.next_punctuation().is_some());
        end_at(&mut rig, 60);
    }
    assert_eq!(asked, [true, true, true, false], "three pages");
    assert_eq!(end_at(&mut rig, 209), ["0:a=~@160"]);
    assert_eq!(end_at(&mut rig, 210).len(), 5_000);
    assert_eq!(timers(&rig), [""; 0]);
}

#[test]
fn a_ttl_that_changes_holds_from_the_next_look() {
    let mut rig = rig(FORWARDED, false);
    rig.push(vec![record("a", "x", 0)]).unwrap();
    end_at(&mut rig, 0);
    let longer = Expiry {
        ttl: Ttl::Fixed(1_600),
        ..FORWARDED
    };
    rig.run = Arc::new(RunCoordinator::new("app"));
    rig.reopen(fresh(longer, false));
    assert_eq!(end_at(&mut rig, 1_599), [""; 0]);
    assert_eq!(end_at(&mut rig, 1_600), ["0:a=~@1600"]);
}

#[test]
fn a_shorter_ttl_holds_for_all_rows() {
    let longer = Expiry {
        ttl: Ttl::Fixed(1_600),
        ..FORWARDED
    };
    let mut rig = rig(longer, false);
    rig.push(vec![record("old", "x", 0)]).unwrap();
    end_at(&mut rig, 0);
    rig.run = Arc::new(RunCoordinator::new("app"));
    rig.reopen(fresh(FORWARDED, false));
    rig.push(vec![record("new", "x", 100)]).unwrap();
    assert_eq!(end_at(&mut rig, 159), ["0:new=x@100"]);
    assert_eq!(end_at(&mut rig, 160), ["0:old=~@160"]);
    assert_eq!(end_at(&mut rig, 1_600), ["0:new=~@260"]);
    assert_eq!(timers(&rig), [""; 0]);
}
