//! The same checks for Protobuf: each field has one type, and may be omitted.

use super::{field, get, lit, object};
use crate::SerdeSpec;
use crate::testing::{compiled, refused};
use serde_json::{Value, json};
use stoatflow_formats::protobuf::{Decode, Spec, of_text};

const USER: &str = r#"syntax = "proto2"; package shop; import "google/protobuf/wrappers.proto";
message User {
  required int64 id = 1; optional string name = 2; repeated string tags = 3; optional bool open = 4;
  optional bytes photo = 5; optional Level level = 6; optional User boss = 7; map<string, double> many = 8;
  optional google.protobuf.StringValue nick = 9; optional float rate = 10;
}
enum Level { LOW = 0; HIGH = 1; }
message Empty {}"#;

fn spec(message: &str) -> Spec {
    Spec::new(
        &of_text(USER, &[]).unwrap(),
        message.into(),
        None,
        Vec::new(),
    )
}

fn serde() -> Value {
    json!({"protobuf": spec("shop.User")})
}

fn into(expression: &Value, sink: Value) -> Value {
    let expression = json!({"op": "located", "args": [expression], "line": "app.py:77"});
    let mut to = json!({"op": "to", "from": 1, "topic": "out"});
    if !sink.is_null() {
        to["value"] = sink;
    }
    let users = json!({"op": "stream", "topics": ["in"], "key": "string", "value": serde()});
    json!([users, {"op": "map_values", "from": 0, "function": {"expr": expression}}, to])
}

#[test]
fn a_field_says_what_it_is_written_with() {
    for (e, serde) in [
        (field("id"), "int64"),
        (field("name"), "string"),
        (field("nick"), "string"),
        (field("photo"), "bytes"),
        (field("rate"), "double"),
        // A name, or the number of a value that was added later.
        (field("level"), "json"),
        (field("tags"), "json"),
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
    assert!(matches!(plan.sinks[0].value, SerdeSpec::Protobuf { .. }));
}

#[test]
fn impossible_expressions_are_found_with_their_line() {
    let name = |of| ("name", of);
    let id = || ("id", field("id"));
    for (e, said) in [
        (
            field("nmae"),
            "sf.value[\"nmae\"]: the Protobuf message 'shop.User' has no field 'nmae', did you mean 'name'?",
        ),
        (
            get(&field("boss"), "lvel"),
            "has no field 'lvel', did you mean 'level'?",
        ),
        (
            get(&field("id"), "x"),
            "a value of type int has no member 'x'",
        ),
        (
            object(&[id(), ("nam", lit(json!("x")))]),
            "the Protobuf message 'shop.User' has no field 'nam', did you mean 'name'?",
        ),
        (
            object(&[name(field("name"))]),
            "the Protobuf message 'shop.User' needs the field 'id', which is required",
        ),
        (
            object(&[id(), name(field("id"))]),
            "it gives int, but the Protobuf string takes str",
        ),
        (
            object(&[id(), ("tags", object(&[]))]),
            "an object can't be written as the Protobuf repeated string",
        ),
        (
            object(&[id(), ("level", lit(json!("HIHG")))]),
            "the Protobuf enum has no 'HIHG', did you mean 'HIGH'?",
        ),
        (
            object(&[id(), ("boss", object(&[]))]),
            "needs the field 'id'",
        ),
        (
            object(&[id(), ("many", object(&[("x", lit(json!("y")))]))]),
            "it gives str, but the Protobuf double takes int or float",
        ),
        (
            object(&[id(), ("nick", field("id"))]),
            "it gives int, but the Protobuf google.protobuf.StringValue takes str",
        ),
        (
            field("id"),
            "it gives int, but the Protobuf shop.User takes object",
        ),
    ] {
        let found = refused(&into(&e, serde()));
        assert!(found.contains(said), "{found} should mention {said}");
        assert!(found.contains("app.py:77"), "{found}");
    }
    let empty = json!({"protobuf": spec("shop.Empty")});
    let said = refused(&into(&object(&[("x", lit(json!(1)))]), empty));
    assert!(
        said.contains("'shop.Empty' has no field 'x', it has none"),
        "{said}"
    );
    let texts = json!([{"op": "stream", "topics": ["in"], "key": "string", "value": "string"}, {"op": "to", "from": 0, "topic": "out", "value": serde()}]);
    let said = refused(&texts);
    assert!(
        said.contains("its values are str, but the Protobuf message (shop.User) takes object"),
        "{said}"
    );
}

#[test]
fn possible_fits_are_accepted() {
    let id = || ("id", field("id"));
    for e in [
        object(&[id()]),
        object(&[
            id(),
            ("level", lit(json!(7))),
            ("photo", field("name")),
            ("rate", lit(json!(1))),
        ]),
        object(&[
            id(),
            ("level", field("level")),
            ("nick", lit(Value::Null)),
            ("boss", field("boss")),
        ]),
        json!({"op": "eq", "args": [field("level"), lit(json!(7))]}),
        json!({"op": "eq", "args": [field("level"), lit(json!("HIGH"))]}),
    ] {
        let is_object = e["op"] == "object";
        compiled(&into(&e, if is_object { serde() } else { json!("json") }));
    }
}

#[test]
fn unusable_serdes_are_found() {
    let source = |serde: Value| json!([{"op": "stream", "topics": ["in"], "key": "string", "value": serde}, {"op": "to", "from": 0, "topic": "out"}]);
    let broken = json!({"protobuf": {"descriptors": "CgA=", "message": "M"}});
    let said = refused(&source(broken));
    assert!(said.contains("its value serde can't be used: "), "{said}");
    let mut shown = spec("shop.User");
    shown.decode = Decode::Message(3);
    let said = refused(&source(json!({"protobuf": shown})));
    assert!(said.contains("custom"), "{said}");
}
