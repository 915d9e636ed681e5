use super::*;
use crate::testing::{compiled, ops, stream};
use serde_json::json;

#[test]
fn generated_store_names_are_listed_with_what_to_add() {
    let group = json!({"op": "group_by_key", "from": 0});
    let plan =
        compiled(&json!([stream(), group, {"op": "count", "from": 1}, {"op": "count", "from": 1}]));
    let e = require_explicit_names(&plan).expect_err("two names are generated");
    for part in [
        "2 problems",
        "app.py:3: count()",
        "add store=\"in-count\"",
        "app.py:4: count()",
        "add store=\"in-count-2\"",
    ] {
        assert!(e.message().contains(part), "{part}: {e}");
    }
    assert!(e.next_step().contains("ensure.explicit.naming=false"));
    let kept = json!({"op": "count", "from": 1, "materialized": {"store": "c"}});
    require_explicit_names(&compiled(&json!([stream(), group, kept]))).expect("named");
}

#[test]
fn entries_are_sources_or_what_exchanges_lead_to() {
    let plan = compiled(&json!([
        stream(),
        {"op": "group_by", "from": 0, "function": {"udf": 0}, "key": "string"},
        {"op": "count", "from": 1, "materialized": {"store": "c"}},
    ]));
    let of = |s| entries(&plan, stoatflow_core::StageId(s));
    assert_eq!(of(0), [plan.sources[0].entry]);
    assert_eq!(of(1), [plan.stages[1].nodes[0]]);
    assert_eq!(ops(&plan, 1), ["count"]);
}
