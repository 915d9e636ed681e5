//! Calls that outlive their epoch: rows, restarts, other numbers of lanes.

use super::records;
use crate::testing::manual_async_udf::{ManualAsyncUdf, calls_op, rig, rig_of, rows};
use crate::testing::{Rig, raised, record, serde};
use crate::{Answer, KeyAssignment};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Datum, Handler};
use stoatflow_plan::{Form, Op, SerdeSpec};

#[test]
fn unfinished_calls_are_parked_at_the_barrier_until_their_result_is_emitted() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    rig.push(records(&[("a", "a1"), ("b", "b1")])).unwrap();
    manual.gives("b1", "B1");
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:b=B1@2"]);
    assert_eq!(rows(&rig), 1);
    rig.barrier();
    assert_eq!((rig.outputs().len(), rows(&rig)), (0, 1));
    manual.gives("a1", "A1");
    assert!(rig.run.has_answers(), "dispatch must hear of it");
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:a=A1@1"]);
    assert_eq!(rows(&rig), 0);
}

#[test]
fn a_lane_never_waits_for_room_that_only_anothers_turn_can_make() {
    // Four calls of a key are restored, although only two may be in flight.
    let mut one = rig(&ManualAsyncUdf::new(), 4, 0);
    one.push(records(&[("a", "1"), ("a", "2"), ("a", "3"), ("a", "4")]))
        .unwrap();
    one.barrier();
    let retry = Handler::Retry(Box::new(stoatflow_core::RetryHandler {
        times: 1,
        backoff_ms: 0,
        then: Handler::Continue,
    }));
    let manual = ManualAsyncUdf::new();
    let fresh = rig_of(&manual, calls_op(Form::MapValues, 1, 0), Some(retry)).unwrap();
    one.reopen(fresh);
    assert_eq!(manual.load(), 4);
    manual.finish("1", Err(raised()));
    // The first of them has failed, and its lane has not handled that yet: the others can't begin.
    assert_eq!(manual.load(), 0);
    let mut other = rig(&manual, 1, 0);
    other.push(records(&[("b", "5")])).unwrap();
    assert_eq!(manual.running().last().unwrap(), "5");
    one.barrier();
    // Decided: they have their room again, more than the bound allows.
    assert_eq!(manual.load(), 5);
    manual.finish("1", Err(raised()));
    one.barrier();
    assert_eq!((one.handled().len(), manual.load()), (1, 4));
    manual.finish("2", Err(raised()));
    drop(one);
    assert_eq!(manual.load(), 1, "the other lane's");
}

#[test]
fn outcomes_of_calls_are_counted() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    let counts = |manual: &ManualAsyncUdf| crate::AsyncUdf::in_flight(manual).counts();
    rig.push(records(&[("a", "a1"), ("b", "b1"), ("c", "c1")]))
        .unwrap();
    manual.gives("b1", "B1");
    let now = counts(&manual);
    assert_eq!((now.under_way, now.parked), (2, 0));
    rig.barrier();
    let now = counts(&manual);
    assert_eq!((now.under_way, now.parked), (2, 2));
    manual.gives("a1", "A1");
    let now = counts(&manual);
    assert_eq!(
        (now.under_way, now.parked),
        (1, 2),
        "its row is there until it is given"
    );
    rig.barrier();
    assert_eq!(counts(&manual).parked, 1);
    // The lane is gone, and another one takes over what is parked.
    let newer = restarted(&mut rig, ALONE);
    assert_eq!((counts(&manual).under_way, counts(&manual).parked), (0, 0));
    assert_eq!((counts(&newer).under_way, counts(&newer).parked), (1, 1));
    newer.gives("c1", "C1");
    rig.barrier();
    assert_eq!((counts(&newer).under_way, counts(&newer).parked), (0, 0));
}

#[test]
fn a_barrier_waits_if_that_can_help_and_once_per_epoch() {
    let manual = ManualAsyncUdf::new();
    manual.takes(Duration::from_millis(10));
    manual.answers_when_waited_for();
    let mut rig = rig(&manual, 10, 40);
    rig.push(records(&[("a", "a1")])).unwrap();
    // Twice, as in a stage with clocks.
    rig.sweep(|chain, context| {
        chain.barrier(context)?;
        chain.barrier(context)
    });
    assert_eq!((rig.outputs().len(), rows(&rig), manual.waits()), (1, 0, 1));
}

#[test]
fn a_barrier_does_not_wait_for_calls_that_take_longer_than_it_may() {
    let manual = ManualAsyncUdf::new();
    manual.takes(Duration::from_secs(10));
    let mut rig = rig(&manual, 10, 40);
    rig.push(records(&[("a", "a1"), ("b", "b1")])).unwrap();
    manual.gives("a1", "A1");
    rig.barrier();
    assert_eq!((manual.waits(), rows(&rig)), (0, 1));
}

#[test]
fn a_barrier_does_not_wait_for_what_is_parked() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 40);
    rig.push(records(&[("a", "a1")])).unwrap();
    rig.barrier();
    let waited = manual.waits();
    assert!(waited > 0);
    rig.barrier();
    assert_eq!(manual.waits(), waited);
}

/// A new operator, as after a kill: the running calls are lost.
pub(super) fn restarted(rig: &mut Rig, assignment: KeyAssignment) -> Arc<ManualAsyncUdf> {
    let manual = ManualAsyncUdf::new();
    rig.assignment = assignment;
    rig.reopen(super::rig(&manual, 10, 0));
    manual
}

/// Opens the stores in the chain of another rig.
pub(super) fn opened(rig: &mut Rig, mut fresh: Rig) -> stoatflow_core::Result<()> {
    std::mem::swap(&mut fresh.stores, &mut rig.stores);
    let mut context = crate::Context {
        epoch: fresh.epoch,
        stores: &mut fresh.stores,
        effects: &mut fresh.effects,
        clocks: &mut fresh.clocks,
        assignment: ALONE,
        run: &fresh.run,
    };
    fresh.chain.open(&mut context)
}

pub(super) const ALONE: KeyAssignment = KeyAssignment::new(0, 1);

#[test]
fn after_a_restart_parked_calls_begin_again_before_anything_newer() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    rig.push(records(&[
        ("a", "a1"),
        ("a", "a2"),
        ("b", "b1"),
        ("~", "n"),
    ]))
    .unwrap();
    rig.barrier();
    assert_eq!(rows(&rig), 4);
    let manual = restarted(&mut rig, ALONE);
    assert_eq!(manual.running(), ["a1", "b1", "n"]);
    rig.push(records(&[("a", "a3"), ("c", "c1")])).unwrap();
    assert_eq!(manual.running(), ["a1", "b1", "n", "c1"]);
    for value in ["a1", "a2", "a3", "b1", "c1", "n"] {
        manual.gives(value, value);
    }
    rig.barrier();
    let given = [
        "0:a=a1@1", "0:a=a2@2", "0:a=a3@1", "0:b=b1@3", "0:c=c1@2", "0:~=n@4",
    ];
    assert_eq!(rig.outputs(), given);
    assert_eq!((rows(&rig), manual.load()), (0, 0));
}

#[test]
fn a_call_that_was_given_before_the_restart_is_not_made_again() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    rig.push(records(&[("a", "a1"), ("b", "b1")])).unwrap();
    rig.barrier();
    manual.gives("a1", "A1");
    rig.barrier();
    let manual = restarted(&mut rig, ALONE);
    assert_eq!(manual.running(), ["b1"]);
}

#[test]
fn the_numbers_of_new_calls_are_above_those_of_all_rows() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    rig.push(records(&[("a", "a1"), ("a", "a2")])).unwrap();
    rig.barrier();
    let _second = restarted(&mut rig, ALONE);
    rig.push(records(&[("a", "a3")])).unwrap();
    rig.barrier();
    // Three of one key, in a known order.
    assert_eq!(rows(&rig), 3);
    let manual = restarted(&mut rig, ALONE);
    for value in ["a1", "a2", "a3"] {
        assert_eq!(manual.running(), [value]);
        manual.gives(value, value);
    }
}

#[test]
fn with_other_lanes_each_row_is_taken_by_one() {
    let manual = ManualAsyncUdf::new();
    let mut one = rig(&manual, 100, 0);
    let all: Vec<_> = (0..60)
        .map(|n| record(&format!("k{}", n % 20), &format!("v{n}"), n))
        .chain((60..80).map(|n| record("~", &format!("v{n}"), n)))
        .collect();
    one.push(all).unwrap();
    one.barrier();
    let mut begun: Vec<String> = Vec::new();
    for lane in 0..3 {
        let manual = restarted(&mut one, KeyAssignment::new(lane, 3));
        // The first of each key, and all without a key.
        while let Some(next) = manual.running().first().cloned() {
            manual.gives(&next, &next);
            begun.push(next);
        }
    }
    assert_eq!(begun.len(), 80);
    let mut sorted: Vec<u32> = begun.iter().map(|v| v[1..].parse().unwrap()).collect();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..80).collect::<Vec<_>>());
    // Those of one key, in their order.
    let of_key = |v: &&String| v[1..].parse::<u32>().is_ok_and(|n| n < 60 && n % 20 == 7);
    let of_seven: Vec<&String> = begun.iter().filter(of_key).collect();
    assert_eq!(of_seven, ["v7", "v27", "v47"]);
}

#[test]
fn rows_of_several_lanes_meet_in_one() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 100, 0);
    // Each lane starts with the same ticket.
    for lane in 0..3 {
        rig.chain = super::rig(&manual, 100, 0).chain;
        rig.assignment = KeyAssignment::new(lane, 3);
        let mine = |n: &i64| rig.assignment.owns(format!("k{}", n % 10).as_bytes());
        let all: Vec<i64> = (0..30).filter(mine).collect();
        let all = all
            .iter()
            .map(|n| record(&format!("k{}", n % 10), &n.to_string(), *n));
        rig.push(all.collect()).unwrap();
        rig.barrier();
    }
    let manual = restarted(&mut rig, ALONE);
    let mut given = Vec::new();
    while let Some(next) = manual.running().first().cloned() {
        manual.gives(&next, &next);
        given.push(next.parse::<u32>().unwrap());
    }
    rig.barrier();
    assert_eq!(rig.outputs().len(), 30);
    for key in 0..10 {
        let of_key = given.iter().copied().filter(|n| n % 10 == key);
        assert_eq!(of_key.collect::<Vec<_>>(), [key, key + 10, key + 20]);
    }
    assert_eq!((rows(&rig), manual.load()), (0, 0));
}

#[test]
fn every_kind_of_value_comes_back_as_it_was() {
    let values = [
        Datum::Null,
        Datum::Bool(true),
        Datum::Int(-5),
        Datum::Float(0.5),
        Datum::Bytes("raw".into()),
        Datum::text("text"),
        Datum::Json("{\"a\":1}".into()),
        Datum::List([Datum::Int(1), Datum::text("x")].into()),
        Datum::windowed(Datum::text("k"), 5, 10),
    ];
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    let all = (0..)
        .zip(&values)
        .map(|(at, value)| stoatflow_core::Record {
            value: value.clone(),
            headers: Some(Arc::new([stoatflow_core::Header {
                name: "h".into(),
                value: Some("v".into()),
            }])),
            ..record("~", "", at)
        });
    let all: Vec<_> = all.collect();
    rig.push(all.clone()).unwrap();
    rig.barrier();
    let manual = restarted(&mut rig, ALONE);
    assert_eq!(manual.values(), values);
    manual.all(|_| Ok(Answer::One(Datum::text("x"))));
    rig.barrier();
    assert_eq!(rig.effects.outputs.len(), all.len());
    for (output, record) in rig.effects.outputs.iter().zip(&all) {
        assert_eq!(output.headers, record.headers);
        assert_eq!(output.origin, record.origin);
        assert_eq!(output.timestamp, record.timestamp);
    }
}

#[test]
fn a_windowed_key_orders_and_comes_back() {
    // The chain ends in a sink whose keys are texts.
    let mut op = calls_op(Form::SelectKey, 10, 0);
    if let Op::Calls { key, .. } = &mut op {
        *key = SerdeSpec::TimeWindowed {
            time_windowed: Box::new(serde("string")),
            size_ms: 5,
        };
    }
    let manual = ManualAsyncUdf::new();
    let mut rig = rig_of(&manual, op.clone(), None).unwrap();
    let in_window = |start: i64, value: &str| stoatflow_core::Record {
        key: Datum::windowed(Datum::text("k"), start, start + 5),
        ..record("", value, start)
    };
    let all = [in_window(0, "a1"), in_window(5, "b1"), in_window(0, "a2")];
    rig.push(all.to_vec()).unwrap();
    rig.barrier();
    let manual = ManualAsyncUdf::new();
    rig.assignment = ALONE;
    rig.reopen(rig_of(&manual, op, None).unwrap());
    assert_eq!(manual.running(), ["a1", "b1"]);
    for value in ["a1", "b1", "a2"] {
        manual.gives(value, value);
    }
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:a1=a1@0", "0:b1=b1@5", "0:a2=a2@0"]);
    assert_eq!(rows(&rig), 0);
}

#[test]
fn a_row_that_can_not_be_read_says_so() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    let stored = stoatflow_state::Stored {
        value: Datum::Bytes("\u{1}rubbish".into()),
        timestamp: stoatflow_core::Timestamp(1),
    };
    let store = &mut rig.stores[3];
    let row = "\u{1}a12345678".into();
    store
        .store
        .put(rig.epoch, &mut store.dirty, &row, Some(stored))
        .unwrap();
    let error = opened(&mut rig, super::rig(&manual, 10, 0)).unwrap_err();
    assert!(
        error.message().contains("an async call has parked"),
        "{error}"
    );
}

#[test]
fn a_failure_after_its_epoch_deletes_the_row_of_what_is_left_out() {
    let manual = ManualAsyncUdf::new();
    let leave_out = Some(Handler::Continue);
    let mut rig = rig_of(&manual, calls_op(Form::MapValues, 10, 0), leave_out).unwrap();
    rig.push(records(&[("a", "a1")])).unwrap();
    rig.barrier();
    assert_eq!(rows(&rig), 1);
    manual.finish("a1", Err(raised()));
    rig.barrier();
    assert_eq!(rows(&rig), 0);
}
