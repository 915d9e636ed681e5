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
fn what_is_not_a_plan_is_refused() {
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
