//! Calls of one batch, answered by the test.

use super::{ConcurrentCalls, Row, order};
use crate::support::error_policy::Outcome;
use crate::testing::manual_async_udf::ManualAsyncUdf;
use crate::testing::{json, word};
use crate::{FaultInjection, RunCoordinator};
use smallvec::smallvec;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Datum, Error, Result};
use stoatflow_plan::AsyncSpec;

fn calls(manual: &Arc<ManualAsyncUdf>, concurrency: u32) -> ConcurrentCalls {
    let awaiting = AsyncSpec {
        udf: 0,
        concurrency,
        park_after_ms: 0,
    };
    ConcurrentCalls::new(
        Arc::clone(manual) as _,
        &awaiting,
        false,
        FaultInjection::None,
    )
}

/// Keys and values; `~` is no key.
fn rows(all: &[(&str, &str)]) -> Vec<Row> {
    let row = |(key, value): &(&str, &str)| {
        let key = if *key == "~" {
            Datum::Null
        } else {
            Datum::text(*key)
        };
        (order(&key), smallvec![Datum::text(*value)])
    };
    all.iter().map(row).collect()
}

fn words(results: &[Option<Datum>]) -> Vec<String> {
    let shown = |result: &Option<Datum>| result.as_ref().map_or("-".into(), word);
    results.iter().map(shown).collect()
}

fn never(_: usize, error: Error, _: u32) -> Result<(Outcome, Duration)> {
    Err(error)
}

#[test]
fn keys_run_side_by_side_and_rows_keep_their_places() {
    let manual = ManualAsyncUdf::new();
    manual.answers_the_newest_when_waited_for();
    let given = [
        ("a", "a1"),
        ("a", "a2"),
        ("b", "b1"),
        ("~", "n1"),
        ("~", "n2"),
    ];
    let results = calls(&manual, 10).call(rows(&given), &RunCoordinator::default(), never);
    assert_eq!(words(&results.unwrap()), ["a1", "a2", "b1", "n1", "n2"]);
    // One of each key, and all without one.
    assert_eq!(manual.begun(), ["a1", "b1", "n1", "n2", "a2"]);
    assert_eq!((manual.load(), manual.waits()), (0, 5));
}

#[test]
fn no_more_are_under_way_than_there_is_room_for() {
    let manual = ManualAsyncUdf::new();
    manual.answers_when_waited_for();
    let all: Vec<(String, String)> = (0..50)
        .map(|n| (format!("k{n}"), format!("v{n}")))
        .collect();
    let given: Vec<(&str, &str)> = all.iter().map(|(k, v)| (&**k, &**v)).collect();
    let results = calls(&manual, 2).call(rows(&given), &RunCoordinator::default(), never);
    assert_eq!(results.unwrap().len(), 50);
    assert_eq!((manual.most(), manual.load()), (4, 0));
}

#[test]
fn other_lanes_count_too() {
    let manual = ManualAsyncUdf::new();
    let taken = manual.take_room(2, 2);
    assert_eq!(taken, 2);
    let run = RunCoordinator::default();
    run.end();
    // No call can end to make room, and nothing was called.
    let error = calls(&manual, 1).call(rows(&[("a", "a1")]), &run, never);
    assert!(error.unwrap_err().message().contains("stopped"));
    assert!(manual.begun().is_empty());
}

#[test]
fn a_failure_holds_up_its_key_and_no_other_until_it_is_decided() {
    let manual = ManualAsyncUdf::new();
    manual.answers_when_waited_for();
    manual.fails("a1");
    manual.fails("a1");
    let given = [("a", "a1"), ("a", "a2"), ("b", "b1")];
    let mut told = Vec::new();
    let results = calls(&manual, 10).call(
        rows(&given),
        &RunCoordinator::default(),
        |row, _, before| {
            told.push((row, before));
            let outcome = if before == 0 {
                Outcome::Again
            } else {
                Outcome::Gone
            };
            Ok((outcome, Duration::from_secs(3600)))
        },
    );
    assert_eq!(words(&results.unwrap()), ["-", "a2", "b1"]);
    assert_eq!(told, [(0, 0), (0, 1)]);
    assert_eq!(manual.begun(), ["a1", "b1", "a1", "a2"]);
    // Only the call pauses, not the lane.
    assert_eq!(manual.pauses(), [Duration::from_secs(3600)]);
    assert_eq!(manual.load(), 0);
}

#[test]
fn retried_calls_have_their_room_before_others_begin() {
    let manual = ManualAsyncUdf::new();
    manual.answers_when_waited_for();
    manual.fails("a1");
    let given = [("a", "a1"), ("a", "a2"), ("b", "b1"), ("c", "c1")];
    let again = |_, _, _| Ok((Outcome::Again, Duration::ZERO));
    let results = calls(&manual, 1).call(rows(&given), &RunCoordinator::default(), again);
    assert_eq!(words(&results.unwrap()), ["a1", "a2", "b1", "c1"]);
    assert_eq!((manual.most(), manual.load()), (2, 0));
}

#[test]
fn after_an_end_by_an_error_the_next_batch_is_not_mixed_up_with_what_was_under_way() {
    let manual = ManualAsyncUdf::new();
    manual.answers_when_waited_for();
    manual.fails("a1");
    let mut calls = calls(&manual, 10);
    let failed = calls.call(
        rows(&[("a", "a1"), ("b", "b1")]),
        &RunCoordinator::default(),
        never,
    );
    assert!(failed.is_err());
    assert_eq!((manual.load(), manual.cancelled()), (0, 1));
    manual.gives("b1", "of the batch before");
    let results = calls.call(rows(&[("b", "b2")]), &RunCoordinator::default(), never);
    assert_eq!(words(&results.unwrap()), ["b2"]);
}

#[test]
fn equal_keys_are_equal_in_all_their_forms() {
    let text = order(&Datum::text("x"));
    assert_eq!(text, order(&json("\"x\"")));
    assert_ne!(text, order(&Datum::text("y")));
    assert_eq!(order(&Datum::windowed(Datum::text("x"), 0, 5)), text);
    assert_eq!(order(&Datum::Null), None);
}
