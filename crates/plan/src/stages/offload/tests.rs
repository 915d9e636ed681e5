use crate::stages::tests::sound;
use crate::testing::{compiled, ops, refused, stream, udf};
use crate::{Op, require_explicit_names};
use serde_json::{Value, json};

fn offload(from: usize, more: &Value) -> Value {
    let mut node = json!({
        "op": "offload", "from": from, "name": "score", "requests": "asked", "responses": "answered",
        "function": {"expr": {"op": "right"}}, "response_value": "json", "max_parked": 10,
        "patience": {
            "timeout_ms": 1, "attempts": 1, "first_ms": 0, "most_ms": 0, "jitter": 0.0,
            "retry_timeouts": true, "retry_errors": true,
        },
    });
    for (name, value) in more.as_object().expect("an object") {
        node[name] = value.clone();
    }
    node
}

#[test]
fn records_and_answers_meet_in_one_stage_and_results_go_on() {
    let plan = compiled(&json!([
        stream(),
        offload(0, &json!({})),
        {"op": "to", "from": 1, "topic": "out"},
    ]));
    sound(&plan);
    let names: Vec<&str> = plan.nodes.iter().map(|n| n.name.as_str()).collect();
    let own = [
        "score-responses",
        "score",
        "score-answers",
        "score-result",
        "score-requests",
    ];
    assert_eq!(names[1..6], own);
    assert_eq!(plan.stages.len(), 1);
    let topics: Vec<_> = plan.sinks.iter().map(|s| s.topic.as_deref()).collect();
    assert_eq!(topics, [Some("asked"), Some("out")]);
    // The result is the response itself, so its serde is known.
    assert_eq!(
        plan.sinks[1].value,
        crate::SerdeSpec::Builtin("json".into())
    );
    let answers = &plan.sources[1];
    assert!(answers.answers && answers.topics == ["answered"]);
    // The parked record decodes the response, unless that is an error.
    assert_eq!(answers.value, crate::SerdeSpec::Builtin("bytes".into()));
    assert_eq!(
        (plan.stores[0].name.as_str(), plan.stores[0].named),
        ("score-parked", true)
    );
    // Both nodes write the same store, so they must process records one by one.
    assert!(!plan.stages[0].independent_entries);
    let Op::Offload { feeders, .. } = &plan.nodes[2].op else {
        panic!("an offload");
    };
    assert_eq!(feeders, &[plan.sources[0].id]);
}

#[test]
fn a_request_is_written_before_its_record_is_parked() {
    let plan = compiled(&json!([
        stream(),
        offload(0, &json!({"on_error": {"dlq": "dead"}}))
    ]));
    assert_eq!(
        plan.sinks[0].value,
        crate::SerdeSpec::Builtin("bytes".into())
    );
    // So the sink has no error policy.
    let judged: Vec<_> = plan.nodes.iter().filter(|n| n.on_error.is_some()).collect();
    assert!(judged.iter().any(|n| matches!(n.op, Op::Offload { .. })));
    assert!(judged.iter().all(|n| !matches!(n.op, Op::Sink { .. })));
}

#[test]
fn a_re_keyed_stream_walks_and_so_do_the_answers() {
    let plan = compiled(&json!([
        stream(),
        {"op": "select_key", "from": 0, "function": udf()},
        offload(1, &json!({"key": "string"})),
        {"op": "to", "from": 2, "topic": "out"},
    ]));
    sound(&plan);
    assert_eq!(
        ops(&plan, 0),
        ["source", "select_key", "source", "exchange", "exchange"]
    );
    assert_eq!(
        ops(&plan, 1),
        ["offload", "offload_answers", "merge", "sink", "sink"]
    );
}

#[test]
fn keys_of_a_custom_serde_walk_too() {
    let custom = json!({"op": "stream", "topics": ["in"], "key": {"custom": 0}, "value": "json"});
    let plan = compiled(&json!([custom, offload(0, &json!({}))]));
    sound(&plan);
    assert_eq!(ops(&plan, 0), ["source", "source", "exchange", "exchange"]);
    assert_eq!(
        ops(&plan, 1),
        ["offload", "offload_answers", "merge", "sink"]
    );
}

#[test]
fn one_behind_another_is_fed_by_the_first_source_only() {
    let second = json!({"name": "price", "requests": "q2", "responses": "r2"});
    let plan = compiled(&json!([
        stream(),
        offload(0, &json!({})),
        offload(1, &second),
        {"op": "to", "from": 2, "topic": "out"},
    ]));
    sound(&plan);
    let fed: Vec<_> = plan
        .nodes
        .iter()
        .filter_map(|n| match &n.op {
            Op::Offload { feeders, .. } => Some(feeders.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(fed, [[plan.sources[0].id], [plan.sources[0].id]]);
}

#[test]
fn it_stands_in_the_description_with_its_topics() {
    let plan = compiled(&json!([stream(), offload(0, &json!({}))]));
    let expected = "\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [in])
      --> score
    Source: score-responses (topics: [answered])
      --> score
    Processor: score (stores: [score-parked])
      --> score-requests
      <-- KSTREAM-SOURCE-0000000000, score-responses
    Sink: score-requests (topic: asked)
      <-- score

";
    assert_eq!(plan.description, expected);
}

#[test]
fn its_state_needs_a_name() {
    let unnamed = compiled(&json!([stream(), offload(0, &json!({"name": null}))]));
    let told = require_explicit_names(&unnamed).unwrap_err();
    assert!(
        told.message().contains("offload() keeps its state"),
        "{told}"
    );
    assert!(told.message().contains("add store="), "{told}");
    let kept = json!({"name": null, "materialized": {"store": "lot"}});
    let named = compiled(&json!([stream(), offload(0, &kept)]));
    require_explicit_names(&named).unwrap();
    assert!(named.stores[0].logged);
}

#[test]
fn the_store_of_parked_records_needs_a_changelog() {
    let kept = json!({"materialized": {"store": "lot", "logged": false}});
    let message = refused(&json!([stream(), offload(0, &kept)]));
    assert!(message.contains("needs its changelog"), "{message}");
}

#[test]
fn answers_walk_by_the_bytes_that_records_came_with() {
    let message = refused(&json!([stream(), offload(0, &json!({"key": "json"}))]));
    assert!(message.contains("writes keys otherwise"), "{message}");
    assert!(message.contains("Leave key= out"), "{message}");
    compiled(&json!([stream(), offload(0, &json!({"key": "string"}))]));
}

#[test]
fn limits_that_mean_nothing_are_refused() {
    let patience = json!({
        "timeout_ms": 0, "attempts": 0, "first_ms": -1, "most_ms": 0, "jitter": 2.0,
        "retry_timeouts": true, "retry_errors": true,
    });
    let wrong = json!({"patience": patience, "max_parked": 0, "requests": "a b"});
    let message = refused(&json!([stream(), offload(0, &wrong)]));
    for part in [
        "its timeout must be at least a millisecond",
        "asks 0 times",
        "between 0 and 1",
        "max_parked=0",
        "the topic 'a b' holds ' '",
    ] {
        assert!(message.contains(part), "{part}\n{message}");
    }
    let same = json!({"responses": "asked"});
    let message = refused(&json!([stream(), offload(0, &same)]));
    assert!(
        message.contains("names the topic 'asked' twice"),
        "{message}"
    );
}

#[test]
fn answers_have_one_reader() {
    let other = json!({"op": "stream", "topics": ["answered"], "key": "string", "value": "json"});
    for nodes in [
        json!([stream(), other, offload(0, &json!({}))]),
        json!([stream(), offload(0, &json!({})), other]),
        json!([
            stream(),
            offload(0, &json!({})),
            offload(0, &json!({"name": "second", "requests": "q2"}))
        ]),
    ] {
        let message = refused(&nodes);
        assert!(
            message.contains("the answers to an offload are its own"),
            "{message}"
        );
    }
}

#[test]
fn function_results_need_a_serde() {
    let asks = json!({"request": udf()});
    let message = refused(&json!([stream(), offload(0, &asks)]));
    assert!(message.contains("Give request_value="), "{message}");
    let members =
        json!({"request": {"expr": {"op": "get", "name": "a", "args": [{"op": "value"}]}}});
    let json_stream = json!({"op": "stream", "topics": ["in"], "key": "string", "value": "json"});
    let plan = compiled(&json!([json_stream, offload(0, &members)]));
    let written = plan.nodes.iter().find_map(|n| match &n.op {
        Op::Offload { request_value, .. } => Some(request_value.clone()),
        _ => None,
    });
    assert_eq!(written, Some(crate::SerdeSpec::Builtin("json".into())));
}

#[test]
fn expressions_see_what_is_there() {
    let sees = json!({
        "request": {"expr": {"op": "left"}},
        "request_value": "json",
        "function": {"expr": {"op": "value"}},
    });
    let message = refused(&json!([stream(), offload(0, &sees)]));
    assert!(message.contains("reads sf.left"), "{message}");
    assert!(message.contains("reads sf.value"), "{message}");
}

#[test]
fn dead_letter_topics_of_timeouts_are_known() {
    let dead = json!({"timeout_handler": {"dlq": "dead"}});
    let plan = compiled(&json!([stream(), offload(0, &dead)]));
    assert_eq!(plan.dead_letter_topics(), ["dead"]);
}
