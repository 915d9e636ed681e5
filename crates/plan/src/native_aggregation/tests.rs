use crate::op::Fold;
use crate::spec::SerdeSpec;
use crate::testing::{compiled, refused};
use crate::{Op, PhysicalPlan};
use serde_json::{Value, json};

fn stream() -> Value {
    json!({"op": "stream", "topics": ["in"], "key": "string", "value": "int64"})
}

fn one(kind: &str) -> Value {
    json!({"aggregation": {"one": {"kind": kind, "of": {"op": "value"}}}})
}

fn several(members: &Value) -> Value {
    json!({"aggregation": {"several": members}})
}

fn nothing() -> Value {
    json!({"expr": {"op": "lit", "value": null}})
}

fn group(from: usize) -> Value {
    json!({"op": "group_by_key", "from": from})
}

fn aggregate(from: usize, function: &Value) -> Value {
    json!({"op": "aggregate", "from": from, "initializer": nothing(), "function": function, "materialized": {"store": "s"}})
}

fn value_of_store(plan: &PhysicalPlan) -> SerdeSpec {
    let store = plan.stores.iter().find(|store| store.name == "s");
    store.expect("a store").value.clone()
}

#[test]
fn counts_are_written_as_such_and_all_else_as_json() {
    for (kind, serde) in [("count", "int64"), ("sum", "json"), ("avg", "json")] {
        let plan = compiled(&json!([stream(), group(0), aggregate(1, &one(kind))]));
        assert_eq!(value_of_store(&plan), SerdeSpec::Builtin(serde.into()));
    }
    let named = several(&json!([["n", {"kind": "count"}]]));
    let plan = compiled(&json!([stream(), group(0), aggregate(1, &named)]));
    assert_eq!(value_of_store(&plan), SerdeSpec::Builtin("json".into()));
}

#[test]
fn sessions_need_no_merger_and_tables_no_subtractor() {
    let session = json!({"op": "windowed_by", "from": 1, "window": {"type": "session", "gap_ms": 1, "grace_ms": 0}});
    compiled(&json!([
        stream(),
        group(0),
        session,
        aggregate(2, &one("max"))
    ]));
    let table = json!({"op": "table", "topic": "t", "key": "string", "value": "json", "materialized": {"store": "t"}});
    let pairs = json!({"op": "group_by", "from": 0, "function": {"udf": 0}, "key": "string", "value": "json"});
    for kind in ["count", "sum", "avg"] {
        compiled(&json!([table, pairs, aggregate(1, &one(kind))]));
    }
    let both = several(
        &json!([["n", {"kind": "count"}], ["most", {"kind": "max", "of": {"op": "value"}}]]),
    );
    let message = refused(&json!([table, pairs, aggregate(1, &both)]));
    assert!(
        message.contains("max can't take the old value away again"),
        "{message}"
    );
}

#[test]
fn invalid_aggregations_are_refused() {
    let says = |measure: Value, part: &str| {
        let function = json!({"aggregation": {"one": measure}});
        let message = refused(&json!([stream(), group(0), aggregate(1, &function)]));
        assert!(message.contains(part), "{part}: {message}");
    };
    let of = json!({"op": "value"});
    says(json!({"kind": "sum"}), "sum needs an expression");
    says(json!({"kind": "sum", "of": of, "size": 3}), "has no size");
    says(json!({"kind": "top_k", "of": of}), "top_k needs k");
    says(
        json!({"kind": "collect", "of": of, "size": 0}),
        "keeps nothing",
    );
    says(
        json!({"kind": "approx_distinct", "of": of, "size": 3}),
        "4 to 16 bits",
    );
    says(
        json!({"kind": "max", "of": of, "by": of}),
        "max has no rank",
    );
    let twice = several(&json!([["n", {"kind": "count"}], ["n", {"kind": "count"}]]));
    let message = refused(&json!([stream(), group(0), aggregate(1, &twice)]));
    assert!(message.contains("names 'n' twice"), "{message}");
    let none = several(&json!([]));
    let message = refused(&json!([stream(), group(0), aggregate(1, &none)]));
    assert!(message.contains("at least one"), "{message}");
}

fn cogroup(first: &Value, second: &Value) -> Value {
    let other = json!({"op": "stream", "topics": ["other"], "key": "string", "value": "int64"});
    json!([
        stream(),
        group(0),
        other,
        group(2),
        {"op": "cogroup", "from": 1, "function": first},
        {"op": "cogroup", "from": 4, "other": 3, "function": second},
        {"op": "aggregate", "from": 5, "initializer": nothing(), "materialized": {"store": "s"}},
    ])
}

fn of_stream(plan: &PhysicalPlan) -> Vec<String> {
    let functions = plan.nodes.iter().filter_map(|node| match &node.op {
        Op::Aggregate {
            function: crate::function::Function::Aggregation(a),
            ..
        } => Some(format!("{a} of {}", a.measures().len())),
        Op::WindowAggregate {
            fold: Fold::Aggregate { function, .. },
            ..
        } => Some(format!("{function:?}")),
        _ => None,
    });
    functions.collect()
}

#[test]
fn cogrouped_streams_share_one_object() {
    let clicks = several(&json!([["clicks", {"kind": "count"}], ["n", {"kind": "count"}]]));
    let orders = several(
        &json!([["n", {"kind": "count"}], ["spent", {"kind": "sum", "of": {"op": "value"}}]]),
    );
    let plan = compiled(&cogroup(&clicks, &orders));
    assert_eq!(
        of_stream(&plan),
        [
            "sf.agg(clicks=sf.count, n=sf.count) of 3",
            "sf.agg(n=sf.count, spent=sf.sum) of 3"
        ]
    );
    compiled(&cogroup(&one("sum"), &one("sum")));
}

#[test]
fn cogrouped_streams_that_do_not_fit_are_refused() {
    let named = |kind: &str| several(&json!([["n", {"kind": kind, "of": {"op": "value"}}]]));
    let cases = [
        (one("sum"), one("max"), "don't fit together"),
        (one("sum"), named("sum"), "don't fit together"),
        (named("sum"), one("sum"), "don't fit together"),
        (named("sum"), named("max"), "as sum and as max"),
        (one("sum"), json!({"udf": 0}), "some by functions"),
    ];
    for (first, second, part) in cases {
        let message = refused(&cogroup(&first, &second));
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn impossible_expressions_are_refused() {
    let value = json!({"op": "value"});
    let joined = json!({"op": "add", "args": [value, {"op": "lit", "value": "!"}]});
    let digits = |digits: i64| json!({"op": "call", "function": "round", "args": [value, {"op": "lit", "value": digits}]});
    let key = json!({"op": "key"});
    let cases = [
        (
            json!({"kind": "sum", "of": joined}),
            "can't compute int + str",
        ),
        (
            json!({"kind": "last", "of": joined}),
            "can't compute int + str",
        ),
        (
            json!({"kind": "sum", "of": digits(-2)}),
            "round to 0 to 300 digits",
        ),
        (
            json!({"kind": "max", "of": digits(70_000)}),
            "round to 0 to 300 digits",
        ),
        (
            json!({"kind": "sum", "of": key}),
            "sf.key: it gives str, but bool or int or float is wanted",
        ),
        (json!({"kind": "avg", "of": key}), "sf.key: it gives str"),
        (
            json!({"kind": "min", "of": {"op": "array", "args": [value]}}),
            "it gives list",
        ),
        (
            json!({"kind": "top_k", "size": 2, "of": {"op": "object", "names": [], "args": []}}),
            "it gives object",
        ),
        (
            json!({"kind": "top_k", "size": 2, "of": value, "by": joined}),
            "can't compute int + str",
        ),
        (
            json!({"kind": "top_k", "size": 2, "of": value, "by": {"op": "array", "args": []}}),
            "it gives list",
        ),
    ];
    for (measure, part) in cases {
        let alone = json!({"aggregation": {"one": measure}});
        let named = several(&json!([["n", {"kind": "count"}], ["x", measure]]));
        for function in [alone, named] {
            let message = refused(&json!([stream(), group(0), aggregate(1, &function)]));
            assert!(message.contains(part), "{part}: {message}");
            assert!(message.contains("app.py:3: aggregate()"), "{message}");
        }
    }
    let list = json!({"kind": "top_k", "size": 2, "of": {"op": "array", "args": []}, "by": value});
    let function = json!({"aggregation": {"one": list}});
    compiled(&json!([stream(), group(0), aggregate(1, &function)]));
    // Also checked for the second stream of a cogroup, although the values of the first have any type.
    let wrong = several(&json!([["m", {"kind": "sum", "of": joined}]]));
    let message = refused(&cogroup(
        &several(&json!([["n", {"kind": "count"}]])),
        &wrong,
    ));
    assert!(
        message.contains("app.py:6: cogroup(): sf.value + \"!\": can't compute int + str"),
        "{message}"
    );
}
