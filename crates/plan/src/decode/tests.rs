use crate::LogicalPlan;
use crate::testing::{plan, refused, stream};
use serde_json::json;
use stoatflow_core::ErrorKind;

#[test]
fn another_version_is_refused_before_anything_else() {
    let mut plan = plan(&json!([{"op": "from_the_future"}]));
    plan["version"] = json!(2);
    let e = LogicalPlan::decode(plan.to_string().as_bytes()).expect_err("another version");
    assert_eq!(e.kind(), ErrorKind::Incompatible);
    assert!(e.message().contains("version 2, this engine reads 1"));
    let e = LogicalPlan::decode(b"{\"nodes\": []}").expect_err("no version");
    assert!(e.message().contains("'version'"));
}

#[test]
fn unknown_calls_and_fields_are_refused_with_the_nearest() {
    let mut with_field = stream();
    with_field["topcis"] = json!(["x"]);
    let message = refused(&json!([with_field, {"op": "flatmap", "from": 0}]));
    assert!(
        message.contains("stream() has no field 'topcis', did you mean 'topics'?"),
        "{message}"
    );
    assert!(
        message.contains("app.py:2: unknown call 'flatmap', did you mean 'flat_map'?"),
        "{message}"
    );
    let message = refused(
        &json!([stream(), {"op": "group_by_key", "from": 0}, {"op": "count", "from": 1, "materialized": {"sotre": "x"}}]),
    );
    assert!(message.contains("sotre"), "{message}");
    let message = refused(&json!([stream(), {"op": "filter", "from": 0}]));
    assert!(
        message.contains("app.py:2: filter(): missing field `function`"),
        "{message}"
    );
    let bad = json!({"expr": {"op": "value", "extra": 1}});
    refused(&json!([stream(), {"op": "filter", "from": 0, "function": bad}]));
}

#[test]
fn an_unknown_field_of_the_plan_is_refused() {
    let mut plan = plan(&json!([stream()]));
    plan["lanes"] = json!(4);
    let e = LogicalPlan::decode(plan.to_string().as_bytes()).expect_err("unknown field");
    assert!(e.message().contains("lanes"), "{e}");
}

#[test]
fn invalid_plans_are_refused() {
    for bytes in [
        &b"{"[..],
        b"[]",
        b"{\"version\": 1}",
        b"{\"version\": 1, \"nodes\": [3], \"functions\": []}",
    ] {
        LogicalPlan::decode(bytes).expect_err("not a plan");
    }
}

#[test]
fn defaults_have_the_name_of_the_setting_too() {
    let mut json = plan(&json!([stream()]));
    json["default.key.serde"] = json!("int64");
    let plan = LogicalPlan::decode(json.to_string().as_bytes()).expect("a plan");
    assert_eq!(
        plan.default_key,
        Some(crate::SerdeSpec::Builtin("int64".into()))
    );
}

/// A filter by an expression with this many nested operations, each with a line of its own.
fn deep(operations: usize) -> String {
    let (begin, end) = (
        r#"{"op":"located","line":"a.py:1","args":[{"op":"not","args":["#,
        "]}]}",
    );
    let value = r#"{"op":"get","args":[{"op":"value"}],"name":"a"}"#;
    let e = format!(
        "{}{value}{}",
        begin.repeat(operations),
        end.repeat(operations)
    );
    let stream = r#"{"op":"stream","topics":["in"],"key":"string","value":"json"}"#;
    format!(
        r#"{{"version":1,"nodes":[{stream},{{"op":"filter","from":0,"function":{{"expr":{e}}}}}],"functions":[],"serdes":[],"processors":[]}}"#
    )
}

#[test]
fn a_deep_expression_is_taken_and_one_that_would_end_the_stack_is_refused() {
    crate::compile(deep(120).as_bytes()).expect("what the DSL makes is taken");
    for operations in [130, 10_000, 100_000] {
        let e = LogicalPlan::decode(deep(operations).as_bytes()).expect_err("too deep");
        assert_eq!(e.kind(), ErrorKind::Topology);
        assert!(e.message().contains("deeper than 512 levels"), "{e}");
    }
    // Brackets inside texts don't count.
    let text = format!("{}\\\"{}", "[{".repeat(1000), "[".repeat(1000));
    let e = format!(r#"{{"op":"lit","value":"{text}"}}"#);
    let read = crate::Expression::decode(e.as_bytes()).expect("a constant");
    assert!(matches!(read, crate::Expression::Lit { .. }));
    let e = crate::Expression::decode(b"{\"op\":\"value\"} 1").expect_err("more behind it");
    assert!(e.message().contains("not valid JSON"), "{e}");
}
