//! Parking, requests, answers and results.

mod restarts;

use super::{ATTEMPT, CORRELATION, ERROR};
use crate::KeyAssignment;
use crate::testing::*;
use std::sync::atomic::Ordering;
use stoatflow_core::{Handler, Header, Record, SinkId, StoreId, Timestamp};
use stoatflow_plan::{Delivery, Function, Op, RetryPolicy};

const PATIENCE: RetryPolicy = RetryPolicy {
    timeout_ms: Some(100),
    attempts: 1,
    first_ms: 10,
    most_ms: 40,
    jitter: 0.0,
    retry_timeouts: true,
    retry_errors: true,
};

const THRICE: RetryPolicy = RetryPolicy {
    attempts: 3,
    ..PATIENCE
};

fn offload(patience: RetryPolicy) -> Op {
    Op::Offload {
        store: StoreId(3),
        key: serde("string"),
        value: serde("string"),
        response: serde("string"),
        request_value: serde("json"),
        request: None,
        function: Function::Udf(0),
        with_key: false,
        patience,
        instead_of_timeout: None,
        instead_of_error: None,
        timeout_handler: None,
        max_parked: 3,
        feeders: vec![],
    }
}

fn rig_of(op: Op, on_error: Option<Handler>) -> Rig {
    let mut rig = closed(op, on_error);
    rig.open();
    rig
}

/// Records at 0, answers at 1; results go to sink 0, requests to sink 2. Not open yet.
fn closed(op: Op, on_error: Option<Handler>) -> Rig {
    let nodes = vec![
        (op, vec![2, 3], Delivery::Batch),
        (
            Op::OffloadAnswers {
                store: StoreId(3),
                of: stoatflow_core::NodeId(0),
            },
            vec![2, 3],
            Delivery::Batch,
        ),
        (Op::Sink { sink: SinkId(0) }, vec![], Delivery::Batch),
        (Op::Sink { sink: SinkId(2) }, vec![], Delivery::Batch),
    ];
    let mut plan = plan(nodes);
    let parked = stoatflow_plan::Store {
        id: StoreId(3),
        key: serde("bytes"),
        value: serde("bytes"),
        ..plan.stores[0].clone()
    };
    plan.stores.push(parked);
    plan.sinks[2].value = serde("bytes");
    plan.nodes[0].on_error = on_error;
    let once = std::sync::atomic::AtomicU32::new(0);
    let once = closure(move |values| match once.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Ok(values[0].clone()),
        _ => Err(raised()),
    });
    let both = closure(|sides| match sides {
        [left, right] => Ok(text(&format!("{}+{}", word(left), word(right)))),
        _ => panic!("two sides"),
    });
    let mut rig = Rig::of(&plan, vec![both, once], false).unwrap();
    rig.clocks.wall = Timestamp(0);
    rig
}

fn rig(patience: RetryPolicy) -> Rig {
    rig_of(offload(patience), None)
}

impl Rig {
    fn at(&mut self, wall: i64) {
        self.clocks.wall = Timestamp(wall);
        self.barrier();
    }

    /// The requests sent: key, value, attempt, and the correlation of each.
    fn requests(&mut self) -> (Vec<String>, Vec<String>) {
        let sent = |output: &crate::Output| output.sink == SinkId(2);
        let of = |output: &crate::Output, name: &str| {
            let found = super::headers::header(&output.headers, name).and_then(|h| h.value.clone());
            String::from_utf8(found.expect("a header").to_vec()).unwrap()
        };
        let all = self.effects.outputs.iter().filter(|o| sent(o));
        let shown = all.clone().map(|o| {
            let part = |bytes: &Option<bytes::Bytes>| {
                String::from_utf8(bytes.clone().unwrap().to_vec()).unwrap()
            };
            format!("{}={}#{}", part(&o.key), part(&o.value), of(o, ATTEMPT))
        });
        let found = (
            shown.collect(),
            all.map(|o| of(o, CORRELATION)).collect::<Vec<_>>(),
        );
        self.effects.outputs.retain(|o| !sent(o));
        found
    }

    fn correlations(&mut self) -> Vec<String> {
        self.requests().1
    }

    fn answers(&mut self, answers: Vec<Record>) {
        self.push_at(1, answers).unwrap();
    }

    fn rows(&self) -> usize {
        let all = self.stores[3].store.scan(
            self.epoch,
            &stoatflow_state::KeyRange::default(),
            usize::MAX,
        );
        all.expect("a readable store").len()
    }

    fn reasons(&mut self) -> Vec<&'static str> {
        self.dropped().into_iter().map(|(_, why)| why).collect()
    }

    /// A new operator over the same rows.
    fn restart(&mut self, patience: RetryPolicy, assignment: KeyAssignment) {
        self.assignment = assignment;
        let mut fresh = closed(offload(patience), None);
        // Another run: state in memory is lost.
        std::mem::swap(&mut self.clocks, &mut fresh.clocks);
        self.clocks.wall = fresh.clocks.wall;
        self.reopen(fresh);
    }
}

fn records(all: &[(&str, &str)]) -> Vec<Record> {
    (1..)
        .zip(all)
        .map(|(at, (key, value))| record(key, value, at))
        .collect()
}

fn with(mut answer: Record, headers: &[(&str, &str)]) -> Record {
    let headers = headers.iter().map(|(name, value)| Header {
        name: (*name).into(),
        value: Some(value.as_bytes().to_vec().into()),
    });
    answer.headers = Some(headers.collect());
    answer
}

/// An answer as its source emits it.
fn answer(key: &str, value: &str, correlation: &str) -> Record {
    raw_answer(key, value.as_bytes(), correlation)
}

fn raw_answer(key: &str, value: &[u8], correlation: &str) -> Record {
    let mut answer = with(record(key, "~", 900), &[(CORRELATION, correlation)]);
    answer.value = stoatflow_core::Datum::Bytes(value.to_vec().into());
    answer
}

fn error(key: &str, message: &str, correlation: &str, attempt: &str) -> Record {
    let headers = [
        (CORRELATION, correlation),
        (ERROR, message),
        (ATTEMPT, attempt),
    ];
    with(record(key, "~", 900), &headers)
}

#[test]
fn a_record_is_parked_until_its_answer_comes() {
    let mut rig = rig(PATIENCE);
    rig.push(records(&[("a", "a1"), ("b", "b1")])).unwrap();
    let (requests, ids) = rig.requests();
    assert_eq!(requests, ["a=\"a1\"#1", "b=\"b1\"#1"]);
    assert_eq!((rig.outputs().len(), rig.rows()), (0, 2));
    rig.at(0);
    rig.answers(vec![answer("b", "yes", &ids[1])]);
    // The record's own timestamp, not the answer's.
    assert_eq!(rig.outputs(), ["0:b=b1+yes@2"]);
    assert_eq!(rig.rows(), 1);
    rig.answers(vec![answer("a", "no", &ids[0])]);
    assert_eq!(rig.outputs(), ["0:a=a1+no@1"]);
    assert_eq!((rig.rows(), rig.reasons().len()), (0, 0));
}

#[test]
fn results_of_a_key_come_in_the_order_of_its_records() {
    let mut rig = rig(PATIENCE);
    rig.push(records(&[
        ("a", "a1"),
        ("a", "a2"),
        ("a", "a3"),
        ("b", "b1"),
    ]))
    .unwrap();
    let ids = rig.correlations();
    rig.answers(vec![answer("a", "3", &ids[2]), answer("a", "2", &ids[1])]);
    assert_eq!((rig.outputs().len(), rig.rows()), (0, 4));
    rig.answers(vec![answer("b", "1", &ids[3])]);
    assert_eq!(rig.outputs(), ["0:b=b1+1@4"]);
    rig.answers(vec![answer("a", "1", &ids[0])]);
    let given = ["0:a=a1+1@1", "0:a=a2+2@2", "0:a=a3+3@3"];
    assert_eq!(rig.outputs(), given);
    assert_eq!(rig.rows(), 0);
}

#[test]
fn unexpected_answers_are_counted_by_reason() {
    let mut rig = rig(PATIENCE);
    rig.push(records(&[("a", "a1"), ("a", "a2")])).unwrap();
    let ids = rig.correlations();
    rig.answers(vec![
        record("a", "x", 9),
        answer("a", "x", "another/0"),
        answer("~", "x", &ids[0]),
        answer("a", "x", &ids[0].replace("/0", "/77")),
        answer("b", "x", &ids[0]),
        answer("a", "2", &ids[1]),
        answer("a", "again", &ids[1]),
    ]);
    let reasons = [
        "no_correlation",
        "no_correlation",
        "no_correlation",
        "not_parked",
        "not_parked",
        "duplicate_answer",
    ];
    assert_eq!(rig.reasons(), reasons);
    rig.answers(vec![answer("a", "1", &ids[0]), answer("a", "1", &ids[0])]);
    assert_eq!(rig.reasons(), ["not_parked"]);
    assert_eq!(rig.outputs(), ["0:a=a1+1@1", "0:a=a2+2@2"]);
}

#[test]
fn a_request_that_is_not_answered_is_sent_again_and_at_last_given_up() {
    let mut op = offload(THRICE);
    if let Op::Offload {
        timeout_handler, ..
    } = &mut op
    {
        *timeout_handler = Some(Handler::Dlq("dead".into()));
    }
    let mut rig = rig_of(op, None);
    rig.push(records(&[("a", "a1")])).unwrap();
    let first = rig.correlations();
    assert_eq!(rig.run.next_parked(), 100);
    rig.at(99);
    assert_eq!(rig.requests().0.len(), 0);
    rig.at(100);
    assert_eq!((rig.requests().0.len(), rig.run.next_parked()), (0, 110));
    rig.at(110);
    assert_eq!(
        rig.requests(),
        (vec!["a=\"a1\"#2".to_owned()], first.clone())
    );
    rig.at(210);
    // Twice the pause.
    rig.at(229);
    assert_eq!(rig.requests().0.len(), 0);
    rig.at(230);
    assert_eq!(
        rig.requests(),
        (vec!["a=\"a1\"#3".to_owned()], first.clone())
    );
    rig.at(329);
    assert_eq!((rig.rows(), rig.handled().len()), (1, 0));
    rig.at(330);
    assert_eq!(rig.handled(), ["processing_dead_letter dead@1"]);
    assert_eq!((rig.rows(), rig.run.next_parked()), (0, i64::MAX));
    rig.answers(vec![answer("a", "late", &first[0])]);
    assert_eq!(rig.reasons(), ["not_parked"]);
}

#[test]
fn an_answer_to_any_request_counts_an_error_only_to_the_last() {
    let mut rig = rig(THRICE);
    rig.push(records(&[("a", "a1"), ("b", "b1")])).unwrap();
    let ids = rig.correlations();
    rig.answers(vec![error("a", "boom", &ids[0], "1")]);
    // Between two requests.
    rig.answers(vec![error("a", "boom", &ids[0], "1")]);
    assert_eq!(rig.reasons(), ["outdated_error"]);
    rig.at(10);
    assert_eq!(rig.requests().0, ["a=\"a1\"#2"]);
    rig.answers(vec![error("a", "boom", &ids[0], "1")]);
    assert_eq!(rig.reasons(), ["outdated_error"]);
    rig.answers(vec![answer("a", "first", &ids[0])]);
    assert_eq!(rig.outputs(), ["0:a=a1+first@1"]);
    // During a pause, too.
    rig.answers(vec![error("b", "boom", &ids[1], "1")]);
    rig.answers(vec![answer("b", "second", &ids[1])]);
    assert_eq!(rig.outputs(), ["0:b=b1+second@2"]);
    assert_eq!(rig.run.next_parked(), i64::MAX);
}

#[test]
fn failed_records_are_replaced_in_their_turn() {
    let mut op = offload(PATIENCE);
    if let Op::Offload {
        instead_of_timeout,
        instead_of_error,
        ..
    } = &mut op
    {
        *instead_of_timeout = Some(Function::Udf(0));
        *instead_of_error = Some(Function::Udf(0));
    }
    let mut rig = rig_of(op, None);
    rig.push(records(&[("a", "a1"), ("a", "a2"), ("a", "a3")]))
        .unwrap();
    let ids = rig.correlations();
    rig.answers(vec![
        error("a", "boom", &ids[1], "1"),
        answer("a", "3", &ids[2]),
    ]);
    assert_eq!(rig.outputs().len(), 0);
    rig.at(100);
    let given = [
        "0:a=a1+no answer within 100 ms, after 1 request@1",
        "0:a=a2+boom@2",
        "0:a=a3+3@3",
    ];
    assert_eq!(rig.outputs(), given);
}

#[test]
fn a_handler_that_wants_it_again_has_another_request_sent() {
    let again = Handler::of_setting("log_and_continue").unwrap();
    let again = Handler::Retry(Box::new(stoatflow_core::RetryHandler {
        times: 1,
        backoff_ms: 0,
        then: again,
    }));
    let mut rig = rig_of(offload(PATIENCE), Some(again));
    rig.push(records(&[("a", "a1"), ("a", "a2")])).unwrap();
    let ids = rig.correlations();
    rig.answers(vec![answer("a", "2", &ids[1])]);
    rig.answers(vec![error("a", "boom", &ids[0], "1")]);
    assert_eq!(rig.requests().0, ["a=\"a1\"#2"]);
    assert_eq!(rig.outputs().len(), 0);
    rig.answers(vec![error("a", "boom", &ids[0], "2")]);
    assert_eq!(rig.handled(), ["processing_error"]);
    assert_eq!(rig.outputs(), ["0:a=a2+2@2"]);
}

#[test]
fn a_record_for_which_no_other_request_can_be_made_leaves_in_its_turn() {
    let mut op = offload(RetryPolicy {
        timeout_ms: None,
        first_ms: 0,
        ..THRICE
    });
    if let Op::Offload { request, .. } = &mut op {
        // The function succeeds twice.
        *request = Some(Function::Udf(1));
    }
    let mut rig = rig_of(op, Handler::of_setting("log_and_continue"));
    rig.push(records(&[("a", "a1"), ("a", "a2")])).unwrap();
    let ids = rig.correlations();
    rig.answers(vec![error("a", "boom", &ids[1], "1")]);
    assert_eq!(rig.handled(), ["processing_error"]);
    assert_eq!((rig.requests().0.len(), rig.rows()), (0, 2));
    rig.restart(THRICE, KeyAssignment::new(0, 1));
    rig.answers(vec![answer("a", "2", &ids[1]), answer("a", "1", &ids[0])]);
    assert_eq!(rig.outputs(), ["0:a=a1+1@1"]);
    assert_eq!((rig.reasons(), rig.rows()), (vec!["duplicate_answer"], 0));
}

#[test]
fn nothing_is_given_up_while_answers_wait_to_be_read() {
    let mut rig = rig(THRICE);
    rig.push(records(&[("a", "a1"), ("b", "b1")])).unwrap();
    let ids = rig.correlations();
    rig.answers(vec![error("b", "boom", &ids[1], "1")]);
    rig.run.set_answers_wait(true);
    rig.at(500);
    assert_eq!(rig.requests().0.len(), 0);
    rig.answers(vec![answer("a", "1", &ids[0])]);
    rig.run.set_answers_wait(false);
    rig.at(500);
    assert_eq!(rig.requests().0, ["b=\"b1\"#2"]);
    assert_eq!(rig.outputs(), ["0:a=a1+1@1"]);
}

#[test]
fn an_answer_that_can_not_be_read_is_an_error_of_its_record() {
    let mut op = offload(THRICE);
    if let Op::Offload {
        instead_of_error, ..
    } = &mut op
    {
        *instead_of_error = Some(Function::Udf(0));
    }
    let mut rig = rig_of(op, None);
    rig.push(records(&[("a", "a1")])).unwrap();
    let ids = rig.correlations();
    rig.answers(vec![raw_answer("a", b"\xff", &ids[0])]);
    rig.at(10);
    assert_eq!(rig.requests().0, ["a=\"a1\"#2"]);
    rig.answers(vec![raw_answer("a", b"\xff", &ids[0])]);
    rig.at(30);
    rig.answers(vec![raw_answer("a", b"\xff", &ids[0])]);
    let given = rig.outputs();
    let given = given.iter().find(|output| output.starts_with("0:"));
    assert!(
        given
            .unwrap()
            .starts_with("0:a=a1+its answer can't be read: "),
        "{given:?}"
    );
    // No record waits for this answer, so it isn't deserialized.
    rig.answers(vec![raw_answer("a", b"\xff", &ids[0])]);
    assert_eq!(rig.reasons(), ["not_parked"]);
}

#[test]
fn an_error_may_have_any_value() {
    let mut rig = rig(THRICE);
    rig.push(records(&[("a", "a1")])).unwrap();
    let ids = rig.correlations();
    let mut error = error("a", "boom", &ids[0], "1");
    error.value = stoatflow_core::Datum::Bytes(b"\xff".to_vec().into());
    rig.answers(vec![error]);
    rig.at(10);
    assert_eq!(rig.requests().0, ["a=\"a1\"#2"]);
}

#[test]
fn a_failure_names_the_record_and_what_to_do() {
    let mut rig = rig(PATIENCE);
    rig.push(records(&[("a", "a1")])).unwrap();
    let ids = rig.correlations();
    let failed = rig.push_at(1, vec![error("a", "ValueError: boom", &ids[0], "1")]);
    let failed = failed.unwrap_err();
    assert!(
        failed
            .message()
            .contains("the worker failed: ValueError: boom")
    );
    assert!(failed.next_step().contains("on_error="), "{failed}");
    assert_eq!(failed.coordinates().topic.as_deref(), Some("in"));
}

#[test]
fn a_record_without_a_key_is_refused() {
    let mut rig = rig(PATIENCE);
    let refused = rig.push(records(&[("~", "n")])).unwrap_err();
    assert!(refused.message().contains("without a key"), "{refused}");
    assert!(refused.next_step().contains("select_key"), "{refused}");
}

#[test]
fn the_error_handler_does_not_decide_about_timeouts() {
    let mut rig = rig_of(offload(PATIENCE), Handler::of_setting("log_and_continue"));
    rig.push(records(&[("a", "a1"), ("b", "b1")])).unwrap();
    let ids = rig.correlations();
    rig.answers(vec![error("b", "boom", &ids[1], "1")]);
    assert_eq!(rig.handled(), ["processing_error"]);
    rig.clocks.wall = Timestamp(100);
    let given_up = try_all(&mut rig, |chain, context| chain.barrier(context));
    assert!(given_up.message().contains("no answer"), "{given_up}");
    assert!(given_up.next_step().contains("on_timeout="), "{given_up}");
}

#[test]
fn a_full_parking_lot_says_so_and_shows_since_when() {
    let mut rig = rig(PATIENCE);
    let node = stoatflow_core::NodeId(0);
    rig.clocks.wall = Timestamp(5);
    rig.push(records(&[("a", "a1"), ("b", "b1")])).unwrap();
    rig.clocks.wall = Timestamp(6);
    assert_eq!(rig.run.room_at(node), 1);
    rig.push(records(&[("c", "c1")])).unwrap();
    assert_eq!(rig.run.room_at(node), 0);
    let ids = rig.correlations();
    rig.answers(vec![answer("a", "1", &ids[0])]);
    assert_eq!(rig.run.room_at(node), 1);
    // A record on its way takes up room before it arrives.
    rig.run.reserve_park_room(node, 1);
    assert_eq!(rig.run.room_at(node), 0);
    rig.run.release_park_room(node, 1);
    let lots = rig.run.occupancy();
    assert_eq!(
        (lots[0].parked, lots[0].most, lots[0].oldest),
        (2, 3, Some(5))
    );
}

fn try_all(
    rig: &mut Rig,
    turn: impl FnOnce(&mut crate::Chain, &mut crate::Context<'_>) -> stoatflow_core::Result<()>,
) -> stoatflow_core::Error {
    let mut context = crate::Context {
        epoch: rig.epoch,
        stores: &mut rig.stores,
        effects: &mut rig.effects,
        clocks: &mut rig.clocks,
        assignment: rig.assignment,
        run: &rig.run,
    };
    turn(&mut rig.chain, &mut context).unwrap_err()
}
