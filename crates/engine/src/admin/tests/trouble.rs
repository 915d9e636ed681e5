//! `/dead-letters` through real requests.

use super::fixture::{NOW_MS, Port};
use crate::admin::dead_letters::tests::record;
use serde_json::json;
use stoatflow_core::{Epoch, Timestamp};

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
