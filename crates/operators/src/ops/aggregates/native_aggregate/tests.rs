use crate::testing::*;
use serde_json::{Value, json};
use stoatflow_core::{Bytes, ErrorKind, Record, SinkId, StoreId};
use stoatflow_plan::{Function, Op, SerdeSpec};

fn native(spec: &Value) -> Function {
    let spec = json!({"aggregation": spec});
    serde_json::from_value(spec).expect("a well-formed aggregation")
}

fn aggregate(function: Function) -> Op {
    Op::Aggregate {
        old: false,
        store: StoreId(0),
        key: serde("string"),
        initializer: expression(r#"{"op":"lit","value":null}"#),
        function,
    }
}

/// There are no functions to call: all results are computed natively.
fn rig(op: Op) -> Rig {
    Rig::changed(into_sink(op, 0), vec![], |plan| {
        plan.stores[0].value = SerdeSpec::Builtin("json".into());
        for sink in &mut plan.sinks {
            sink.value = SerdeSpec::Builtin("json".into());
        }
    })
    .unwrap()
}

fn number(key: &str, value: &str, at: i64) -> Record {
    let mut record = record(key, value, at);
    if !record.value.is_null() {
        record.value = stoatflow_core::Datum::Json(Bytes::copy_from_slice(value.as_bytes()));
    }
    record
}

fn sum() -> Function {
    native(&json!({"one": {"kind": "sum", "of": {"op": "value"}}}))
}

#[test]
fn each_record_gives_the_aggregate_of_its_key() {
    for size in [1, 5] {
        let mut rig = rig(aggregate(sum()));
        let records = [
            number("a", "1", 10),
            number("b", "5", 1),
            number("a", "2", 7),
            number("~", "9", 99),
            number("a", "~", 99),
        ];
        for batch in records.chunks(size) {
            rig.push(batch.to_vec()).unwrap();
        }
        assert_eq!(rig.outputs(), ["0:a=1@10", "0:b=5@1", "0:a=3@10"]);
        assert_eq!(rig.dropped().len(), 2, "no key, no value");
    }
}

#[test]
fn the_store_holds_what_an_object_of_several_is() {
    let both = json!({"several": [["n", {"kind": "count"}], ["mean", {"kind": "avg", "of": {"op": "value"}}]]});
    let mut rig = rig(aggregate(native(&both)));
    rig.push(vec![number("a", "1", 1), number("a", "4", 2)])
        .unwrap();
    let outputs = rig.effects.outputs.iter();
    let values: Vec<String> = outputs
        .filter(|o| o.sink == SinkId(0))
        .map(|o| String::from_utf8(o.value.clone().unwrap().to_vec()).unwrap())
        .collect();
    assert_eq!(
        values,
        [
            r#"{"n":1,"mean":{"avg":1.0,"count":1,"sum":1}}"#,
            r#"{"n":2,"mean":{"avg":2.5,"count":2,"sum":5}}"#
        ]
    );
}

#[test]
fn a_record_that_does_not_fit_stops_where_it_is_and_changes_nothing() {
    let mut rig = rig(aggregate(sum()));
    rig.push(vec![number("a", "1", 1)]).unwrap();
    let error = rig.push(vec![number("a", "\"x\"", 2)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::User);
    assert!(error.to_string().contains("sf.sum"), "{error}");
    rig.push(vec![number("a", "2", 3)]).unwrap();
    assert_eq!(rig.outputs(), ["0:a=1@1", "0:a=3@3"]);
}

#[test]
fn expressions_reduce_and_aggregate() {
    let largest = r#"{"op":"when","args":[{"op":"gt","args":[{"op":"new"},{"op":"old"}]},{"op":"new"},{"op":"old"}]}"#;
    let reduce = Op::Reduce {
        old: false,
        store: StoreId(0),
        key: serde("string"),
        function: expression(largest),
    };
    let step = r#"{"op":"add","args":[{"op":"old"},{"op":"mul","args":[{"op":"value"},{"op":"lit","value":2}]}]}"#;
    let aggregate = Op::Aggregate {
        old: false,
        store: StoreId(0),
        key: serde("string"),
        initializer: expression(r#"{"op":"lit","value":100}"#),
        function: expression(step),
    };
    for (op, expected) in [
        (reduce, ["0:a=3@1", "0:a=7@2", "0:a=7@3"]),
        (aggregate, ["0:a=106@1", "0:a=120@2", "0:a=130@3"]),
    ] {
        let mut rig = rig(op);
        rig.push(vec![
            number("a", "3", 1),
            number("a", "7", 2),
            number("a", "5", 3),
        ])
        .unwrap();
        assert_eq!(rig.outputs(), expected);
    }
}
