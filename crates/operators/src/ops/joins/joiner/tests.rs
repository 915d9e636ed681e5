//! Joiners with an async function, and the state after a failure.

use super::Joiner;
use crate::ops::async_ops::ConcurrentCalls;
use crate::support::error_policy::ErrorPolicy;
use crate::support::function::Function;
use crate::support::node_context::NodeContext;
use crate::testing::manual_async_udf::{ManualAsyncUdf, foreign};
use crate::testing::recorded::registered;
use crate::testing::{Rig, closure, into_sink, raised, serde, word};
use crate::{Args, FaultInjection, ForeignCode};
use std::sync::Arc;
use stoatflow_core::{Datum, FailureKind, Handler, NodeId, Origin, Result, StoreId};
use stoatflow_plan::{AsyncSpec, Function as Spec, JoinKind, Op, View};

const AWAITING: AsyncSpec = AsyncSpec {
    udf: 0,
    concurrency: 10,
    park_after_ms: 0,
};

fn node_context(handler: Option<&Handler>) -> NodeContext {
    let place = (NodeId(0), "joined");
    let policy = ErrorPolicy::new(
        FailureKind::Processing,
        handler,
        place,
        &ForeignCode::default(),
        None,
    );
    NodeContext::new(NodeId(0), "joined", Arc::new([])).with_policy(policy.unwrap())
}

/// Joins rows of a key and a right side.
fn joined(joiner: &mut Joiner, rows: &[(&str, &str)]) -> Result<(Vec<String>, Vec<usize>)> {
    let mut rig = Rig::new(
        into_sink(join(Spec::Udf(0)), 0),
        vec![registered("pair_text")],
        false,
    );
    for (key, right) in rows {
        let left = Datum::text("left");
        joiner.add(
            &Datum::text(*key),
            left,
            Datum::text(*right),
            Origin::default(),
        );
    }
    let mut done = None;
    rig.sweep(|_, context| {
        done = Some(joiner.join(context).map(|joined| {
            let results = joined.results.map(|result| word(&result)).collect();
            (results, joined.lost.to_vec())
        }));
        Ok(())
    });
    done.expect("it was swept")
}

fn join(function: Spec) -> Op {
    Op::StreamTableJoin {
        kind: JoinKind::Left,
        table: View::Store {
            store: StoreId(0),
            key: serde("string"),
        },
        function,
        with_key: false,
        grace_ms: None,
        buffer: None,
        clock: None,
        key: serde("string"),
        value: serde("string"),
    }
}

fn awaited(manual: &Arc<ManualAsyncUdf>, handler: Option<&Handler>) -> Joiner {
    let function = Function::new(
        &Spec::Async(AWAITING),
        Args::Value,
        node_context(handler),
        &foreign(manual),
    );
    let calls = ConcurrentCalls::new(
        Arc::clone(manual) as _,
        &AWAITING,
        false,
        FaultInjection::None,
    );
    Joiner::new(function.unwrap(), false, Some(calls))
}

#[test]
fn rows_of_other_keys_are_joined_at_the_same_time() {
    let manual = ManualAsyncUdf::new();
    manual.answers_the_newest_when_waited_for();
    let mut joiner = awaited(&manual, None);
    let rows = [("a", "1"), ("b", "2"), ("a", "3")];
    let (results, lost) = joined(&mut joiner, &rows).unwrap();
    assert_eq!(results, ["1", "2", "3"]);
    assert!(lost.is_empty());
    assert_eq!(manual.begun(), ["1", "2", "3"]);
    assert_eq!(manual.most(), 3);
}

#[test]
fn a_row_that_a_handler_gives_up_is_left_out() {
    let manual = ManualAsyncUdf::new();
    manual.answers_when_waited_for();
    manual.fails("2");
    let mut joiner = awaited(&manual, Some(&Handler::Continue));
    let rows = [("a", "1"), ("b", "2"), ("b", "3")];
    let (results, lost) = joined(&mut joiner, &rows).unwrap();
    assert_eq!(
        (results, lost),
        (vec!["1".into(), "~".into(), "3".into()], vec![1])
    );
}

#[test]
fn a_failure_names_the_function_and_leaves_no_rows_behind() {
    let manual = ManualAsyncUdf::new();
    manual.answers_when_waited_for();
    manual.fails("1");
    let mut joiner = awaited(&manual, None);
    let error = joined(&mut joiner, &[("a", "1")]).unwrap_err();
    assert_eq!(
        error.coordinates().function.as_deref(),
        Some("app.py:7 hand")
    );
    assert_eq!(joined(&mut joiner, &[("b", "2")]).unwrap().0, ["2"]);
}

#[test]
fn neither_does_one_of_a_plain_function() {
    let picky = closure(|arguments| match word(arguments[1]).as_str() {
        "bad" => Err(raised()),
        _ => Ok(arguments[1].clone()),
    });
    let foreign = ForeignCode {
        udfs: vec![picky],
        ..ForeignCode::default()
    };
    let function = Function::new(&Spec::Udf(0), Args::Value, node_context(None), &foreign);
    let mut joiner = Joiner::new(function.unwrap(), false, None);
    assert!(joined(&mut joiner, &[("a", "bad")]).is_err());
    // A table that is read through a join is read for the next record after the failure.
    assert_eq!(joined(&mut joiner, &[("b", "good")]).unwrap().0, ["good"]);
}

#[test]
fn a_join_is_built_with_the_event_loop_of_its_function() {
    let manual = ManualAsyncUdf::new();
    let plan = crate::testing::plan(into_sink(join(Spec::Async(AWAITING)), 0));
    assert!(Rig::of_foreign(&plan, &foreign(&manual), false).is_ok());
    let mut without = foreign(&manual);
    without.calls.clear();
    let error = Rig::of_foreign(&plan, &without, false).err().unwrap();
    assert!(error.message().contains("event loop"), "{error}");
}
