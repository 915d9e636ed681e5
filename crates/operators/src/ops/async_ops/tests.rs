//! Async calls, answered by the test: order, parking, replay, the bound, errors.

mod objects;
mod parking;

use crate::AsyncUdf;
use crate::testing::manual_async_udf::{self, ManualAsyncUdf, calls_op, foreign, rig};
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
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    rig.push(records(&[("a", "a1"), ("a", "a2"), ("b", "b1")]))
        .unwrap();
    // The second call of a key waits for the first.
    assert_eq!(manual.running(), ["a1", "b1"]);
    manual.gives("b1", "B1");
    rig.push(vec![]).unwrap();
    rig.push(records(&[("c", "c1")])).unwrap();
    assert_eq!(rig.outputs(), ["0:b=B1@3"]);
    manual.gives("a1", "A1");
    // The next call begins without a turn of the lane.
    assert_eq!(manual.running(), ["c1", "a2"]);
    manual.gives("a2", "A2");
    manual.gives("c1", "C1");
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:a=A1@1", "0:a=A2@2", "0:c=C1@1"]);
    assert_eq!(manual.load(), 0);
}

#[test]
fn the_call_that_holds_up_its_key_is_named() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    let oldest = || {
        let call = manual.in_flight().oldest()?;
        let key = call.key.map(|key| String::from_utf8(key.to_vec()).unwrap());
        Some((key.unwrap(), call.behind))
    };
    assert_eq!(oldest(), None);
    rig.push(records(&[("a", "a1"), ("a", "a2"), ("a", "a3")]))
        .unwrap();
    rig.push(records(&[("b", "b1")])).unwrap();
    assert_eq!(oldest(), Some(("a".to_owned(), 2)));
    // The next call of the key begins now.
    manual.gives("a1", "A1");
    assert_eq!(oldest(), Some(("b".to_owned(), 0)));
    manual.gives("b1", "B1");
    assert_eq!(oldest(), Some(("a".to_owned(), 1)));
    manual.gives("a2", "A2");
    manual.gives("a3", "A3");
    rig.barrier();
    assert_eq!(oldest(), None);
}

#[test]
fn records_without_a_key_have_no_order() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    rig.push(records(&[("~", "x"), ("~", "y")])).unwrap();
    assert_eq!(manual.running(), ["x", "y"]);
    manual.gives("y", "Y");
    manual.gives("x", "X");
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:~=Y@2", "0:~=X@1"]);
}

#[test]
fn a_result_keeps_time_headers_and_origin() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    let mut one = record("a", "x", 7);
    one.headers = Some(Arc::new([stoatflow_core::Header {
        name: "h".into(),
        value: None,
    }]));
    rig.push(vec![one.clone()]).unwrap();
    rig.barrier();
    manual.gives("x", "X");
    rig.barrier();
    let output = rig.effects.outputs.pop().unwrap();
    assert_eq!(
        (output.timestamp, &output.headers, output.origin),
        (one.timestamp, &one.headers, one.origin)
    );
}

#[test]
fn no_more_than_twice_the_concurrency_is_under_way() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 2, 0);
    // Each wait for room answers the oldest call.
    manual.answers_when_waited_for();
    let all: Vec<_> = (0..50)
        .map(|n| record(&format!("k{n}"), &format!("v{n}"), n))
        .collect();
    rig.push(all).unwrap();
    assert_eq!(manual.most(), 4);
    assert_eq!(manual.load(), 4);
    assert_eq!(rig.outputs().len(), 46);
}

#[test]
fn one_key_alone_fills_the_bound_and_goes_on() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 1, 0);
    manual.answers_when_waited_for();
    rig.push(records(&[("a", "1"), ("a", "2"), ("a", "3"), ("a", "4")]))
        .unwrap();
    assert_eq!(rig.outputs(), ["0:a=1@1", "0:a=2@2"]);
    assert_eq!(manual.running(), ["3"]);
}

#[test]
fn no_interpreter_is_held_while_a_branch_waits_for_calls() {
    let manual = ManualAsyncUdf::new();
    manual.answers_when_waited_for();
    let plain = closure(|arguments| Ok(arguments[0].clone()));
    let mut foreign = foreign(&manual);
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
    plan.stores.push(manual_async_udf::parked(&plan));
    let mut rig = Rig::of_foreign(&plan, &foreign, false).unwrap();
    rig.push(records(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]))
        .unwrap();
    assert!(manual.waits() > 0, "nobody had to wait");
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
        let manual = ManualAsyncUdf::new();
        let mut rig = manual_async_udf::rig_of(&manual, calls_op(form, 10, 0), None).unwrap();
        rig.push(records(&[("a", "x")])).unwrap();
        manual.finish("x", given);
        rig.barrier();
        assert_eq!(rig.outputs(), wanted, "{form:?}");
    }
}

#[test]
fn an_answer_of_another_form_is_a_bug_and_says_so() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    rig.push(records(&[("a", "x")])).unwrap();
    manual.finish("x", Ok(crate::Answer::Verdict(true)));
    let error = rig.push(records(&[("b", "y")])).unwrap_err();
    assert!(error.message().contains("map_values"), "{error}");
}

#[test]
fn a_failure_has_coordinates_and_ends_the_run() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    rig.push(records(&[("a", "x")])).unwrap();
    manual.finish("x", Err(raised()));
    let error = rig.push(records(&[("b", "y")])).unwrap_err();
    let at = error.coordinates();
    assert_eq!(at.function.as_deref(), Some("app.py:7 hand"));
    assert_eq!(at.node.as_deref(), Some("calls-0"));
    assert_eq!(at.offset, Some(stoatflow_core::Offset(1)));
}

#[test]
fn a_record_that_is_left_out_lets_its_key_go_on() {
    let manual = ManualAsyncUdf::new();
    let handler = Some(Handler::Dlq("letters".into()));
    let mut rig =
        manual_async_udf::rig_of(&manual, calls_op(Form::MapValues, 10, 0), handler).unwrap();
    rig.push(records(&[("a", "a1"), ("a", "a2")])).unwrap();
    manual.finish("a1", Err(raised()));
    // A handler has to decide first.
    assert!(manual.running().is_empty());
    rig.barrier();
    assert_eq!(manual.running(), ["a2"]);
    manual.gives("a2", "A2");
    let counts = crate::AsyncUdf::in_flight(&*manual).counts();
    assert_eq!(counts.failed, 1);
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:a=A2@2"]);
    assert_eq!(rig.handled(), ["processing_dead_letter letters@1"]);
    // Its row was deleted with it.
    assert_eq!(manual_async_udf::rows(&rig), 0);
}

#[test]
fn a_record_that_is_tried_again_stays_before_the_others_of_its_key() {
    let manual = ManualAsyncUdf::new();
    let retry = Handler::Retry(Box::new(stoatflow_core::RetryHandler {
        times: 1,
        backoff_ms: 0,
        then: Handler::Continue,
    }));
    let mut rig =
        manual_async_udf::rig_of(&manual, calls_op(Form::MapValues, 10, 0), Some(retry)).unwrap();
    rig.push(records(&[("a", "a1"), ("a", "a2")])).unwrap();
    manual.finish("a1", Err(raised()));
    rig.barrier();
    assert_eq!(manual.running(), ["a1"]);
    manual.gives("a1", "A1");
    manual.finish("a2", Err(raised()));
    rig.barrier();
    manual.finish("a2", Err(raised()));
    rig.barrier();
    assert_eq!(rig.outputs(), ["0:a=A1@1"]);
    assert_eq!(rig.handled().len(), 1);
    assert_eq!(manual.load(), 0);
}

#[test]
fn a_handlers_pause_is_that_of_the_calls_and_not_of_the_lane() {
    let manual = ManualAsyncUdf::new();
    let retry = Handler::Retry(Box::new(stoatflow_core::RetryHandler {
        times: 1,
        backoff_ms: 3_600_000,
        then: Handler::Fail,
    }));
    let mut rig =
        manual_async_udf::rig_of(&manual, calls_op(Form::MapValues, 10, 0), Some(retry)).unwrap();
    rig.push(records(&[("a", "a1"), ("b", "b1"), ("c", "c1")]))
        .unwrap();
    for value in ["a1", "c1"] {
        manual.finish(value, Err(raised()));
    }
    rig.barrier();
    assert_eq!(manual.pauses(), [std::time::Duration::from_secs(3600)]);
    assert_eq!(manual.running(), ["b1", "a1", "c1"]);
}

#[test]
fn lanes_share_the_bound() {
    let manual = ManualAsyncUdf::new();
    let mut one = rig(&manual, 1, 0);
    let mut other = rig(&manual, 1, 0);
    one.push(records(&[("a", "a1"), ("b", "b1")])).unwrap();
    manual.answers_when_waited_for();
    other.push(records(&[("c", "c1")])).unwrap();
    // There was no room for it before a call of the other lane was answered.
    assert_eq!(manual.running(), ["b1", "c1"]);
    assert_eq!(manual.load(), 2);
    drop(one);
    assert_eq!((manual.load(), manual.cancelled()), (1, 1));
}

#[test]
fn answers_after_the_end_are_ignored() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 10, 0);
    rig.push(records(&[("a", "a1"), ("a", "a2")])).unwrap();
    rig.chain.close();
    assert_eq!(manual.load(), 0);
    manual.gives("a1", "A1");
    assert!(manual.running().is_empty());
    assert_eq!(manual.load(), 0);
}

#[test]
fn a_run_that_ends_does_not_wait_for_room() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 1, 1000);
    rig.run.end();
    rig.push(records(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]))
        .unwrap();
    rig.barrier();
    assert_eq!((manual.load(), manual.waits()), (4, 0));
}

#[test]
fn a_late_barrier_parks_what_finds_no_room() {
    let manual = ManualAsyncUdf::new();
    let mut rig = rig(&manual, 1, 0);
    let run = Arc::clone(&rig.run);
    rig.push(records(&[("a", "1"), ("b", "2")])).unwrap();
    assert!(!run.has_too_many_calls(), "so many may be under way");
    run.set_barrier_late(true);
    rig.push(records(&[("c", "3"), ("d", "4")])).unwrap();
    assert!(run.has_too_many_calls());
    rig.barrier();
    assert_eq!(
        (manual.load(), manual.waits(), manual_async_udf::rows(&rig)),
        (4, 0, 4)
    );
    run.set_barrier_late(false);
    for value in ["1", "2"] {
        manual.gives(value, value);
    }
    assert!(!run.has_too_many_calls());
    rig.barrier();
    assert_eq!((rig.outputs().len(), manual_async_udf::rows(&rig)), (2, 2));
}

#[test]
fn an_operator_is_not_built_without_its_function() {
    let mut foreign = foreign(&ManualAsyncUdf::new());
    foreign.calls.clear();
    let plan = crate::testing::plan(into_sink(calls_op(Form::MapValues, 1, 0), 0));
    let error = crate::testing::Rig::of_foreign(&plan, &foreign, false)
        .err()
        .unwrap();
    assert!(error.message().contains("event loop"), "{error}");
}
