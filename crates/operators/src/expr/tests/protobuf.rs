//! Expressions over Protobuf messages: read in place, with the same results as from JSON.

use super::*;
use stoatflow_core::{Bytes, CustomSerde, Fields};
use stoatflow_formats::protobuf::{Format, ProtobufValue, of_text};

const SCHEMA: &str = r#"syntax = "proto3";
message R { int64 id = 1; U user = 2; repeated string tags = 3; repeated bytes parts = 4; map<string, int64> by = 5;
  Level level = 6; optional string none = 7; uint64 large = 8; }
message U { string name = 1; bytes raw = 2; }
enum Level { LOW = 0; HIGH = 1; }"#;

fn format() -> Format {
    Format::new(&of_text(SCHEMA, &[]).unwrap(), "R", None, &[]).unwrap()
}

fn value() -> Datum {
    let text = r#"{"id": 7, "user": {"name": "ann", "raw": "\u00ff\u0000"}, "tags": ["a", "b"], "parts": ["\u0001", "\u0002"],
        "by": {"x": 5}, "level": "HIGH", "large": 18446744073709551615}"#;
    let bytes = format().encode(&raw(text)).unwrap();
    format().decode(&bytes).unwrap()
}

const VALUE: &str = r#"{"op":"value"}"#;

fn get(of: &str, name: &str) -> String {
    format!(r#"{{"op":"get","args":[{of}],"name":"{name}"}}"#)
}

fn at(of: &str, index: i64) -> String {
    format!(r#"{{"op":"at","args":[{of}],"index":{index}}}"#)
}

fn call(function: &str, args: &[&str]) -> String {
    format!(
        r#"{{"op":"call","function":"{function}","args":[{}]}}"#,
        args.join(",")
    )
}

fn found(expression: &str) -> Datum {
    eval(expression, value()).unwrap_or_else(|e| panic!("{expression}: {e}"))
}

#[test]
fn fields_are_read_as_of_json() {
    let field = |name: &str| get(VALUE, name);
    assert_eq!(found(&field("id")), Datum::Int(7));
    assert_eq!(found(&get(&field("user"), "name")), text("ann"));
    assert_eq!(
        found(&get(&field("user"), "raw")),
        Datum::Bytes(Bytes::from_static(&[0xff, 0]))
    );
    assert_eq!(found(&at(&field("tags"), 1)), text("b"));
    assert_eq!(found(&at(&field("tags"), -2)), text("a"));
    assert_eq!(found(&at(&field("tags"), -3)), Datum::Null);
    assert_eq!(
        found(&at(&field("parts"), -1)),
        Datum::Bytes(Bytes::from_static(&[2]))
    );
    assert_eq!(found(&get(&field("by"), "x")), Datum::Int(5));
    assert_eq!(found(&field("level")), text("HIGH"));
    assert_eq!(found(&field("none")), Datum::Null);
    assert_eq!(found(&field("nothing")), Datum::Null);
    let len = |of: &str| format!(r#"{{"op":"len","args":[{of}]}}"#);
    assert_eq!(found(&len(&field("tags"))), Datum::Int(2));
    assert_eq!(found(&len(&field("by"))), Datum::Int(1));
    assert_eq!(found(&len(VALUE)), Datum::Int(8));
    user_error(
        eval(&get(&field("id"), "x"), value()),
        &["int has no member 'x'"],
    );
    user_error(eval(&at(&field("user"), -1), value()), &["has no elements"]);
}

#[test]
fn unchanged_values_stay_bytes() {
    let whole = found(VALUE);
    assert!(ProtobufValue::of(&whole).is_some());
    let user = found(&get(VALUE, "user"));
    let user = ProtobufValue::of(&user).unwrap();
    assert_eq!(user.bytes().len(), 9);
    let tags = get(VALUE, "tags");
    let object = format!(
        r#"{{"op":"object","names":["tags","raw"],"args":[{tags},{}]}}"#,
        get(&get(VALUE, "user"), "raw")
    );
    let made = found(&object);
    let Fields(members) = Fields::of(&made).unwrap();
    assert!(ProtobufValue::of(&members[0].1).is_some());
    assert_eq!(members[1].1, Datum::Bytes(Bytes::from_static(&[0xff, 0])));
}

#[test]
fn functions_of_lists_and_objects_take_messages() {
    let joined = call(
        "list_join",
        &[&get(VALUE, "tags"), r#"{"op":"lit","value":"+"}"#],
    );
    assert_eq!(found(&joined), text("a+b"));
    let cast = format!(
        r#"{{"op":"cast","args":[{}],"to":"str"}}"#,
        get(VALUE, "large")
    );
    assert_eq!(found(&cast), text("18446744073709551615"));
    let same = format!(
        r#"{{"op":"eq","args":[{},{}]}}"#,
        get(VALUE, "user"),
        get(VALUE, "user")
    );
    assert_eq!(found(&same), Datum::Bool(true));
}
