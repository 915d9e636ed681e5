//! State after a restart.

use super::*;
use crate::LaneStore;

#[test]
fn a_restart_finds_everything_with_any_number_of_lanes() {
    let mut rig = rig(THRICE);
    rig.clocks.wall = Timestamp(1_000);
    rig.push(records(&[
        ("a", "a1"),
        ("a", "a2"),
        ("b", "b1"),
        ("c", "c1"),
    ]))
    .unwrap();
    let ids = rig.correlations();
    rig.answers(vec![
        answer("a", "2", &ids[1]),
        error("b", "boom", &ids[2], "1"),
    ]);
    rig.barrier();
    let mut given = Vec::new();
    for lane in 0..2 {
        rig.restart(THRICE, KeyAssignment::new(lane, 2));
        let assignment = rig.assignment;
        let own: Vec<Record> = [
            answer("a", "1", &ids[0]),
            answer("b", "1", &ids[2]),
            answer("c", "1", &ids[3]),
        ]
        .into_iter()
        .filter(|r| assignment.owns(word(&r.key).as_bytes()))
        .collect();
        rig.answers(own);
        given.extend(rig.outputs());
    }
    given.sort();
    let all = ["0:a=a1+1@1", "0:a=a2+2@2", "0:b=b1+1@3", "0:c=c1+1@4"];
    assert_eq!(given, all);
    assert_eq!((rig.rows(), rig.reasons().len()), (0, 0));
}

/// Under at-least-once a crash can preserve that a record has left, and lose that the next one of its
/// key has: the two deletions are in different partitions of the changelog.
#[test]
fn records_whose_turn_has_come_leave_after_a_restart() {
    let mut rig = rig(PATIENCE);
    rig.push(records(&[("a", "a1"), ("a", "a2"), ("a", "a3")]))
        .unwrap();
    let ids = rig.correlations();
    rig.answers(vec![answer("a", "2", &ids[1]), answer("a", "3", &ids[2])]);
    let LaneStore { store, dirty } = &mut rig.stores[3];
    let rows = store.scan(rig.epoch, &stoatflow_state::KeyRange::default(), 1);
    let (first, _) = rows.expect("a readable store").remove(0);
    store.put(rig.epoch, dirty, &first, None).unwrap();
    rig.barrier();
    rig.restart(PATIENCE, KeyAssignment::new(0, 1));
    assert_eq!(rig.rows(), 2);
    rig.at(0);
    assert_eq!(rig.outputs(), ["0:a=a2+2@2", "0:a=a3+3@3"]);
    assert_eq!(rig.rows(), 0);
}

#[test]
fn a_restart_finds_more_than_it_reads_at_a_time() {
    let mut rig = rig(PATIENCE);
    let keys: Vec<String> = (0..600).map(|number| format!("k{number}")).collect();
    let all: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "x")).collect();
    rig.push(records(&all)).unwrap();
    let ids = rig.correlations();
    rig.barrier();
    rig.restart(PATIENCE, KeyAssignment::new(0, 1));
    let answers = keys.iter().zip(&ids).map(|(key, id)| answer(key, "y", id));
    rig.answers(answers.collect());
    assert_eq!((rig.outputs().len(), rig.rows()), (600, 0));
}

#[test]
fn records_due_while_nothing_ran_are_due_at_the_start() {
    let mut rig = rig(THRICE);
    rig.push(records(&[("a", "a1"), ("b", "b1")])).unwrap();
    let ids = rig.correlations();
    rig.answers(vec![error("b", "boom", &ids[1], "1")]);
    rig.barrier();
    rig.clocks.wall = Timestamp(500);
    rig.restart(THRICE, KeyAssignment::new(0, 1));
    assert_eq!(rig.run.next_parked(), 10);
    rig.barrier();
    // The pause of one is over, and so is the timeout of the other's request: its pause begins.
    assert_eq!(rig.requests().0, ["b=\"b1\"#2"]);
    rig.at(510);
    assert_eq!(rig.requests().0, ["a=\"a1\"#2"]);
}

#[test]
fn patience_of_now_holds_for_what_is_parked_already() {
    let mut rig = rig(PATIENCE);
    rig.push(records(&[("a", "a1")])).unwrap();
    rig.barrier();
    let alone = KeyAssignment::new(0, 1);
    for (timeout_ms, due) in [(Some(10_000), 10_000), (None, i64::MAX), (Some(50), 50)] {
        let patience = RetryPolicy {
            timeout_ms,
            ..PATIENCE
        };
        rig.restart(patience, alone);
        assert_eq!(rig.run.next_parked(), due);
    }
    rig.clocks.wall = Timestamp(60);
    let given_up = try_all(&mut rig, |chain, context| chain.barrier(context));
    assert!(
        given_up.message().contains("no answer within 50 ms"),
        "{given_up}"
    );
}

#[test]
fn a_number_is_never_given_again() {
    let mut rig = rig(PATIENCE);
    rig.clocks.wall = Timestamp(7);
    rig.push(records(&[("a", "a1")])).unwrap();
    let ids = rig.correlations();
    rig.answers(vec![answer("a", "1", &ids[0])]);
    rig.push(records(&[("a", "a2")])).unwrap();
    let next = rig.correlations();
    assert_ne!(next, ids);
    rig.answers(vec![answer("a", "1", &ids[0])]);
    assert_eq!(rig.reasons(), ["not_parked"]);
    rig.barrier();
    // No parked record is left that would remember it.
    rig.answers(vec![answer("a", "2", &next[0])]);
    rig.clocks.wall = Timestamp(8);
    rig.restart(PATIENCE, KeyAssignment::new(0, 1));
    rig.push(records(&[("a", "a3")])).unwrap();
    let last = rig.correlations();
    assert!(!ids.contains(&last[0]) && !next.contains(&last[0]));
}

#[test]
fn a_row_that_can_not_be_read_stops_the_engine() {
    let damaged = "what an offload has parked can't be read";
    let older = "was written by an earlier version";
    for (row, told) in [
        (vec![9, 9], damaged),
        (vec![2, 9], damaged),
        (vec![1, 0], older),
    ] {
        let mut rig = rig(PATIENCE);
        rig.push(records(&[("a", "a1")])).unwrap();
        let store = &mut rig.stores[3];
        let all = stoatflow_state::KeyRange::default();
        let (key, mut stored) = store.store.scan(rig.epoch, &all, 1).unwrap().remove(0);
        stored.value = stoatflow_core::Datum::Bytes(row.into());
        store
            .store
            .put(rig.epoch, &mut store.dirty, &key, Some(stored))
            .unwrap();
        let mut fresh = closed(offload(PATIENCE), None);
        std::mem::swap(&mut fresh.stores, &mut rig.stores);
        let error = try_all(&mut fresh, |chain, context| chain.open(context));
        assert!(error.message().contains(told), "{error}");
        assert!(error.coordinates().node.is_some());
    }
}
