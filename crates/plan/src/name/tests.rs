use super::repartition::is_generated;
use super::*;
use crate::check::check;
use crate::testing::{logical, refused, stream, udf};
use serde_json::{Value, json};

fn names(nodes: &Value) -> Names {
    let plan = logical(nodes);
    let mut problems = Problems::default();
    let shape = check(&plan, &mut problems);
    let names = name(&plan, &shape, &mut problems);
    problems.finish().expect("a valid plan");
    names
}

#[test]
fn one_counter_is_burnt_where_kafka_streams_burns_it() {
    let names = names(&json!([
        {"op": "table", "topic": "t", "key": "string", "value": "string"},
        {"op": "to_stream", "from": 0, "name": "changes"},
        {"op": "select_key", "from": 1, "function": udf()},
        {"op": "group_by_key", "from": 2},
        {"op": "count", "from": 3},
        {"op": "count", "from": 3, "materialized": {}},
    ]));
    assert_eq!(
        names.store[0],
        Some(("t-STATE-STORE-0000000000".into(), false))
    );
    assert_eq!(
        names.source[0].as_deref(),
        Some("KSTREAM-SOURCE-0000000001")
    );
    assert_eq!(
        names.node[..3],
        [
            "KTABLE-SOURCE-0000000002",
            "changes",
            "KSTREAM-KEY-SELECT-0000000004"
        ]
    );
    assert_eq!(names.node[4], "KSTREAM-AGGREGATE-0000000006");
    // The repartition topic used 7 to 9, the materialization without a name used 10.
    assert_eq!(
        names.store[5],
        Some(("KSTREAM-AGGREGATE-STATE-STORE-0000000011".into(), false))
    );
    let r = names.repartition[4].get(&0).expect("re-keyed");
    assert_eq!(
        r.topic,
        "KSTREAM-AGGREGATE-STATE-STORE-0000000005-repartition"
    );
    assert_eq!(
        [
            r.sink.as_str(),
            r.filter.as_deref().expect("filters null keys"),
            &r.source
        ],
        [
            "KSTREAM-SINK-0000000007",
            "KSTREAM-FILTER-0000000008",
            "KSTREAM-SOURCE-0000000009"
        ]
    );
}

#[test]
fn a_named_grouping_shares_its_topic() {
    let names = names(&json!([
        stream(),
        {"op": "group_by", "from": 0, "function": udf(), "name": "g", "key": "string"},
        {"op": "count", "from": 1, "materialized": {"store": "a"}},
        {"op": "count", "from": 1, "materialized": {"store": "b"}},
    ]));
    assert_eq!(names.repartition[2], names.repartition[3]);
    assert_eq!(names.repartition[3].get(&0).map(|r| r.owner), Some((2, 0)));
    assert_eq!(names.node[3], "KSTREAM-AGGREGATE-0000000006");
}

#[test]
fn names_and_stores_are_unique() {
    let message = refused(&json!([
        stream(),
        {"op": "peek", "from": 0, "function": udf(), "name": "x"},
        {"op": "filter", "from": 1, "function": udf(), "name": "x"},
        {"op": "group_by_key", "from": 0},
        {"op": "count", "from": 3, "materialized": {"store": "s"}},
        {"op": "count", "from": 3, "materialized": {"store": "s"}},
    ]));
    assert!(
        message.contains("app.py:3: filter(): the name 'x' is used by app.py:2: peek() already"),
        "{message}"
    );
    assert!(
        message.contains("app.py:6: count(): the store 's' belongs to app.py:5: count() already"),
        "{message}"
    );
}

#[test]
fn generated_names_are_recognised() {
    assert!(is_generated("KSTREAM-AGGREGATE-STATE-STORE-0000000003"));
    for name in [
        "KSTREAM",
        "counts",
        "KSTREAM-x-000000003",
        "KTABLE-X-0000000003",
        "KSTREAMé-0000000003x",
    ] {
        assert!(!is_generated(name), "{name}");
    }
}
