//! Expressions over values with a schema: read in place, with the same results as from JSON.

use super::*;
use stoatflow_core::{Bytes, CustomSerde, Fields};
use stoatflow_formats::avro::{AvroValue, Format};

const SCHEMA: &str = r#"{"type": "record", "name": "R", "fields": [
    {"name": "id", "type": "long"},
    {"name": "user", "type": ["null", {"type": "record", "name": "U", "fields": [
        {"name": "name", "type": "string"}, {"name": "raw", "type": "bytes", "default": ""}]}], "default": null},
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    {"name": "parts", "type": {"type": "array", "items": "bytes"}, "default": []},
    {"name": "by", "type": {"type": "map", "values": "long"}, "default": {}}
]}"#;

fn format() -> Format {
    Format::new(SCHEMA, None, &std::collections::BTreeMap::new()).unwrap()
}

fn value() -> Datum {
    let text = r#"{"id": 7, "user": {"name": "ann", "raw": "\u00ff\u0000"}, "tags": ["a", "b"], "parts": ["\u0001", "\u0002"], "by": {"x": 5}}"#;
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
    assert_eq!(found(&field("nothing")), Datum::Null);
    let len = |of: &str| format!(r#"{{"op":"len","args":[{of}]}}"#);
    assert_eq!(found(&len(&field("tags"))), Datum::Int(2));
    assert_eq!(found(&len(&field("by"))), Datum::Int(1));
    assert_eq!(found(&len(VALUE)), Datum::Int(5));
    user_error(
        eval(&get(&field("id"), "x"), value()),
        &["long has no member 'x'"],
    );
    user_error(eval(&at(&field("user"), -1), value()), &["has no elements"]);
}

#[test]
fn unchanged_values_stay_bytes() {
    let whole = found(VALUE);
    assert!(AvroValue::of(&whole).is_some());
    let user = found(&get(VALUE, "user"));
    assert_eq!(
        AvroValue::of(&user).unwrap().walk([]).unwrap().type_name(),
        "object"
    );
    let pair = found(&format!(
        r#"{{"op":"array","args":[{{"op":"key"}},{VALUE}]}}"#
    ));
    let (_, second) = Compiled::pair(pair).unwrap();
    assert!(AvroValue::of(&second).is_some());
    let bytes = format().encode(&value()).unwrap();
    assert_eq!(format().encode(&second).unwrap(), bytes);
    let either = found(&format!(
        r#"{{"op":"coalesce","args":[{},{VALUE}]}}"#,
        get(VALUE, "nothing")
    ));
    assert!(AvroValue::of(&either).is_some());
    let part = found(&get(
        &format!(
            r#"{{"op":"coalesce","args":[{},{VALUE}]}}"#,
            get(VALUE, "nothing")
        ),
        "id",
    ));
    assert_eq!(part, Datum::Int(7));
}

#[test]
fn lists_are_lists_and_objects_are_json() {
    let tags = get(VALUE, "tags");
    let parts = get(VALUE, "parts");
    assert_eq!(
        found(&call("list_join", &[&tags, r#"{"op":"lit","value":"+"}"#])),
        text("a+b")
    );
    assert_eq!(
        found(&call("list_reverse", &[&parts])),
        Datum::List(
            [Bytes::from_static(&[2]), Bytes::from_static(&[1])]
                .map(Datum::Bytes)
                .into()
        )
    );
    let keys = found(&call("keys", &[VALUE]));
    assert_eq!(
        keys,
        Datum::List(["id", "user", "tags", "parts", "by"].map(text).into())
    );
    let equal = |a: &str, b: &str| format!(r#"{{"op":"eq","args":[{a},{b}]}}"#);
    assert_eq!(found(&equal(VALUE, VALUE)), Datum::Bool(true));
    assert_eq!(found(&equal(&tags, &parts)), Datum::Bool(false));
    let item = call(
        "item",
        &[&get(VALUE, "user"), r#"{"op":"lit","value":"raw"}"#],
    );
    assert_eq!(found(&item), Datum::Bytes(Bytes::from_static(&[0xff, 0])));
    let mut each = Vec::new();
    compile(&parts)
        .each(&with(value()), &mut |part| each.push(part))
        .unwrap();
    assert_eq!(
        each,
        [Bytes::from_static(&[1]), Bytes::from_static(&[2])].map(Datum::Bytes)
    );
}

#[test]
fn an_object_may_hold_bytes_for_a_schema() {
    let object = |members: &[(&str, &str)]| {
        let (names, args): (Vec<_>, Vec<_>) = members.iter().copied().unzip();
        format!(
            r#"{{"op":"object","names":{},"args":[{}]}}"#,
            serde_json::to_string(&names).unwrap(),
            args.join(",")
        )
    };
    let raw_bytes = get(&get(VALUE, "user"), "raw");
    let inner = object(&[("name", r#"{"op":"lit","value":"x"}"#), ("raw", &raw_bytes)]);
    let made = found(&object(&[
        ("id", &get(VALUE, "id")),
        ("user", &inner),
        ("tags", &get(VALUE, "tags")),
    ]));
    assert!(Fields::of(&made).is_some());
    let again = format().decode(&format().encode(&made).unwrap()).unwrap();
    let again = |path: &str| eval(path, again.clone()).unwrap();
    assert_eq!(
        again(&raw_bytes),
        Datum::Bytes(Bytes::from_static(&[0xff, 0]))
    );
    assert_eq!(again(&at(&get(VALUE, "tags"), 1)), text("b"));
    // Its members can be read at once.
    assert_eq!(found(&get(&inner, "name")), text("x"));
    assert_eq!(
        found(&format!(r#"{{"op":"len","args":[{inner}]}}"#)),
        Datum::Int(2)
    );
    // JSON still can't represent them.
    let error = stoatflow_core::Serde::Json.encode(&made).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("JSON has no form for a value of type bytes"),
        "{error}"
    );
}
