use super::*;
use crate::admin::status::Status;
use crate::runtime::failpoint::Failpoints;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use stoatflow_core::SystemClock;
use stoatflow_log::GroupMember;

fn shared() -> Shared {
    let clock = Arc::new(SystemClock::new());
    let plan = Arc::new(crate::admin::tests::fixture::plan());
    let status = Arc::new(Status::new("orders", plan, 1));
    Shared::new(status, clock, 1, 1, true, Failpoints::default())
}

fn members(count: usize) -> Option<GroupInUse> {
    let member = |n| GroupMember {
        client_id: format!("orders-{n}-consumer"),
        host: "10.0.0.7".into(),
    };
    Some(GroupInUse {
        state: "Stable".into(),
        members: (1..=count).map(member).collect(),
    })
}

/// Runs `until_alone` with these answers, the last one repeated; returns the outcome and the number of
/// requests.
fn after(
    patience_ms: u64,
    answers: impl IntoIterator<Item = Result<Option<GroupInUse>>>,
) -> (Result<bool>, usize) {
    let answers = RefCell::new(answers.into_iter().collect::<VecDeque<_>>());
    let asked = RefCell::new(0);
    let ask = || {
        *asked.borrow_mut() += 1;
        let mut answers = answers.borrow_mut();
        if answers.len() > 1 {
            return answers.pop_front().unwrap();
        }
        match &answers[0] {
            Ok(found) => Ok(found.clone()),
            Err(error) => Err(Error::new(error.kind(), "again")),
        }
    };
    let patience = Duration::from_millis(patience_ms);
    let outcome = until_alone(&shared(), "orders", patience, ask);
    let asked = *asked.borrow();
    (outcome, asked)
}

#[test]
fn a_group_without_members_is_asked_for_once() {
    let (outcome, asked) = after(60_000, [Ok(None)]);
    assert_eq!((outcome.unwrap(), asked), (true, 1));
}

#[test]
fn members_that_leave_are_waited_for() {
    let (outcome, asked) = after(60_000, [Ok(members(2)), Ok(members(1)), Ok(None)]);
    assert_eq!((outcome.unwrap(), asked), (true, 3));
}

#[test]
fn members_that_stay_are_named() {
    // On a busy machine, the waiting may be over before the second request.
    let (outcome, _) = (1..=8)
        .map(|times| after(times * 300, [Ok(members(2))]))
        .find(|(_, asked)| *asked > 1)
        .expect("it waits for a while");
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    let text = error.to_string();
    assert!(
        text.contains(
            "'orders' has members ('orders-1-consumer' on 10.0.0.7, 'orders-2-consumer' on"
        ),
        "{text}"
    );
    assert!(
        error.next_step().contains("another application.id"),
        "{error}"
    );
    let (outcome, _) = after(0, [Ok(members(7))]);
    let text = outcome.unwrap_err().to_string();
    assert!(
        text.contains("5-consumer' on 10.0.0.7 and 2 more"),
        "{text}"
    );
    let nameless = GroupInUse {
        state: "Reconciling".into(),
        members: Vec::new(),
    };
    let text = joined("orders", &nameless).to_string();
    assert!(text.contains("the group is Reconciling"), "{text}");
}

#[test]
fn a_refused_request_is_ignored_and_a_missing_answer_is_not() {
    let refused = |kind| after(60_000, [Err(Error::new(kind, "no"))]);
    for kind in [ErrorKind::Unauthorized, ErrorKind::Config] {
        let (outcome, asked) = refused(kind);
        assert_eq!((outcome.unwrap(), asked), (true, 1));
    }
    let (outcome, _) = refused(ErrorKind::Unavailable);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_stop_ends_the_waiting() {
    let shared = shared();
    shared.stop();
    let outcome = until_alone(&shared, "orders", Duration::from_secs(60), || {
        Ok(members(1))
    });
    assert!(!outcome.unwrap());
}
