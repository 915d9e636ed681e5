//! Async calls, answered by the test: order, parking, replay, the bound, errors.

mod objects;
mod parking;

use crate::AsyncUdf;
use crate::testing::hand::{self, Hand, calls_op, foreign, rig};
use crate::testing::{Rig, closure, into_sink, raised, record};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stoatflow_core::{Datum, Handler, Result, SinkId, SourceId};
use stoatflow_plan::{Delivery, Form, Function, Op};

fn records(all: &[(&str, &str)]) -> Vec<stoatflow_core::Record> {
    let numbered = (1..).zip(all);
    numbered.map(|(at, (k, v))| record(k, v, at)).collect()
}

#[test]
fn keys_overtake_each_other_and_keep_their_own_order() {
    let hand = Hand::new();
    let mut rig = rig(&hand, 10, 0);
    rig.push(records(&[("a", "a1"), ("a", "a2"), ("b", "b1")]))
        .unwrap();
    // The second call of a key waits for the first.
    assert_eq!(hand.running(), ["a1", "b1"]);
    hand.gives("b1", "B1");
    rig.push(vec![]).unwrap();
    rig.push(records(&[("c", "c1")])).unwrap();
    assert_eq!(rig.outputs(), ["0:b=B1@3"]);
    hand.gives("a1", "A1");
    // The next call begins without a turn of the lane.
    assert_eq!(hand.running(), ["c1", "a2"]);
    hand.gives("a2", "A2");
    hand.gives("c1", "C1");
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:a=A1@1", "0:a=A2@2", "0:c=C1@1"]);
    assert_eq!(hand.load(), 0);
}

#[test]
fn the_call_that_holds_up_its_key_is_named() {
    let hand = Hand::new();
    let mut rig = rig(&hand, 10, 0);
    let oldest = || {
        let call = hand.in_flight().oldest()?;
        let key = call.key.map(|key| String::from_utf8(key.to_vec()).unwrap());
        Some((key.unwrap(), call.behind))
    };
    assert_eq!(oldest(), None);
    rig.push(records(&[("a", "a1"), ("a", "a2"), ("a", "a3")]))
        .unwrap();
    rig.push(records(&[("b", "b1")])).unwrap();
    assert_eq!(oldest(), Some(("a".to_owned(), 2)));
    // The next call of the key begins now.
    hand.gives("a1", "A1");
    assert_eq!(oldest(), Some(("b".to_owned(), 0)));
    hand.gives("b1", "B1");
    assert_eq!(oldest(), Some(("a".to_owned(), 1)));
    hand.gives("a2", "A2");
    hand.gives("a3", "A3");
    rig.barrier();
    assert_eq!(oldest(), None);
}

#[test]
fn records_without_a_key_have_no_order() {
    let hand = Hand::new();
    let mut rig = rig(&hand, 10, 0);
    rig.push(records(&[("~", "x"), ("~", "y")])).unwrap();
    assert_eq!(hand.running(), ["x", "y"]);
    hand.gives("y", "Y");
    hand.gives("x", "X");
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:~=Y@2", "0:~=X@1"]);
}

#[test]
fn a_result_keeps_time_headers_and_origin() {
    let hand = Hand::new();
    let mut rig = rig(&hand, 10, 0);
    let mut one = record("a", "x", 7);
    one.headers = Some(Arc::new([stoatflow_core::Header {
        name: "h".into(),
        value: None,
    }]));
    rig.push(vec![one.clone()]).unwrap();
    rig.barrier();
    hand.gives("x", "X");
    rig.barrier();
    let output = rig.effects.outputs.pop().unwrap();
    assert_eq!(
        (output.timestamp, &output.headers, output.origin),
        (one.timestamp, &one.headers, one.origin)
    );
}

#[test]
fn no_more_than_twice_the_concurrency_is_under_way() {
    let hand = Hand::new();
    let mut rig = rig(&hand, 2, 0);
    // Each wait for room answers the oldest call.
    hand.answers_when_waited_for();
    let all: Vec<_> = (0..50)
        .map(|n| record(&format!("k{n}"), &format!("v{n}"), n))
        .collect();
    rig.push(all).unwrap();
    assert_eq!(hand.most(), 4);
    assert_eq!(hand.load(), 4);
    assert_eq!(rig.outputs().len(), 46);
}

#[test]
fn one_key_alone_fills_the_bound_and_goes_on() {
    let hand = Hand::new();
    let mut rig = rig(&hand, 1, 0);
    hand.answers_when_waited_for();
    rig.push(records(&[("a", "1"), ("a", "2"), ("a", "3"), ("a", "4")]))
        .unwrap();
    assert_eq!(rig.outputs(), ["0:a=1@1", "0:a=2@2"]);
    assert_eq!(hand.running(), ["3"]);
}

#[test]
fn no_interpreter_is_held_while_a_branch_waits_for_calls() {
    let hand = Hand::new();
    hand.answers_when_waited_for();
    let plain = closure(|arguments| Ok(arguments[0].clone()));
    let mut foreign = foreign(&hand);
    foreign.udfs.push(Arc::clone(&plain) as _);
    let source = SourceId(0);
    let branch = Op::MapValues {
        function: Function::Udf(1),
        with_key: false,
    };
    let mut plan = crate::testing::plan(vec![
        (Op::Source { source }, vec![1, 2], Delivery::Record),
        (calls_op(Form::MapValues, 1, 0), vec![3], Delivery::Batch),
        (branch, vec![3], Delivery::Batch),
        (Op::Merge, vec![4], Delivery::Batch),
        (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch),
    ]);
    plan.stores.push(hand::parked(&plan));
    let mut rig = Rig::of_foreign(&plan, &foreign, false).unwrap();
    rig.push(records(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]))
        .unwrap();
    assert!(hand.waits() > 0, "nobody had to wait");
    assert_eq!(plain.scopes.load(Ordering::Relaxed), 0);
    assert_eq!(rig.outputs().len(), 6);
}

#[test]
fn all_forms() {
    let text = |s: &str| Datum::text(s);
    let cases: Vec<(Form, Result<crate::Answer>, Vec<&str>)> = vec![
        (
            Form::Filter,
            Ok(crate::Answer::Verdict(true)),
            vec!["0:a=x@1"],
        ),
        (Form::Filter, Ok(crate::Answer::Verdict(false)), vec![]),
        (Form::FilterNot, Ok(crate::Answer::Verdict(true)), vec![]),
        (
            Form::FilterNot,
            Ok(crate::Answer::Verdict(false)),
            vec!["0:a=x@1"],
        ),
        (
            Form::MapValues,
            Ok(crate::Answer::One(text("y"))),
            vec!["0:a=y@1"],
        ),
        (
            Form::SelectKey,
            Ok(crate::Answer::One(text("k"))),
            vec!["0:k=x@1"],
        ),
        (
            Form::GroupBy,
            Ok(crate::Answer::One(text("k"))),
            vec!["0:k=x@1"],
        ),
        (
            Form::Map,
            Ok(crate::Answer::Pair(text("k"), text("v"))),
            vec!["0:k=v@1"],
        ),
        (
            Form::FlatMapValues,
            Ok(crate::Answer::Many(vec![text("v"), text("w")])),
            vec!["0:a=v@1", "0:a=w@1"],
        ),
        (
            Form::FlatMap,
            Ok(crate::Answer::Pairs(vec![
                (text("k"), text("v")),
                (text("l"), text("w")),
            ])),
            vec!["0:k=v@1", "0:l=w@1"],
        ),
        (Form::Peek, Ok(crate::Answer::Done), vec!["0:a=x@1"]),
        (Form::Foreach, Ok(crate::Answer::Done), vec![]),
    ];
    for (form, given, wanted) in cases {
        let hand = Hand::new();
        let mut rig = hand::rig_of(&hand, calls_op(form, 10, 0), None).unwrap();
        rig.push(records(&[("a", "x")])).unwrap();
        hand.finish("x", given);
        rig.barrier();
        assert_eq!(rig.outputs(), wanted, "{form:?}");
    }
}

#[test]
fn an_answer_of_another_form_is_a_bug_and_says_so() {
    let hand = Hand::new();
    let mut rig = rig(&hand, 10, 0);
    rig.push(records(&[("a", "x")])).unwrap();
    hand.finish("x", Ok(crate::Answer::Verdict(true)));
    let error = rig.push(records(&[("b", "y")])).unwrap_err();
    assert!(error.message().contains("map_values"), "{error}");
}

#[test]
fn a_failure_has_coordinates_and_ends_the_run() {
    let hand = Hand::new();
    let mut rig = rig(&hand, 10, 0);
    rig.push(records(&[("a", "x")])).unwrap();
    hand.finish("x", Err(raised()));
    let error = rig.push(records(&[("b", "y")])).unwrap_err();
    let at = error.coordinates();
    assert_eq!(at.function.as_deref(), Some("app.py:7 hand"));
    assert_eq!(at.node.as_deref(), Some("calls-0"));
    assert_eq!(at.offset, Some(stoatflow_core::Offset(1)));
}

#[test]
fn a_record_that_is_left_out_lets_its_key_go_on() {
    let hand = Hand::new();
    let handler = Some(Handler::Dlq("letters".into()));
    let mut rig = hand::rig_of(&hand, calls_op(Form::MapValues, 10, 0), handler).unwrap();
    rig.push(records(&[("a", "a1"), ("a", "a2")])).unwrap();
    hand.finish("a1", Err(raised()));
    // A handler has to decide first.
    assert!(hand.running().is_empty());
    rig.barrier();
    assert_eq!(hand.running(), ["a2"]);
    hand.gives("a2", "A2");
    let counts = crate::AsyncUdf::in_flight(&*hand).counts();
    assert_eq!(counts.failed, 1);
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:a=A2@2"]);
    assert_eq!(rig.handled(), ["processing_dead_letter letters@1"]);
    // Its row was deleted with it.
    assert_eq!(hand::rows(&rig), 0);
}

#[test]
fn a_record_that_is_tried_again_stays_before_the_others_of_its_key() {
    let hand = Hand::new();
    let retry = Handler::Retry(Box::new(stoatflow_core::Retrying {
        times: 1,
        backoff_ms: 0,
        then: Handler::Continue,
    }));
    let mut rig = hand::rig_of(&hand, calls_op(Form::MapValues, 10, 0), Some(retry)).unwrap();
    rig.push(records(&[("a", "a1"), ("a", "a2")])).unwrap();
    hand.finish("a1", Err(raised()));
    rig.barrier();
    assert_eq!(hand.running(), ["a1"]);
    hand.gives("a1", "A1");
    hand.finish("a2", Err(raised()));
    rig.barrier();
    hand.finish("a2", Err(raised()));
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:a=A1@1"]);
    assert_eq!(rig.handled().len(), 1);
    assert_eq!(hand.load(), 0);
}

#[test]
fn a_handlers_pause_is_that_of_the_calls_and_not_of_the_lane() {
    let hand = Hand::new();
    let retry = Handler::Retry(Box::new(stoatflow_core::Retrying {
        times: 1,
        backoff_ms: 3_600_000,
        then: Handler::Fail,
    }));
    let mut rig = hand::rig_of(&hand, calls_op(Form::MapValues, 10, 0), Some(retry)).unwrap();
    rig.push(records(&[("a", "a1"), ("b", "b1"), ("c", "c1")]))
        .unwrap();
    for value in ["a1", "c1"] {
        hand.finish(value, Err(raised()));
    }
    rig.barrier();
    assert_eq!(hand.pauses(), [std::time::Duration::from_secs(3600)]);
    assert_eq!(hand.running(), ["b1", "a1", "c1"]);
}

#[test]
fn lanes_share_the_bound() {
    let hand = Hand::new();
    let mut one = rig(&hand, 1, 0);
    let mut other = rig(&hand, 1, 0);
    one.push(records(&[("a", "a1"), ("b", "b1")])).unwrap();
    hand.answers_when_waited_for();
    other.push(records(&[("c", "c1")])).unwrap();
    // There was no room for it before a call of the other lane was answered.
    assert_eq!(hand.running(), ["b1", "c1"]);
    assert_eq!(hand.load(), 2);
    drop(one);
    assert_eq!((hand.load(), hand.cancelled()), (1, 1));
}

#[test]
fn what_is_answered_after_the_end_is_nobodys() {
    let hand = Hand::new();
    let mut rig = rig(&hand, 10, 0);
    rig.push(records(&[("a", "a1"), ("a", "a2")])).unwrap();
    rig.chain.close();
    assert_eq!(hand.load(), 0);
    hand.gives("a1", "A1");
    assert!(hand.running().is_empty());
    assert_eq!(hand.load(), 0);
}

#[test]
fn a_run_that_ends_does_not_wait_for_room() {
    let hand = Hand::new();
    let mut rig = rig(&hand, 1, 1000);
    rig.run.end();
    rig.push(records(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]))
        .unwrap();
    rig.barrier();
    assert_eq!((hand.load(), hand.waits()), (4, 0));
}

#[test]
fn a_late_barrier_parks_what_finds_no_room() {
    let hand = Hand::new();
    let mut rig = rig(&hand, 1, 0);
    let run = Arc::clone(&rig.run);
    rig.push(records(&[("a", "1"), ("b", "2")])).unwrap();
    assert!(!run.is_crowded(), "so many may be under way");
    run.hurry(true);
    rig.push(records(&[("c", "3"), ("d", "4")])).unwrap();
    assert!(run.is_crowded());
    rig.barrier();
    assert_eq!((hand.load(), hand.waits(), hand::rows(&rig)), (4, 0, 4));
    run.hurry(false);
    for value in ["1", "2"] {
        hand.gives(value, value);
    }
    assert!(!run.is_crowded());
    rig.barrier();
    assert_eq!((rig.outputs().len(), hand::rows(&rig)), (2, 2));
}

#[test]
fn it_is_not_built_without_its_function() {
    let mut foreign = foreign(&Hand::new());
    foreign.calls.clear();
    let plan = crate::testing::plan(into_sink(calls_op(Form::MapValues, 1, 0), 0));
    let error = crate::testing::Rig::of_foreign(&plan, &foreign, false)
        .err()
        .unwrap();
    assert!(error.message().contains("event loop"), "{error}");
}
