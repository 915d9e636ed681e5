//! `/dead-letters` and `/doctor` through real requests.

use super::fixture::{MONOTONIC_MS, NOW_MS, Port};
use crate::admin::dead_letters::tests::record;
use serde_json::{Value, json};
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Error, Timestamp};
use stoatflow_protocol::Lifecycle;

#[test]
fn dead_letters_are_paged() {
    let port = Port::running();
    let (code, body) = port.get("/dead-letters");
    assert_eq!(code, 200);
    assert_eq!(
        body,
        json!({
            "application_id": "word-count", "at_ms": NOW_MS, "since_ms": NOW_MS, "topics": [], "count": 0, "kept": 100,
            "letters": [], "next": null,
        })
    );
    let records: Vec<_> = (1..=25).map(|offset| record(offset, b"<i>")).collect();
    port.status.dead_letters.sent(Epoch(1), &records);
    port.status
        .dead_letters
        .committed(Epoch(1), Timestamp(NOW_MS));
    let body = port.get("/dead-letters").1;
    assert_eq!((&body["count"], &body["next"]), (&json!(25), &json!(6)));
    assert_eq!(body["letters"].as_array().unwrap().len(), 20);
    assert_eq!(body["letters"][0]["value"]["content"], "<i>");
    let body = port.get("/dead-letters?before=6&limit=3").1;
    assert_eq!(
        (&body["letters"][0]["id"], &body["next"]),
        (&json!(5), &json!(3))
    );
    for wrong in ["limit=0", "limit=101", "limit=x", "before=-1", "after=3"] {
        let (code, body) = port.get(&format!("/dead-letters?{wrong}"));
        assert_eq!(code, 400, "{wrong}");
        assert_eq!(body["type"], "urn:stoatflow:bad_request");
        assert!(
            body["next_step"].as_str().unwrap().contains("?limit="),
            "{body}"
        );
    }
}

fn codes(body: &Value) -> Vec<(&str, &str)> {
    let findings = body["findings"].as_array().unwrap().iter();
    let findings = findings.map(|f| (f["severity"].as_str().unwrap(), f["code"].as_str().unwrap()));
    // Those depend on the machine that the test runs on.
    findings
        .filter(|(_, code)| !matches!(*code, "disk_nearly_full" | "files_nearly_out"))
        .collect()
}

#[test]
fn the_doctor_finds_nothing_or_the_most_serious_first() {
    let port = Port::running();
    let (code, body) = port.get("/doctor");
    assert_eq!((code, &body["at_ms"]), (200, &json!(NOW_MS)));
    assert_eq!(codes(&body), []);
    port.status.restarts.store(1, Relaxed);
    port.status.dropped("by-word", "processing_dead_letter", 3);
    port.status
        .progress_ms
        .store(MONOTONIC_MS - 40_000, Relaxed);
    let body = port.get("/doctor").1;
    assert_eq!(
        codes(&body),
        [
            ("critical", "stalled"),
            ("warning", "dead_letters"),
            ("info", "restarts")
        ]
    );
    for finding in body["findings"].as_array().unwrap() {
        for part in ["message", "next_step", "page"] {
            assert!(!finding[part].as_str().unwrap().is_empty(), "{finding}");
        }
    }
}

#[test]
fn an_application_that_has_failed_says_it_once() {
    let port = Port::running();
    port.status
        .failed(&Error::user("it raised").hint("fix app.py"));
    port.enter(&[Lifecycle::Failed]);
    let body = port.get("/doctor").1;
    assert_eq!(codes(&body), [("critical", "failed")]);
    let first = &body["findings"][0];
    assert_eq!(first["next_step"], "fix app.py");
    assert!(
        !first["message"].as_str().unwrap().contains("fix app.py"),
        "{first}"
    );
}
