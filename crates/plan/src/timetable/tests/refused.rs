//! Error messages for invalid timetables, and descriptions of valid ones.

use super::{bare, cron, every};
use crate::testing::{compiled, ops, refused};
use crate::timetable::{Timetable, TimetableSpec};
use serde_json::{Value, json};

fn problem(times: &TimetableSpec) -> String {
    Timetable::new(times).expect_err("it was taken")
}

#[test]
fn a_wrong_expression_is_refused_with_a_right_one() {
    for wrong in [
        "",
        "* * * *",
        "61 * * * *",
        "every day",
        "* * * * * * * *",
        "*/5",
    ] {
        let message = problem(&cron(wrong, "UTC"));
        assert!(
            message.starts_with(&format!("'{wrong}' is no cron expression: "))
                && message.contains("\"*/5 * * * *\""),
            "{message}"
        );
    }
    let message = problem(&cron("5/15 * * * *", "UTC"));
    assert!(message.contains(": Invalid step syntax: "), "{message}");
    let message = problem(&cron("0 0 30 2 *", "UTC"));
    assert!(
        message.contains("'0 0 30 2 *' never comes to pass"),
        "{message}"
    );
}

#[test]
fn an_unknown_zone_is_refused_with_one_that_is_near() {
    let message = problem(&every(1, "Europe/Berln"));
    assert_eq!(
        message,
        "the time zone 'Europe/Berln' is unknown; did you mean 'Europe/Berlin'?"
    );
    let message = problem(&every(1, "Nowhere"));
    assert!(
        message.contains("tz=\"Europe/Berlin\", or tz=\"UTC\""),
        "{message}"
    );
}

#[test]
fn both_or_none_is_refused() {
    let both = TimetableSpec {
        every_ms: Some(1),
        ..cron("* * * * *", "UTC")
    };
    assert!(problem(&both).contains("every= or cron="));
    assert!(problem(&bare("UTC")).contains("every=\"30s\" or cron=\"*/5 * * * *\""));
    assert!(problem(&every(0, "UTC")).contains("at least a millisecond"));
}

fn node(more: &Value) -> Value {
    let mut node = json!({"op": "scheduled", "name": "beat"});
    let fields = more.as_object().expect("an object").clone();
    node.as_object_mut().expect("an object").extend(fields);
    node
}

#[test]
fn findings_have_the_line() {
    let message = refused(&json!([
        {"op": "scheduled", "every_ms": 1},
        node(&json!({"cron": "x"})),
    ]));
    assert!(
        message.contains("app.py:1: scheduled(): needs a name"),
        "{message}"
    );
    assert!(
        message.contains("app.py:2: scheduled(): 'x' is no cron expression"),
        "{message}"
    );
    let twice = json!([node(&json!({"every_ms": 1})), node(&json!({"every_ms": 2}))]);
    assert!(
        refused(&twice).contains("the name 'beat' is used"),
        "{}",
        refused(&twice)
    );
}

#[test]
fn it_is_a_source_of_its_own_and_walks_to_the_lane_of_its_key() {
    let plan = compiled(&json!([
        node(&json!({"every_ms": 30_000, "tz": "Europe/Berlin"})),
        {"op": "group_by_key", "from": 0},
        {"op": "count", "from": 1, "materialized": {"store": "beats"}},
    ]));
    assert!(plan.sources.is_empty());
    assert_eq!(ops(&plan, 0), ["scheduled", "exchange"]);
    assert_eq!(ops(&plan, 1), ["count"]);
    assert_eq!(plan.clocks[0].name, "schedule:beat");
    assert!(
        plan.description
            .contains("    Source: beat (scheduled: every 30s, Europe/Berlin)\n      --> "),
        "{}",
        plan.description
    );
}

#[test]
fn the_words_are_short() {
    for (times, words) in [
        (every(1, "UTC"), "every 1ms"),
        (every(90_000, "UTC"), "every 90s"),
        (every(86_400_000, "Asia/Tokyo"), "every 1d, Asia/Tokyo"),
        (cron("*/5 * * * *", "UTC"), "cron */5 * * * *"),
        (
            cron("0 9 * * 1", "Europe/Paris"),
            "cron 0 9 * * 1, Europe/Paris",
        ),
    ] {
        assert_eq!(times.words(), words);
    }
}
