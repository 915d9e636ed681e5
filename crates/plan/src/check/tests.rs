use crate::testing::{compiled, refused, stream, udf};
use serde_json::json;

#[test]
fn all_problems_come_in_one_message_with_their_lines() {
    let message = refused(&json!([
        {"op": "stream", "topics": ["in"], "key": "strng", "value": "long"},
        {"op": "filter", "from": 7, "function": udf()},
        {"op": "count", "from": 0},
        {"op": "map", "from": 0, "function": {"udf": 9}},
        {"op": "to", "from": 0, "topic": "a b"},
    ]));
    for part in [
        "the topology has 6 problems",
        "app.py:1: stream(): unknown key serde 'strng', did you mean 'string'?",
        "unknown value serde 'long', did you mean 'int64'?",
        "app.py:2: filter(): its input 7 is not an earlier node",
        "app.py:3: count(): needs a grouped stream or a grouped table, but app.py:1: stream() gives a stream; call .group_by_key()",
        "app.py:4: map(): its function 9 is not in the table of 5 functions",
        "app.py:5: to(): the topic 'a b' holds ' '",
    ] {
        assert!(message.contains(part), "{part}\n{message}");
    }
}

#[test]
fn kinds_are_held_and_the_message_says_what_to_call() {
    let table = json!({"op": "table", "topic": "t", "key": "string", "value": "string"});
    for (node, hint) in [
        (
            json!({"op": "peek", "from": 0, "function": udf()}),
            ".to_stream()",
        ),
        (json!({"op": "to", "from": 0, "topic": "o"}), ".to_stream()"),
        (
            json!({"op": "count", "from": 0}),
            ".group_by(...) first, or .to_stream() and .group_by_key()",
        ),
    ] {
        let message = refused(&json!([table, node]));
        assert!(message.contains(hint), "{message}");
    }
    let grouped = json!({"op": "group_by_key", "from": 0});
    assert!(
        refused(&json!([stream(), grouped, {"op": "to", "from": 1, "topic": "o"}]))
            .contains("aggregate")
    );
    assert!(
        refused(&json!([stream(), {"op": "to_stream", "from": 0}])).contains("a stream already")
    );
}

#[test]
fn consequences_of_a_broken_node_are_not_reported() {
    let message = refused(&json!([
        stream(),
        {"op": "count", "from": 0},
        {"op": "to_stream", "from": 1},
        {"op": "to", "from": 2, "topic": "o"},
    ]));
    assert!(message.starts_with("app.py:2: count()"), "{message}");
}

#[test]
fn a_plan_must_read_something() {
    assert!(refused(&json!([])).contains("reads nothing"));
    let empty = json!([{"op": "stream", "topics": [], "key": "string", "value": "string"}]);
    assert!(refused(&empty).contains("name at least one topic"));
}

#[test]
fn a_topic_has_one_reader() {
    let table = json!({"op": "table", "topic": "in", "key": "string", "value": "string"});
    assert!(refused(&json!([stream(), table])).contains("app.py:1: stream() reads already"));
    assert!(refused(&json!([table, table])).contains("reads already"));
    let two = json!({"op": "stream", "topics": ["in", "b"], "key": "string", "value": "string"});
    assert!(refused(&json!([stream(), two])).contains("all their topics or none"));
    let other = json!({"op": "stream", "topics": ["in"], "key": "bytes", "value": "string"});
    assert!(refused(&json!([stream(), other])).contains("same serdes"));
    let late = json!({"op": "stream", "topics": ["in"], "key": "string", "value": "string", "reset": "latest"});
    assert!(refused(&json!([stream(), late])).contains("same place"));
    let plan = compiled(
        &json!([stream(), stream(), {"op": "to", "from": 0, "topic": "a"}, {"op": "to", "from": 1, "topic": "b"}]),
    );
    assert_eq!(plan.sources.len(), 1);
    assert_eq!(plan.nodes[0].children.len(), 2);
}

#[test]
fn a_stream_is_not_merged_with_itself() {
    let merge = json!({"op": "merge", "from": 0, "other": 1});
    assert!(refused(&json!([stream(), stream(), merge])).contains("with itself"));
}

#[test]
fn a_sink_may_write_what_the_plan_reads() {
    assert_eq!(
        compiled(&json!([stream(), {"op": "to", "from": 0, "topic": "in"}]))
            .sinks
            .len(),
        1
    );
}

#[test]
fn expressions_are_checked_inside() {
    let cast = json!({"op": "cast", "args": [{"op": "value"}], "to": "integer"});
    let deep = json!({"expr": {"op": "not", "args": [{"op": "eq", "args": [cast, {"op": "lit", "value": 1}]}]}});
    let message = refused(&json!([stream(), {"op": "filter", "from": 0, "function": deep}]));
    assert!(
        message.contains("can't cast to 'integer', did you mean 'int'?"),
        "{message}"
    );
}

#[test]
fn a_pattern_that_the_engine_has_not_is_a_finding() {
    let message = refused(&json!([
        {"op": "stream", "pattern": "(?!x).*", "key": "string", "value": "string"},
    ]));
    assert!(
        message.starts_with("app.py:1: stream(): the pattern '(?!x).*' can't be read"),
        "{message}"
    );
    assert!(message.contains("name the topics"), "{message}");
}

#[test]
fn a_late_policy_is_checked_and_shared() {
    let reading = |late: serde_json::Value| {
        let mut source = stream();
        source["late"] = late;
        source
    };
    for (late, expected) in [
        (
            json!({"call": {"udf": 9}}),
            "its late policy 9 is not in the table of 5 functions",
        ),
        (
            json!({"dlq": "in"}),
            "sends late records to 'in', which it reads",
        ),
        (json!({"dlq": "a b"}), "the topic 'a b' holds ' '"),
        (
            json!({"call": {"udf": 0, "topics": ["x", "in"]}}),
            "late records to 'in'",
        ),
    ] {
        let message = refused(&json!([reading(late)]));
        assert!(message.starts_with("app.py:1: stream(): "), "{message}");
        assert!(message.contains(expected), "{message}");
    }
    let pattern = json!({"op": "stream", "pattern": "in-.*", "key": "string", "value": "string", "late": {"dlq": "in-late"}});
    assert!(refused(&json!([pattern])).contains("sends late records to 'in-late'"));
    let table = json!({"op": "table", "topic": "t", "key": "string", "value": "string", "late": {"dlq": "t"}});
    assert!(refused(&json!([table])).contains("sends late records to 't'"));

    // Two streams of one topic are one source, so their policies must be the same.
    assert!(refused(&json!([stream(), reading(json!("drop"))])).contains("the same late="));
    let dropping = json!([reading(json!("drop")), reading(json!("drop"))]);
    let plan = compiled(&dropping);
    assert_eq!(plan.sources.len(), 1);
    assert_eq!(plan.sources[0].late, stoatflow_core::Late::Drop);

    let asking = compiled(&json!([reading(
        json!({"call": {"udf": 1, "topics": ["l"]}})
    )]));
    assert!(asking.stages[0].foreign, "it calls a function");
    assert_eq!(asking.dead_letter_topics(), ["l"]);
    let plain = compiled(&json!([stream()]));
    assert!(!plain.stages[0].foreign);
    assert!(plain.sources[0].late.is_grace());
}
