//! Scalar functions. The random test in `tests/semantics` compares them with Python; these tests cover
//! what it can't see: shared bytes, errors that name their part, values that JSON can't represent.

use super::{compile, eval, raw, text, user_error, with, word};
use crate::expr::Compiled;
use serde_json::{Value, json};
use stoatflow_core::{Datum, ErrorKind, Text};

fn call(function: &str, args: &[Value]) -> String {
    json!({"op": "call", "function": function, "args": args}).to_string()
}

fn value() -> Value {
    json!({"op": "value"})
}

fn lit(constant: impl Into<Value>) -> Value {
    json!({"op": "lit", "value": constant.into()})
}

/// Whether the result shares the bytes of the record.
fn shares(result: &Datum, record: &Datum) -> bool {
    let range = |datum: &Datum| match datum {
        Datum::Str(text) => text.as_bytes().as_ptr_range(),
        Datum::Json(bytes) => bytes.as_ptr_range(),
        other => panic!("{other:?}"),
    };
    let (inner, outer) = (range(result), range(record));
    outer.start <= inner.start && inner.end <= outer.end
}

#[test]
fn parts_of_a_text_are_not_copied() {
    let line = text("  word-7 ");
    for (function, args) in [
        ("slice", vec![value(), lit(2), lit(6)]),
        ("str_strip_chars", vec![value(), lit(" 7")]),
        ("str_removeprefix", vec![value(), lit("  ")]),
        ("str_extract", vec![value(), lit(r"(\w+)-"), lit(1)]),
        (
            "str_replace",
            vec![value(), lit("absent"), lit("x"), lit(-1)],
        ),
        ("str_replace_regex", vec![value(), lit("absent"), lit("x")]),
    ] {
        let result = eval(&call(function, &args), line.clone()).unwrap();
        assert!(shares(&result, &line), "{function}: {result:?}");
    }
    let object = raw(r#"{"a":{"b":[1,2]},"c":3}"#);
    let inner = eval(
        r#"{"op":"get","args":[{"op":"value"}],"name":"a"}"#,
        object.clone(),
    );
    assert!(shares(&inner.unwrap(), &object));
    let all = eval(&call("drop", &[value(), lit("none")]), object.clone());
    assert!(shares(&all.unwrap(), &object), "nothing was dropped");
}

#[test]
fn unnamed_members_are_copied_byte_by_byte() {
    // 1.50, 1e2 and the white space would not survive decoding.
    let object = raw("{ \"a\" : 1.50 , \"b\":[1e2,  3],\"n\\u0061me\":1, \"c\":null}");
    for (args, expected) in [
        (
            vec![lit("b"), lit(7)],
            "{ \"a\" : 1.50, \"b\":7,\"n\\u0061me\":1, \"c\":null}",
        ),
        (
            vec![lit("name"), lit("x"), lit("new"), lit(true)],
            "{ \"a\" : 1.50, \"b\":[1e2,  3],\"n\\u0061me\":\"x\", \"c\":null,\"new\":true}",
        ),
    ] {
        let args: Vec<Value> = [value()].into_iter().chain(args).collect();
        let Datum::Json(made) = eval(&call("with_fields", &args), object.clone()).unwrap() else {
            panic!("an object");
        };
        assert_eq!(std::str::from_utf8(&made).unwrap(), expected);
    }
    let Datum::Json(made) = eval(&call("drop", &[value(), lit("a"), lit("c")]), object).unwrap()
    else {
        panic!("an object");
    };
    assert_eq!(
        std::str::from_utf8(&made).unwrap(),
        "{ \"b\":[1e2,  3],\"n\\u0061me\":1}"
    );
}

#[test]
fn digits_that_a_double_does_not_have_are_refused() {
    let round = |digits: Value| call("round", &[value(), digits]);
    for digits in [lit(-2), lit(301), lit(70_000), lit(1.5), lit("2"), value()] {
        let e = serde_json::from_str(&round(digits.clone())).unwrap();
        let error = Compiled::new(&e).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Topology, "{digits}: {error}");
        assert!(error.message().contains("from 0 to 300"), "{error}");
    }
    let of = |digits: Value, x: f64| eval(&round(digits), Datum::Float(x)).unwrap();
    assert_eq!(of(lit(300), 0.1), Datum::Float(0.1));
    assert_eq!(of(lit(0), 2.5), Datum::Float(2.0));
    assert_eq!(of(lit(Value::Null), 2.5), Datum::Int(2));
}

#[test]
fn of_a_member_that_occurs_twice_the_first_counts() {
    let twice = raw(r#"{"a":1,"b":2,"a":3}"#);
    let with = |args: &[Value]| match eval(&call("with_fields", args), twice.clone()).unwrap() {
        Datum::Json(made) => String::from_utf8(made.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(with(&[value(), lit("a"), lit(9)]), r#"{"a":9,"b":2}"#);
    assert_eq!(
        with(&[value(), lit("c"), lit(9)]),
        r#"{"a":1,"b":2,"a":3,"c":9}"#
    );
    let keys = eval(&call("keys", &[value()]), twice.clone()).unwrap();
    assert_eq!(keys, Datum::List([text("a"), text("b")].into()));
    let values = eval(&call("values", &[value()]), twice).unwrap();
    assert_eq!(values, Datum::List([Datum::Int(1), Datum::Int(2)].into()));
}

#[test]
fn two_objects_become_one() {
    let merged = |first: &str, second: &str| {
        let pair = raw(&format!(r#"{{"l":{first},"r":{second}}}"#));
        let side = |name: &str| json!({"op": "get", "args": [value()], "name": name});
        match eval(&call("merge", &[side("l"), side("r")]), pair)? {
            Datum::Json(made) => Ok(String::from_utf8(made.to_vec()).unwrap()),
            Datum::Null => Ok("null".to_owned()),
            other => panic!("{other:?}"),
        }
    };
    for (first, second, expected) in [
        // Places of the first object, values of the second; unchanged members as they were written.
        (
            r#"{"a":1.50,"b":[1e2,  3]}"#,
            r#"{"b" : 7.0,"c":"x"}"#,
            r#"{"a":1.50,"b":7.0,"c":"x"}"#,
        ),
        (
            r#"{ "a" : 1 }"#,
            r#"{"b":2 , "c":3}"#,
            r#"{ "a" : 1,"b":2, "c":3}"#,
        ),
        ("{}", r#"{"a":null}"#, r#"{"a":null}"#),
        (r#"{"a":1}"#, "{}", r#"{"a":1}"#),
        ("{}", "{}", "{}"),
        // The same name, written in two ways, on either side.
        (r#"{"n\u0061me":1}"#, r#"{"name":2}"#, r#"{"n\u0061me":2}"#),
        (r#"{"name":1}"#, r#"{"n\u0061me":2}"#, r#"{"name":2}"#),
        (r#"{"":1}"#, r#"{"":2,"\"":3}"#, r#"{"":2,"\"":3}"#),
        // If a name occurs twice, the first counts.
        (r#"{"a":1}"#, r#"{"a":2,"a":3}"#, r#"{"a":2}"#),
        (r#"{"a":1,"a":2,"b":1}"#, r#"{"a":3}"#, r#"{"a":3,"b":1}"#),
        // An object beside null stays as it is.
        ("null", r#"{"a":1}"#, r#"{"a":1}"#),
        (r#"{"a":1}"#, "null", r#"{"a":1}"#),
        ("null", "null", "null"),
    ] {
        let made: Result<String, stoatflow_core::Error> = merged(first, second);
        assert_eq!(made.unwrap(), expected, "{first} and {second}");
    }
    for (first, second) in [
        ("1", "{}"),
        ("{}", "[1]"),
        ("null", "true"),
        (r#""x""#, "null"),
    ] {
        let error = merged(first, second).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::User,
            "{first} and {second}: {error}"
        );
    }
}

#[test]
fn a_condition_that_is_an_object_says_how_objects_are_put_together() {
    let or = json!({"op": "or", "args": [value(), value()]}).to_string();
    let said = |of: Datum| eval(&or, of).unwrap_err().to_string();
    assert!(said(raw("{}")).contains("a.merge(b)"));
    assert!(!said(Datum::Int(1)).contains("a.merge(b)"));
}

#[test]
fn malformed_objects_are_errors_of_the_record() {
    for (function, args) in [
        ("with_fields", vec![value(), lit("a"), lit(1)]),
        ("drop", vec![value(), lit("a")]),
        ("merge", vec![value(), value()]),
        ("keys", vec![value()]),
    ] {
        for broken in [r#"{"a":1"#, r#"{"a" 1}"#, r#"{"a":1,}"#, "{a:1}"] {
            let error = eval(&call(function, &args), raw(broken)).unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Serde,
                "{function} of {broken}: {error}"
            );
        }
    }
}

#[test]
fn an_error_names_the_part_that_failed_and_its_line() {
    let part = json!({"op": "located", "line": "rules.py:3", "args": [
        {"op": "add", "args": [{"op": "get", "args": [value()], "name": "n"}, lit(1)]}]});
    let whole = json!({"op": "located", "line": "app.py:9", "args": [
        {"op": "when", "args": [
            {"op": "gt", "args": [{"op": "get", "args": [value()], "name": "k"}, lit(0)]},
            lit("fine"),
            {"op": "cast", "args": [part.clone()], "to": "str"}]}]});
    let expression = compile(&whole.to_string());
    let named = |json: &str| {
        let error = expression.eval(&with(raw(json))).unwrap_err();
        error.coordinates().function.clone().unwrap()
    };
    // The other branch would fail too, but it is not taken.
    assert_eq!(
        expression.eval(&with(raw(r#"{"k":1,"n":"x"}"#))).unwrap(),
        text("fine")
    );
    assert!(
        named(r#"{"k":0,"n":"x"}"#).starts_with(
            r#"rules.py:3 sf.value["n"] + 1, a part of app.py:9 sf.when(sf.value["k"] > 0)"#
        ),
        "{}",
        named(r#"{"k":0,"n":"x"}"#)
    );
    assert!(named(r#"{"k":"x","n":1}"#).starts_with(r#"app.py:9 sf.value["k"] > 0, a part of"#));
    // An expression whose parts don't fail is named once.
    let error = compile(&part.to_string())
        .test(&with(raw(r#"{"n":1}"#)))
        .unwrap_err();
    assert_eq!(
        error.coordinates().function.as_deref(),
        Some(r#"rules.py:3 sf.value["n"] + 1"#)
    );
}

#[test]
fn a_condition_is_to_blame_where_it_is_none() {
    let both = r#"{"op":"and","args":[{"op":"get","args":[{"op":"value"}],"name":"a"},
        {"op":"gt","args":[{"op":"get","args":[{"op":"value"}],"name":"b"},{"op":"lit","value":1}]}]}"#;
    let named = |json: &str| {
        let error = compile(both).test(&with(raw(json))).unwrap_err();
        error.coordinates().function.clone().unwrap()
    };
    assert!(named(r#"{"a":"x","b":2}"#).starts_with(r#"sf.value["a"], a part of"#));
    assert!(named(r#"{"a":true,"b":"x"}"#).starts_with(r#"sf.value["b"] > 1, a part of"#));
}

#[test]
fn numbers_that_json_does_not_have() {
    let nan = Datum::Float(f64::NAN);
    let list = Datum::List([nan.clone(), Datum::Float(1.0), Datum::Int(-1)].into());
    let sorted = eval(&call("list_sort", &[value(), lit(false)]), list).unwrap();
    let Datum::List(sorted) = sorted else {
        panic!("a list");
    };
    assert_eq!(sorted[..2], [Datum::Int(-1), Datum::Float(1.0)]);
    assert!(matches!(sorted[2], Datum::Float(x) if x.is_nan()));
    user_error(eval(&call("floor", &[value()]), nan), &["64 bits"]);
    user_error(
        eval(&call("neg", &[value()]), Datum::Int(i64::MIN)),
        &["64 bits"],
    );
    user_error(
        eval(
            &call("dt_hour", &[value(), lit("UTC")]),
            Datum::Int(i64::MAX),
        ),
        &["outside of the calendar"],
    );
    user_error(
        eval(&call("str_zfill", &[value(), lit(i64::MAX)]), text("1")),
        &["too wide"],
    );
}

#[test]
fn hashes_are_those_of_other_systems() {
    // xxhash.xxh3_64("abc").intdigest() of Python's xxhash, as a signed number.
    let xxh3 = call("hash", &[value(), lit("xxh3")]);
    assert_eq!(
        eval(&xxh3, text("abc")).unwrap(),
        Datum::Int(0x78af_5f94_892f_3950)
    );
    assert_eq!(
        eval(&xxh3, Datum::Int(1)).unwrap(),
        eval(&xxh3, Datum::Float(1.0)).unwrap()
    );
    assert_eq!(
        eval(&xxh3, raw(r#"{"a":[1],"b":2}"#)).unwrap(),
        eval(&xxh3, raw(r#"{"b":2.0, "a":[ 1 ]}"#)).unwrap()
    );
    let murmur2 = call("hash", &[value(), lit("murmur2")]);
    assert_eq!(
        eval(&murmur2, text("21")).unwrap(),
        Datum::Int(1_173_551_340)
    );
    user_error(eval(&murmur2, raw("{}")), &["object"]);
}

#[test]
fn a_pattern_has_its_groups() {
    let swap = call(
        "str_replace_regex",
        &[value(), lit(r"(?P<user>\w+)@(\w+)"), lit(r"\2/\g<user>")],
    );
    assert_eq!(
        word(&eval(&swap, text("ann@home, bob@work")).unwrap()),
        "home/ann, work/bob"
    );
    let error =
        Compiled::new(&serde_json::from_str(&call("str_matches", &[value(), lit("(")])).unwrap())
            .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Topology);
}

#[test]
fn a_long_list_costs_no_square_of_its_length() {
    let long: Vec<Datum> = (0..200_000).map(Datum::Int).collect();
    let unique = call("list_unique", &[value()]);
    let Datum::List(kept) = eval(&unique, Datum::List(long.into())).unwrap() else {
        panic!("a list");
    };
    assert_eq!(kept.len(), 200_000);
}

#[test]
fn every_function_of_the_table_has_an_evaluation() {
    let constants = [
        value(),
        lit(0),
        lit(2),
        lit("a"),
        lit(true),
        lit(".2f"),
        lit("xxh3"),
        lit("UTC"),
    ];
    for &function in stoatflow_plan::ScalarFunction::ALL {
        let row = function.signature();
        // If a choice of constants makes a call, the call must not return an internal error.
        let mut made = false;
        for a in &constants {
            for b in &constants {
                let args: Vec<Value> =
                    [value(), a.clone(), b.clone()][..row.params.len().min(3)].to_vec();
                let args = if row.more {
                    vec![value(), a.clone(), b.clone()]
                } else {
                    args
                };
                let name = serde_json::to_value(function).unwrap();
                let json = call(name.as_str().unwrap(), &args);
                let Ok(compiled) = Compiled::new(&serde_json::from_str(&json).unwrap()) else {
                    continue;
                };
                made = true;
                for datum in [text("7"), Datum::Int(7), raw("[1]"), raw(r#"{"a":1}"#)] {
                    if let Err(error) = compiled.eval(&with(datum)) {
                        assert_ne!(error.kind(), ErrorKind::Internal, "{json}: {error}");
                    }
                }
            }
        }
        assert!(made, "{function:?}");
    }
}

#[test]
fn texts_are_cut_between_characters() {
    let cut = |start: i64, stop: i64| {
        let slice = call("slice", &[value(), lit(start), lit(stop)]);
        word(&eval(&slice, Datum::Str(Text::from("aß漢🙂z"))).unwrap())
    };
    assert_eq!(cut(1, 3), "ß漢");
    assert_eq!(cut(-2, 9), "🙂z");
    assert_eq!(cut(3, 1), "");
    assert_eq!(cut(-99, 99), "aß漢🙂z");
}
