use super::*;

fn steps(order: CommitOrder) -> Vec<CommitStep> {
    let mut machine = CommitMachine::new(order);
    let mut seen = Vec::new();
    let mut decision = machine.sealed(Epoch(1));
    while let Decision::Do(step) = decision {
        seen.push(step);
        decision = machine.succeeded();
    }
    assert_eq!(decision, Decision::Done(Epoch(1)));
    seen
}

fn fail_at(step: CommitStep, kind: ErrorKind) -> Decision {
    let mut machine = CommitMachine::new(CommitOrder::SAFE);
    let mut decision = machine.sealed(Epoch(7));
    while decision != Decision::Do(step) {
        decision = machine.succeeded();
    }
    machine.failed(kind)
}

#[test]
fn the_safe_order_keeps_laws_five_and_six() {
    let order = steps(CommitOrder::SAFE);
    let at = |s| {
        order
            .iter()
            .position(|x| *x == s)
            .expect("every step occurs")
    };
    assert!(at(CommitStep::Offsets) < at(CommitStep::Commit));
    assert!(at(CommitStep::Flush) < at(CommitStep::Offsets));
    assert!(at(CommitStep::Commit) < at(CommitStep::Apply));
    assert!(at(CommitStep::Apply) < at(CommitStep::Announce));
    assert_eq!(order.len(), 6);
}

#[test]
fn failures_before_the_commit_abort() {
    for step in [
        CommitStep::Changelog,
        CommitStep::Flush,
        CommitStep::Offsets,
    ] {
        assert_eq!(
            fail_at(step, ErrorKind::Unavailable),
            Decision::Abort(StopReason::Restart)
        );
    }
}

#[test]
fn fencing_stops_at_every_step_without_an_abort() {
    for step in [
        CommitStep::Changelog,
        CommitStep::Flush,
        CommitStep::Offsets,
        CommitStep::Commit,
    ] {
        assert_eq!(
            fail_at(step, ErrorKind::Fenced),
            Decision::Stop(StopReason::Fenced)
        );
    }
}

#[test]
fn an_unknown_outcome_is_never_aborted_or_repeated() {
    assert_eq!(
        fail_at(CommitStep::Commit, ErrorKind::UnknownOutcome),
        Decision::Stop(StopReason::Unknown)
    );
}

#[test]
fn a_full_disk_after_the_commit_stops_without_an_abort() {
    assert_eq!(
        fail_at(CommitStep::Apply, ErrorKind::DiskFull),
        Decision::Stop(StopReason::Restart)
    );
}

#[test]
#[should_panic(expected = "sealed while")]
fn two_commits_at_a_time_are_a_bug() {
    let mut machine = CommitMachine::new(CommitOrder::SAFE);
    machine.sealed(Epoch(1));
    machine.sealed(Epoch(2));
}

#[test]
#[should_panic(expected = "sealed after")]
fn epochs_never_go_back() {
    let mut machine = CommitMachine::new(CommitOrder::SAFE);
    let mut decision = machine.sealed(Epoch(2));
    while let Decision::Do(_) = decision {
        decision = machine.succeeded();
    }
    machine.sealed(Epoch(2));
}
