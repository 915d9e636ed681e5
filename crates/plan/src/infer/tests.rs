use super::*;
use serde_json::{Value, json};

fn inferred(e: Value, key: &str, value: &str) -> Option<String> {
    let e: Expression = serde_json::from_value(e).expect("an expression");
    let spec = |s: &str| SerdeSpec::Builtin(s.into());
    match infer(&e, Some(&spec(key)), Some(&spec(value))).serde() {
        Some(SerdeSpec::Builtin(name)) => Some(name),
        _ => None,
    }
}

#[test]
fn certain_types() {
    let value = json!({"op": "value"});
    let one = json!({"op": "lit", "value": 1});
    let get = json!({"op": "get", "args": [value], "name": "a"});
    for (e, expected) in [
        (json!({"op": "key"}), Some("int32")),
        (value.clone(), Some("string")),
        (json!({"op": "str_lower", "args": [get]}), Some("string")),
        (
            json!({"op": "str_split", "args": [value], "by": null}),
            Some("json"),
        ),
        (
            json!({"op": "at", "args": [{"op": "str_split", "args": [value], "by": ","}], "index": 0}),
            Some("string"),
        ),
        (json!({"op": "len", "args": [value]}), Some("int64")),
        (get.clone(), Some("json")),
        (json!({"op": "gt", "args": [get, one]}), None),
        (
            json!({"op": "add", "args": [{"op": "key"}, one]}),
            Some("int64"),
        ),
        (json!({"op": "add", "args": [value, value]}), Some("string")),
        (json!({"op": "add", "args": [value, one]}), None),
        (
            json!({"op": "mul", "args": [one, {"op": "lit", "value": 0.5}]}),
            Some("double"),
        ),
        (json!({"op": "div", "args": [one, one]}), Some("double")),
        (json!({"op": "add", "args": [get, one]}), Some("json")),
        (
            json!({"op": "cast", "args": [get], "to": "int"}),
            Some("int64"),
        ),
        (
            json!({"op": "coalesce", "args": [{"op": "lit", "value": null}, value]}),
            Some("string"),
        ),
        (json!({"op": "coalesce", "args": [value, one]}), None),
        (
            json!({"op": "when", "args": [{"op": "is_null", "args": [get]}, one, {"op": "timestamp"}]}),
            Some("int64"),
        ),
        (
            json!({"op": "object", "names": ["a"], "args": [value]}),
            Some("json"),
        ),
    ] {
        assert_eq!(
            inferred(e.clone(), "int32", "string").as_deref(),
            expected,
            "{e}"
        );
    }
}

#[test]
fn elements_of_lists() {
    let split: Expression =
        serde_json::from_value(json!({"op": "str_split", "args": [{"op": "value"}], "by": null}))
            .expect("an expression");
    assert_eq!(
        infer(&split, None, None).element().serde(),
        Some(SerdeSpec::Builtin("string".into()))
    );
    assert_eq!(
        infer(
            &Expression::Value,
            None,
            Some(&SerdeSpec::Builtin("string".into()))
        )
        .element(),
        Type::Unknown
    );
}

#[test]
fn the_key_within_a_windowed_key_keeps_its_serde() {
    let key = json!({"op": "key"});
    let part = |function: &str| -> Expression {
        serde_json::from_value(json!({"op": "call", "function": function, "args": [key]}))
            .expect("an expression")
    };
    for inner in [
        SerdeSpec::Builtin("int32".into()),
        SerdeSpec::Builtin("json".into()),
        SerdeSpec::Custom { custom: 3 },
    ] {
        let in_time = SerdeSpec::TimeWindowed {
            time_windowed: Box::new(inner.clone()),
            size_ms: 10,
        };
        let in_session = SerdeSpec::SessionWindowed {
            session_windowed: Box::new(inner.clone()),
        };
        for windowed in [&in_time, &in_session] {
            let found = infer(&part("windowed_key"), Some(windowed), None).serde();
            assert_eq!(found.as_ref(), Some(&inner));
            let start = infer(&part("window_start"), Some(windowed), None);
            assert_eq!(start, of("int64"));
        }
        assert_eq!(
            infer(&part("windowed_key"), Some(&inner), None),
            Type::Unknown
        );
    }
}

#[test]
fn numbers_of_two_kinds_are_written_as_what_they_were_made_of() {
    let call =
        |function: &str, args: &[Value]| json!({"op": "call", "function": function, "args": args});
    let (key, value) = (json!({"op": "key"}), json!({"op": "value"}));
    let lit = |x: Value| json!({"op": "lit", "value": x});
    let member = json!({"op": "get", "args": [value], "name": "a"});
    for (e, serde, expected) in [
        (
            call("clip", &[value.clone(), lit(json!(0)), lit(json!(100))]),
            "double",
            Some("double"),
        ),
        (
            call("clip", &[value.clone(), lit(json!(0)), lit(json!(100))]),
            "int64",
            Some("int64"),
        ),
        (
            call("clip", &[value.clone(), lit(json!(0)), lit(Value::Null)]),
            "double",
            Some("double"),
        ),
        (
            call("clip", &[member.clone(), lit(json!(0)), lit(json!(100))]),
            "json",
            Some("json"),
        ),
        (
            call("least", &[value.clone(), key.clone()]),
            "double",
            Some("double"),
        ),
        (
            call("greatest", &[lit(json!(0.5)), key.clone()]),
            "string",
            Some("double"),
        ),
        (
            call("greatest", &[member, lit(json!(0.5))]),
            "json",
            Some("json"),
        ),
        (
            call("least", &[value.clone(), lit(json!("x"))]),
            "string",
            Some("string"),
        ),
        // 2 ** -1 is 0.5, but 2 ** 1 is 2: the type is unknown.
        (call("pow", &[key.clone(), key.clone()]), "string", None),
        (call("pow", &[value.clone(), key]), "double", Some("double")),
        (
            call("round", &[value.clone(), lit(json!(2))]),
            "double",
            Some("double"),
        ),
        (call("round", &[value.clone(), lit(json!(2))]), "mine", None),
        (call("list_sum", &[value]), "json", Some("json")),
    ] {
        assert_eq!(
            inferred(e.clone(), "int32", serde).as_deref(),
            expected,
            "{e} of {serde}"
        );
    }
}
