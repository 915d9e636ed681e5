//! Records that fail, at every kind of operator: earlier results stay, later records continue.

use crate::testing::*;
use crate::{NO_ORIGIN, Raised, Runtime};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stoatflow_core::{
    CallableHandler, Datum, Error, ErrorKind, FailureKind, Handler, Header, Record, Result,
    RetryHandler, SinkId, StoreId,
};
use stoatflow_plan::{Delivery, Function, Op, PhysicalPlan};

const UDF: Function = Function::Udf(0);

/// Raises for `bad`, in any argument.
fn picky(args: &[&Datum]) -> Result<()> {
    match args.iter().any(|arg| word(arg) == "bad") {
        true => Err(raised()),
        false => Ok(()),
    }
}

fn dlq() -> Handler {
    Handler::Dlq("letters".into())
}

fn retry(times: u32, then: Handler) -> Handler {
    Handler::Retry(Box::new(RetryHandler {
        times,
        backoff_ms: 0,
        then,
    }))
}

fn everywhere(handler: Handler) -> impl FnOnce(&mut PhysicalPlan) {
    move |plan| {
        plan.handlers.processing = Some(handler.clone());
        plan.handlers.production = Some(handler);
    }
}

fn rig(op: Op, udf: Arc<dyn crate::Udf>, handler: Handler) -> Rig {
    Rig::changed(into_sink(op, 0), vec![udf], everywhere(handler)).unwrap()
}

fn mixed() -> Vec<Record> {
    vec![
        record("a", "bad", 1),
        record("b", "x", 2),
        record("c", "bad", 3),
        record("d", "bad", 4),
        record("e", "y", 5),
        record("f", "bad", 6),
    ]
}

#[test]
fn failed_records_are_left_out_and_the_batch_goes_on() {
    let value = |args: &[&Datum]| picky(args).map(|()| args[args.len() - 1].clone());
    let pair = |args: &[&Datum]| picky(args).map(|()| list_of([args[0].clone(), args[1].clone()]));
    let many = |args: &[&Datum]| picky(args).map(|()| list_of([args[args.len() - 1].clone()]));
    let pairs = move |args: &[&Datum]| Ok(list_of([pair(args)?]));
    let truth = |args: &[&Datum]| picky(args).map(|()| Datum::Bool(true));
    let lie = |args: &[&Datum]| picky(args).map(|()| Datum::Bool(false));
    let cases: Vec<(Op, Arc<dyn crate::Udf>)> = vec![
        (Op::Filter { function: UDF }, closure(truth)),
        (Op::FilterNot { function: UDF }, closure(lie)),
        (Op::Map { function: UDF }, closure(pair)),
        (
            Op::MapValues {
                function: UDF,
                with_key: false,
            },
            closure(value),
        ),
        (Op::FlatMap { function: UDF }, closure(pairs)),
        (
            Op::FlatMapValues {
                function: UDF,
                with_key: false,
            },
            closure(many),
        ),
        (Op::Peek { function: UDF }, closure(value)),
    ];
    for (op, udf) in cases {
        let name = op.name();
        let mut rig = rig(op, udf, dlq());
        rig.push(mixed()).unwrap();
        assert_eq!(rig.outputs(), ["0:b=x@2", "0:e=y@5"], "{name}");
        let letters = [1, 3, 4, 6].map(|at| format!("processing_dead_letter letters@{at}"));
        assert_eq!(rig.handled(), letters, "{name}");
    }
}

#[test]
fn no_function_runs_twice_for_a_record() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let udf = closure(move |args: &[&Datum]| {
        noted.lock().push(word(args[0]));
        picky(&args[1..]).map(|()| args[0].clone())
    });
    let mut rig = rig(Op::SelectKey { function: UDF }, udf, Handler::Continue);
    rig.push(mixed()).unwrap();
    assert_eq!(*seen.lock(), ["a", "b", "c", "d", "e", "f"]);
    assert_eq!(rig.handled(), ["processing_error"; 4]);
}

#[test]
fn native_expressions_fail_like_functions() {
    // A text is no number: `int()` of it fails.
    let number = r#"{"op":"cast","args":[{"op":"value"}],"to":"int"}"#;
    let op = Op::MapValues {
        function: expression(number),
        with_key: false,
    };
    let nodes = into_sink(op, 1);
    let mut rig = Rig::changed(nodes, vec![], everywhere(Handler::Continue)).unwrap();
    rig.push(vec![
        record("a", "1", 1),
        record("b", "bad", 2),
        record("c", "3", 3),
    ])
    .unwrap();
    assert_eq!(rig.outputs(), ["1:a=1@1", "1:c=3@3"]);
    assert_eq!(rig.handled(), ["processing_error"]);
}

#[test]
fn without_a_handler_the_first_failure_is_the_end() {
    let udf = closure(|args: &[&Datum]| picky(args).map(|()| args[0].clone()));
    let mut rig = rig(Op::Peek { function: UDF }, udf, Handler::Fail);
    let error = rig.push(mixed()).unwrap_err();
    assert_eq!(error.coordinates().offset.unwrap().0, 1);
    assert!(rig.handled().is_empty());
}

#[test]
fn the_nearest_handler_wins() {
    let udf = closure(|args: &[&Datum]| picky(args).map(|()| args[0].clone()));
    let nodes = into_sink(Op::Peek { function: UDF }, 0);
    let mut rig = Rig::changed(nodes, vec![udf], |plan| {
        plan.handlers.processing = Some(Handler::Fail);
        plan.nodes[0].on_error = Some(Handler::Continue);
    })
    .unwrap();
    rig.push(mixed()).unwrap();
    assert_eq!(rig.handled(), ["processing_error"; 4]);
}

#[test]
fn a_retry_calls_again_and_then_gives_up() {
    // The n-th call of each record fails, for n up to the record's value.
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let udf = closure(move |args: &[&Datum]| {
        let nth = counted.fetch_add(1, Ordering::Relaxed) + 1;
        let fails = word(args[1]).parse::<u32>().unwrap();
        if nth <= fails {
            return Err(raised());
        }
        counted.store(0, Ordering::Relaxed);
        Ok(args[1].clone())
    });
    let mut rig = rig(Op::Peek { function: UDF }, udf, retry(2, dlq()));
    rig.push(vec![
        record("a", "0", 1),
        record("b", "2", 2),
        record("c", "0", 3),
    ])
    .unwrap();
    assert_eq!(rig.outputs(), ["0:a=0@1", "0:b=2@2", "0:c=0@3"]);
    assert!(rig.handled().is_empty());
    rig.push(vec![record("d", "9", 4)]).unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 3, "once, and two more times");
    assert_eq!(rig.handled(), ["processing_dead_letter letters@4"]);
}

#[test]
fn a_failed_step_leaves_its_key_as_it_was() {
    let add = |args: &[&Datum]| {
        picky(args)?;
        Ok(text(&format!("{}{}", word(args[0]), word(args[1]))))
    };
    for cached in [false, true] {
        let reduce = Op::Reduce {
            store: StoreId(0),
            key: serde("string"),
            function: UDF,
            old: false,
        };
        let mut plan = plan(to_streams(into_sink(reduce, 0)));
        everywhere(Handler::Continue)(&mut plan);
        let mut rig = Rig::of(&plan, vec![closure(add)], cached).unwrap();
        rig.push(vec![
            record("k", "a", 1),
            record("k", "bad", 2),
            record("k", "b", 3),
        ])
        .unwrap();
        rig.push(vec![record("k", "bad", 4)]).unwrap();
        assert_eq!(rig.stored(0, "k"), "ab@3");
        assert_eq!(rig.handled(), ["processing_error"; 2]);
        // A key whose only record failed has no row, not even a deletion.
        assert_eq!(rig.stores[0].dirty.len(), 1);
    }
}

#[test]
fn a_split_leaves_out_what_its_predicate_fails_for() {
    for fork in [Delivery::Batch, Delivery::Record] {
        let nodes = vec![
            (
                Op::Split {
                    functions: vec![UDF, Function::Udf(1)],
                },
                vec![1, 2, 3],
                fork,
            ),
            (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch),
            (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch),
            (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch),
        ];
        let first = closure(|args: &[&Datum]| {
            picky(args)?;
            Ok(Datum::Bool(word(args[1]) == "x"))
        });
        let second = closure(|args: &[&Datum]| {
            if word(args[1]) == "worse" {
                return Err(raised());
            }
            Ok(Datum::Bool(word(args[1]) == "y"))
        });
        let mut rig = Rig::changed(nodes, vec![first, second], everywhere(dlq())).unwrap();
        let mut records = mixed();
        records.insert(1, record("w", "worse", 7));
        records.push(record("z", "z", 8));
        rig.push(records).unwrap();
        let mut outputs = rig.outputs();
        outputs.sort();
        assert_eq!(outputs, ["0:b=x@2", "0:e=y@5", "0:z=z@8"], "{fork:?}");
        let mut handled = rig.handled();
        handled.sort();
        let letters = [1, 3, 4, 6, 7].map(|at| format!("processing_dead_letter letters@{at}"));
        assert_eq!(handled, letters, "{fork:?}");
    }
}

#[test]
fn both_values_of_an_update_belong_together() {
    let udf = || closure(|args: &[&Datum]| picky(args).map(|()| args[args.len() - 1].clone()));
    let op = Op::TableMapValues {
        function: UDF,
        with_key: false,
        store: None,
        key: serde("string"),
        old: true,
    };
    let nodes = to_streams(into_sink(op, 0));
    let mut rig = Rig::changed(nodes, vec![udf()], everywhere(dlq())).unwrap();
    let update = |key: &str, old: &str, new: &str, at: i64| {
        let mut record = record(key, "", at);
        record.value = Datum::change(text(old), text(new), true);
        record
    };
    rig.push(vec![
        update("a", "x", "y", 1),
        update("b", "bad", "y", 2),
        update("c", "x", "bad", 3),
        update("d", "bad", "bad", 4),
        update("e", "x", "z", 5),
    ])
    .unwrap();
    assert_eq!(rig.outputs(), ["0:a=y@1", "0:e=z@5"]);
    // One dead letter each, however many of its values are bad.
    let letters = [2, 3, 4].map(|at| format!("processing_dead_letter letters@{at}"));
    assert_eq!(rig.handled(), letters);
}

#[test]
fn errors_of_a_sink_go_to_the_production_handler() {
    // Sink 1 writes numbers.
    let nodes = vec![(Op::Sink { sink: SinkId(1) }, vec![], Delivery::Batch)];
    let mut rig = Rig::changed(nodes, vec![], |plan| {
        plan.handlers.processing = Some(Handler::Fail);
        plan.handlers.production = Some(dlq());
    })
    .unwrap();
    let mut good = record("a", "", 2);
    good.value = Datum::Int(7);
    rig.push(vec![record("a", "text", 1), good]).unwrap();
    assert_eq!(rig.outputs(), ["1:a=7@2"]);
    assert_eq!(rig.handled(), ["production_dead_letter letters@1"]);
}

#[test]
fn a_sink_leaves_out_what_its_functions_fail_for() {
    let nodes = vec![(Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch)];
    let choose = closure(|args: &[&Datum]| picky(args).map(|()| text("there")));
    let part = closure(|args: &[&Datum]| match word(args[2]).as_str() {
        "odd" => Err(raised()),
        _ => Ok(Datum::Int(1)),
    });
    let mut rig = Rig::changed(nodes, vec![choose, part], |plan| {
        plan.sinks[0].topic_function = Some(UDF);
        plan.sinks[0].partitioner = Some(Function::Udf(1));
        plan.handlers.processing = Some(Handler::Continue);
    })
    .unwrap();
    let mut records = mixed();
    records.insert(2, record("o", "odd", 9));
    rig.push(records).unwrap();
    let outputs = std::mem::take(&mut rig.effects.outputs);
    let to: Vec<_> = outputs
        .iter()
        .map(|o| {
            let chosen = o.chosen.as_ref().unwrap();
            (o.timestamp.0, chosen.topic.as_deref().unwrap().to_owned())
        })
        .collect();
    assert_eq!(to, [(2, "there".to_owned()), (5, "there".to_owned())]);
    assert_eq!(rig.handled(), ["processing_error"; 5]);
}

#[test]
fn a_callable_decides_record_by_record() {
    let udf = closure(|args: &[&Datum]| match word(args[1]).as_str() {
        "x" => Ok(args[1].clone()),
        other => Err(Error::user(other.to_owned())),
    });
    let decide = closure(|args: &[&Datum]| {
        let attempt = word(args[1]);
        Ok(text(match (word(args[0]).as_str(), attempt.as_str()) {
            ("skip", _) => "log_and_continue",
            ("again", "1" | "2") => "again",
            ("again", "3") => "dlq:tired",
            _ => "log_and_fail",
        }))
    });
    let call = Handler::Call(CallableHandler {
        udf: 1,
        topics: vec![],
    });
    let nodes = into_sink(Op::Peek { function: UDF }, 0);
    let mut rig = Rig::changed(nodes, vec![udf, decide], everywhere(call)).unwrap();
    rig.push(vec![
        record("a", "skip", 1),
        record("b", "x", 2),
        record("c", "again", 3),
    ])
    .unwrap();
    assert_eq!(rig.outputs(), ["0:b=x@2"]);
    assert_eq!(
        rig.handled(),
        ["processing_error", "processing_dead_letter tired@3"]
    );
    let error = rig.push(vec![record("d", "other", 4)]).unwrap_err();
    assert_eq!(error.message(), "other");
}

#[test]
fn errors_of_no_record_are_never_left_out() {
    let udf = closure(|_: &[&Datum]| Err(Error::state_corrupt("a broken store")));
    let mut rig = rig(Op::Peek { function: UDF }, udf, Handler::Continue);
    let error = rig.push(vec![record("a", "b", 1)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StateCorrupt);
    assert!(rig.handled().is_empty());
}

#[derive(Debug, Default)]
struct Patient(Mutex<Vec<Duration>>);

impl Runtime for Patient {
    fn pause(&self, time: Duration) -> bool {
        self.0.lock().push(time);
        true
    }

    fn exception(&self, error: &Error) -> Option<Raised> {
        Some(Raised {
            class: "builtins.ValueError".into(),
            message: format!("of {}", error.message()),
            traceback: Some("line 1".into()),
        })
    }
}

/// A runtime that is asked to end while it waits.
#[derive(Debug)]
struct Ending;

impl Runtime for Ending {
    fn pause(&self, _: Duration) -> bool {
        false
    }

    fn exception(&self, _: &Error) -> Option<Raised> {
        None
    }
}

#[test]
fn a_retry_that_is_interrupted_leaves_nothing_out() {
    let retrying = RetryHandler {
        times: 2,
        backoff_ms: 60_000,
        then: Handler::Continue,
    };
    let foreign = crate::ForeignCode {
        udfs: vec![closure(|_: &[&Datum]| Err(raised()))],
        runtime: Some(Arc::new(Ending)),
        ..crate::ForeignCode::default()
    };
    let mut plan = plan(into_sink(Op::Peek { function: UDF }, 0));
    plan.handlers.processing = Some(Handler::Retry(Box::new(retrying)));
    let mut rig = Rig::of_foreign(&plan, &foreign, false).unwrap();
    let error = rig.push(vec![record("a", "b", 1)]).unwrap_err();
    assert!(error.is_interruption(), "{error}");
    assert!(rig.effects.handled.is_empty());
}

#[test]
fn a_letter_says_what_happened_and_where() {
    let patient = Arc::new(Patient::default());
    let foreign = crate::ForeignCode {
        udfs: vec![closure(|_: &[&Datum]| Err(raised()))],
        runtime: Some(Arc::clone(&patient) as Arc<dyn Runtime>),
        ..crate::ForeignCode::default()
    };
    let mut plan = plan(into_sink(Op::Peek { function: UDF }, 0));
    plan.handlers.processing = Some(Handler::Retry(Box::new(RetryHandler {
        times: 2,
        backoff_ms: 30,
        then: dlq(),
    })));
    let mut rig = Rig::of_foreign(&plan, &foreign, false).unwrap();
    rig.push(vec![record("a", "b", 17)]).unwrap();
    assert_eq!(*patient.0.lock(), [Duration::from_millis(30); 2]);
    let handled = rig.effects.handled.pop().unwrap();
    let letter = handled.letter.unwrap();
    assert_eq!(letter.origin.offset.0, 17);
    let said = |h: &Header| {
        let value = h.value.clone().unwrap();
        (
            h.name
                .strip_prefix("__stoatflow.errors.")
                .unwrap()
                .to_owned(),
            String::from_utf8(value.to_vec()).unwrap(),
        )
    };
    let headers: Vec<_> = letter.headers.iter().map(said).collect();
    let wanted = [
        ("kind", "processing"),
        ("node", "peek-0"),
        ("function", "app.py:7 closure"),
        ("exception", "builtins.ValueError"),
        ("message", "of ValueError: boom"),
        ("traceback", "line 1"),
        ("topic", "in"),
        ("partition", "3"),
        ("offset", "17"),
        ("timestamp", "17"),
        ("lane", "0"),
        ("epoch", "1"),
        ("attempts", "3"),
    ];
    let wanted = wanted.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(headers, wanted);
}

#[test]
fn a_letter_without_origin_has_no_coordinates() {
    let foreign = crate::ForeignCode::default();
    let policy = super::ErrorPolicy::new(
        FailureKind::Processing,
        Some(&dlq()),
        (stoatflow_core::NodeId(0), "tick"),
        &foreign,
        None,
    );
    let place = super::ErrorOrigin {
        lane: stoatflow_core::Lane(0),
        epoch: stoatflow_core::Epoch(1),
    };
    let nobody = Record {
        origin: NO_ORIGIN,
        ..Record::default()
    };
    let mut handled = Vec::new();
    let policy = policy.unwrap().unwrap();
    policy
        .handle(raised(), &nobody, None, 1, place, &mut handled)
        .unwrap();
    let letter = handled.pop().unwrap().letter.unwrap();
    let names = letter.headers.iter().map(|h| h.name.to_string());
    assert!(names.into_iter().all(|name| !name.ends_with(".offset")));
}
