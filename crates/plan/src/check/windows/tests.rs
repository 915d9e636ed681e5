use crate::testing::{compiled, refused, stream, udf};
use crate::{Op, StoreKind, Until};
use serde_json::{Value, json};

fn windowed(window: Value, below: Vec<Value>) -> Value {
    let mut nodes = vec![
        stream(),
        json!({"op": "group_by_key", "from": 0}),
        json!({"op": "windowed_by", "from": 1, "window": window}),
    ];
    nodes.extend(below);
    json!(nodes)
}

fn tumbling() -> Value {
    json!({"type": "tumbling", "size_ms": 10, "grace_ms": 5})
}

fn count(m: Value) -> Value {
    json!({"op": "count", "from": 2, "materialized": m})
}

#[test]
fn windows_that_hold_nothing_are_refused() {
    for (window, part) in [
        (
            json!({"type": "tumbling", "size_ms": 0, "grace_ms": 0}),
            "size of the window must be positive",
        ),
        (
            json!({"type": "tumbling", "size_ms": 1, "grace_ms": -1}),
            "grace must not be negative",
        ),
        (
            json!({"type": "hopping", "size_ms": 5, "advance_ms": 6, "grace_ms": 0}),
            "smaller than its advance of 6 ms",
        ),
        (
            json!({"type": "hopping", "size_ms": 5, "advance_ms": 0, "grace_ms": 0}),
            "advance of the window must be positive",
        ),
        (
            json!({"type": "sliding", "difference_ms": -1, "grace_ms": 0}),
            "difference must not be negative",
        ),
        (
            json!({"type": "session", "gap_ms": 0, "grace_ms": 0}),
            "gap of the window must be positive",
        ),
        (
            json!({"type": "unlimited", "start_ms": -1}),
            "start must not be negative",
        ),
        (json!({"type": "count", "records": 0}), "holds nothing"),
    ] {
        let message = refused(&windowed(window, vec![]));
        assert!(
            message.starts_with("app.py:3: windowed_by(): ") && message.contains(part),
            "{message}"
        );
    }
}

#[test]
fn a_retention_covers_the_window_and_its_grace() {
    let message = refused(&windowed(
        tumbling(),
        vec![count(json!({"retention_ms": 14}))],
    ));
    assert!(message.contains("give at least 15 ms"), "{message}");
    let plan = compiled(&windowed(
        tumbling(),
        vec![count(json!({"retention_ms": 15}))],
    ));
    assert!(matches!(
        plan.stores[0].kind,
        StoreKind::Window {
            retention_ms: 15,
            size_ms: 10,
            ..
        }
    ));
    let unwindowed = json!([stream(), {"op": "group_by_key", "from": 0}, {"op": "count", "from": 1, "materialized": {"retention_ms": 5}}]);
    assert!(refused(&unwindowed).contains("keeps no windows"));
}

#[test]
fn windows_that_never_close_have_no_final_results() {
    let emit = json!({"op": "emit_strategy", "from": 2, "strategy": "on_window_close"});
    let message = refused(&windowed(
        json!({"type": "unlimited", "start_ms": 0}),
        vec![emit],
    ));
    assert!(message.contains("never closes"), "{message}");
}

#[test]
fn suppress_finds_the_grace_of_the_window_above() {
    let until = json!({"type": "window_closes", "grace_ms": -1});
    let filter = json!({"op": "filter", "from": 3, "function": udf()});
    let suppress = |from: usize| json!({"op": "suppress", "from": from, "until": until});
    let grace = |plan: crate::PhysicalPlan| {
        plan.nodes.iter().find_map(|n| match n.op {
            Op::Suppress {
                until: Until::WindowCloses { grace_ms },
                ..
            } => Some(grace_ms),
            _ => None,
        })
    };
    let plan = compiled(&windowed(
        tumbling(),
        vec![count(json!({})), filter, suppress(4)],
    ));
    assert_eq!(grace(plan), Some(5));
    let session = json!({"type": "session", "gap_ms": 7, "grace_ms": 5});
    let plan = compiled(&windowed(session, vec![count(json!({})), suppress(3)]));
    assert_eq!(grace(plan), Some(12));
    let plain = json!([stream(), {"op": "group_by_key", "from": 0}, {"op": "count", "from": 1}, {"op": "suppress", "from": 2, "until": until}]);
    let message = refused(&plain);
    assert!(
        message.contains("app.py:1: stream() has no windows"),
        "{message}"
    );
}

#[test]
fn suppress_is_for_keys_with_windows_and_full_buffers_of_final_results_stop() {
    let until = json!({"type": "window_closes", "grace_ms": -1});
    let group =
        json!({"op": "group_by", "from": 3, "function": udf(), "key": "string", "value": "int64"});
    let again = json!({"op": "count", "from": 4});
    let suppress = json!({"op": "suppress", "from": 5, "until": until});
    let message = refused(&windowed(
        tumbling(),
        vec![count(json!({})), group, again, suppress],
    ));
    assert!(message.contains("have no window"), "{message}");
    let early = json!({"op": "suppress", "from": 3, "until": until, "max_records": 1});
    let message = refused(&windowed(tumbling(), vec![count(json!({})), early]));
    assert!(message.contains("can't emit early"), "{message}");
}

#[test]
fn stores_and_joins_are_checked_as_well() {
    let store = |kind: Value| json!([stream(), {"op": "state_store", "store": "s", "kind": kind, "key": "string", "value": "string"}, {"op": "process", "from": [0], "processor": 0, "stores": ["s"]}]);
    let message = refused(&store(
        json!({"type": "window", "retention_ms": 1, "size_ms": 2}),
    ));
    assert!(
        message.contains("smaller than a window of 2 ms"),
        "{message}"
    );
    let join = json!({"op": "join", "from": 0, "other": 1, "function": udf(), "window": {"before_ms": -5, "after_ms": 4, "grace_ms": 0}});
    let other = json!({"op": "stream", "topics": ["b"], "key": "string", "value": "string"});
    assert!(refused(&json!([stream(), other, join])).contains("ends before it starts"));
    let within = json!({"op": "deduplicate", "from": 0, "within_ms": 0});
    assert!(refused(&json!([stream(), within])).contains("at least a millisecond"));
}

#[test]
fn windows_are_not_versioned() {
    let versioned = || json!({"store": "s", "history_ms": 5});
    let session = json!({"type": "session", "gap_ms": 5, "grace_ms": 0});
    let counting = json!({"type": "count", "records": 3});
    for window in [tumbling(), session, counting] {
        for kept in [
            versioned(),
            json!({"store": "s", "history_ms": 5, "retention_ms": 15}),
        ] {
            let message = refused(&windowed(window.clone(), vec![count(kept)]));
            assert!(
                message.contains("leave history out (retention= says"),
                "{message}"
            );
        }
    }
    let message = refused(&json!([
        stream(),
        {"op": "deduplicate", "from": 0, "within_ms": 5, "materialized": versioned()},
    ]));
    assert!(
        message.contains("windows are not versioned: leave history out"),
        "{message}"
    );
    // A count without windows may be versioned.
    compiled(&json!([
        stream(),
        {"op": "group_by_key", "from": 0},
        {"op": "count", "from": 1, "materialized": versioned()},
    ]));
}
