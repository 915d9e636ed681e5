mod protobuf;

use crate::testing::{compiled, refused};
use crate::{SerdeSpec, compile};
use serde_json::{Value, json};

const USER: &str = r#"{"type": "record", "name": "User", "fields": [
    {"name": "id", "type": "long"},
    {"name": "name", "type": "string"},
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    {"name": "open", "type": ["null", "boolean"], "default": null},
    {"name": "photo", "type": "bytes", "default": ""},
    {"name": "level", "type": {"type": "enum", "name": "Level", "symbols": ["LOW", "HIGH"]}, "default": "LOW"},
    {"name": "boss", "type": ["null", "User"], "default": null},
    {"name": "odd", "type": ["int", "string"], "default": 0},
    {"name": "many", "type": {"type": "map", "values": "double"}, "default": {}}
]}"#;

fn avro() -> Value {
    json!({"avro": {"schema": USER}})
}

fn users() -> Value {
    json!({"op": "stream", "topics": ["in"], "key": "string", "value": avro()})
}

fn get(of: &Value, name: &str) -> Value {
    json!({"op": "get", "args": [of], "name": name})
}

fn field(name: &str) -> Value {
    get(&json!({"op": "value"}), name)
}

fn lit(value: Value) -> Value {
    json!({"op": "lit", "value": value})
}

fn object(members: &[(&str, Value)]) -> Value {
    let (names, args): (Vec<_>, Vec<_>) = members.iter().cloned().unzip();
    json!({"op": "object", "names": names, "args": args})
}

fn into(expression: &Value, sink: Value) -> Value {
    let expression = json!({"op": "located", "args": [expression], "line": "app.py:77"});
    let mut to = json!({"op": "to", "from": 1, "topic": "out"});
    if !sink.is_null() {
        to["value"] = sink;
    }
    json!([users(), {"op": "map_values", "from": 0, "function": {"expr": expression}}, to])
}

#[test]
fn a_field_says_what_it_is_written_with() {
    for (e, serde) in [
        (field("id"), "int64"),
        (field("name"), "string"),
        (field("photo"), "bytes"),
        (field("level"), "string"),
        (field("tags"), "json"),
        (field("odd"), "json"),
        (get(&field("boss"), "name"), "string"),
        (get(&get(&field("boss"), "boss"), "id"), "int64"),
        (get(&field("many"), "any"), "double"),
        (
            json!({"op": "at", "args": [field("tags")], "index": -1}),
            "string",
        ),
    ] {
        let plan = compiled(&into(&e, Value::Null));
        assert_eq!(plan.sinks[0].value, SerdeSpec::Builtin(serde.into()), "{e}");
    }
    for e in [field("boss"), field("open"), field("many")] {
        let said = refused(&into(&e, Value::Null));
        assert!(
            said.contains("doesn't know the serde of its value"),
            "{said}"
        );
    }
    let plan = compiled(&into(&json!({"op": "value"}), Value::Null));
    assert!(matches!(plan.sinks[0].value, SerdeSpec::Avro { .. }));
    let elements = json!([users(), {"op": "flat_map_values", "from": 0, "function": {"expr": field("tags")}}, {"op": "to", "from": 1, "topic": "out"}]);
    assert_eq!(
        compiled(&elements).sinks[0].value,
        SerdeSpec::Builtin("string".into())
    );
}

#[test]
fn a_field_that_is_not_there_is_found() {
    for (e, said) in [
        (
            field("nmae"),
            "app.py:77 sf.value[\"nmae\"]: the Avro record 'User' has no field 'nmae', did you mean 'name'?",
        ),
        (
            get(&field("boss"), "lvel"),
            "has no field 'lvel', did you mean 'level'?",
        ),
        (
            field("zzzzz"),
            "has no field 'zzzzz', there are id, name, tags",
        ),
        (
            get(&field("id"), "x"),
            "a value of type int has no member 'x'",
        ),
        (
            json!({"op": "at", "args": [field("name")], "index": 0}),
            "a value of type str has no elements",
        ),
        (
            json!({"op": "add", "args": [field("id"), field("name")]}),
            "can't compute int + str",
        ),
        (
            json!({"op": "str_upper", "args": [field("photo")]}),
            ".str takes str, but this is bytes",
        ),
    ] {
        let found = refused(&into(&e, json!("json")));
        assert!(found.contains(said), "{found} should mention {said}");
        assert_eq!(found.matches("app.py:77").count(), 1, "{found}");
    }
}

#[test]
fn impossible_fits_are_found() {
    let name = || ("name", lit(json!("x")));
    let id = || ("id", lit(json!(1)));
    for (e, said) in [
        (
            object(&[id(), ("nam", lit(json!("x"))), name()]),
            "the Avro record 'User' has no field 'nam', did you mean 'name'?",
        ),
        (
            object(&[id()]),
            "the Avro record 'User' needs the field 'name', which has no default",
        ),
        (
            object(&[("id", lit(json!("1"))), name()]),
            "it gives str, but the Avro long takes int",
        ),
        (
            object(&[("id", lit(json!(1.5))), name()]),
            "it gives float, but the Avro long takes int",
        ),
        (
            object(&[id(), name(), ("open", lit(json!(1)))]),
            "it gives int, but the Avro boolean takes bool",
        ),
        (
            object(&[id(), name(), ("photo", lit(json!(1)))]),
            "it gives int, but the Avro bytes takes str or bytes",
        ),
        (
            object(&[id(), name(), ("level", lit(json!("MID")))]),
            "the Avro enum has no 'MID'",
        ),
        (
            object(&[id(), name(), ("boss", object(&[id()]))]),
            "needs the field 'name'",
        ),
        (
            object(&[id(), name(), ("tags", object(&[]))]),
            "an object can't be written as the Avro array of string",
        ),
        (
            object(&[id(), name(), ("many", object(&[("x", lit(json!("y")))]))]),
            "it gives str, but the Avro double takes int or float",
        ),
        (
            object(&[id(), name(), ("odd", lit(json!(true)))]),
            "it gives bool, but the Avro int or string takes int or str",
        ),
        (field("id"), "it gives int, but the Avro User takes object"),
        (
            json!({"op": "when", "args": [lit(json!(true)), object(&[id()]), lit(Value::Null)]}),
            "needs the field 'name'",
        ),
        (
            json!({"op": "coalesce", "args": [field("name"), lit(Value::Null)]}),
            "it gives str",
        ),
    ] {
        let found = refused(&into(&e, avro()));
        assert!(found.contains(said), "{found} should mention {said}");
        assert!(found.contains("app.py:77"), "{found}");
    }
    let texts = json!([{"op": "stream", "topics": ["in"], "key": "string", "value": "string"}, {"op": "to", "from": 0, "topic": "out", "value": avro()}]);
    let said = refused(&texts);
    assert!(
        said.contains("its values are str, but the Avro schema (User) takes object"),
        "{said}"
    );
}

#[test]
fn possible_fits_are_accepted() {
    let name = || ("name", field("name"));
    for e in [
        object(&[("id", field("id")), name()]),
        object(&[
            ("id", lit(json!(1))),
            name(),
            ("open", lit(Value::Null)),
            ("boss", field("boss")),
        ]),
        object(&[("id", field("odd")), name(), ("level", field("name"))]),
        object(&[
            ("id", field("id")),
            name(),
            ("photo", field("name")),
            ("level", lit(json!("HIGH"))),
        ]),
        object(&[
            ("id", field("id")),
            name(),
            ("many", object(&[("x", lit(json!(1)))])),
        ]),
        json!({"op": "value"}),
        lit(Value::Null),
    ] {
        compiled(&into(&e, avro()));
    }
    // The result of a function is only known at run time.
    compiled(
        &json!([users(), {"op": "map_values", "from": 0, "function": {"udf": 0}}, {"op": "to", "from": 1, "topic": "out", "value": avro()}]),
    );
}

#[test]
fn a_schema_that_can_not_be_used_is_found() {
    let broken = json!({"avro": {"schema": "{}"}});
    let said = refused(
        &json!([{"op": "stream", "topics": ["in"], "key": "string", "value": broken}, {"op": "to", "from": 0, "topic": "out"}]),
    );
    assert!(
        said.contains("its value serde can't be used: this is no Avro schema"),
        "{said}"
    );
    let state = json!([
        users(), {"op": "group_by_key", "from": 0},
        {"op": "aggregate", "from": 1, "initializer": {"expr": lit(Value::Null)}, "function": {"aggregation": {"one": {"kind": "avg", "of": field("id")}}}, "materialized": {"store": "s", "value": avro()}},
    ]);
    assert!(
        refused(&state).contains("which the serde avro can't write"),
        "{}",
        refused(&state)
    );
    let unknown = json!({"version": 1, "nodes": [{"op": "stream", "topics": ["in"], "key": "string", "value": {"avro": {"schema": "\"int\"", "registry": "x"}}}], "functions": [], "serdes": []});
    assert!(compile(unknown.to_string().as_bytes()).is_err());
}
