//! The check of expressions, their rendering, and patterns.

use super::check::check;
use super::kinds::Kinds;
use super::known::Known;
use super::pattern::{Part, pattern, replacement};
use super::render::{located, render};
use super::{Expression, ScalarFunction};
use crate::spec::SerdeSpec;
use serde_json::{Value, json};

fn expression(json: Value) -> Expression {
    serde_json::from_value(json).expect("an expression")
}

fn value() -> Value {
    json!({"op": "value"})
}

fn lit(constant: impl Into<Value>) -> Value {
    json!({"op": "lit", "value": constant.into()})
}

fn call(function: &str, args: &[Value]) -> Value {
    json!({"op": "call", "function": function, "args": args})
}

/// The problems of an expression over values of these kinds, and the kinds of its result.
fn found(e: Value, value: Kinds) -> (Vec<String>, Kinds) {
    let known = Known::kinds(Kinds::STR, value);
    let mut sentences = Vec::new();
    let made = check(&expression(e), known, &mut |what| sentences.push(what));
    (sentences, made)
}

#[test]
fn impossible_expressions_are_found() {
    let key = json!({"op": "key"});
    let binary = |op: &str, a: &Value, b: Value| json!({"op": op, "args": [a, b]});
    let v = value();
    for (e, kinds, part) in [
        (binary("add", &v, lit("x")), Kinds::INT, "int + str"),
        (binary("add", &v, lit(1)), Kinds::STR, "str + int"),
        (binary("sub", &v, lit(1)), Kinds::STR, "str and int"),
        (binary("lt", &v, lit(1)), Kinds::STR, "have no order"),
        (binary("eq", &v, lit(1)), Kinds::STR, "never equals"),
        (binary("eq", &key, lit(1)), Kinds::ALL, "never equals"),
        (
            binary("and", &v, lit(true)),
            Kinds::STR,
            "a condition takes bool",
        ),
        (
            json!({"op": "get", "args": [v], "name": "a"}),
            Kinds::STR,
            "no member 'a'",
        ),
        (
            json!({"op": "at", "args": [v], "index": 0}),
            Kinds::INT,
            "no elements",
        ),
        (
            json!({"op": "str_lower", "args": [v]}),
            Kinds::BYTES,
            ".str takes str",
        ),
        (
            json!({"op": "len", "args": [v]}),
            Kinds::INT,
            ".len() takes",
        ),
        (
            json!({"op": "cast", "args": [v], "to": "int"}),
            Kinds::BYTES,
            "cast",
        ),
        (
            call("abs", std::slice::from_ref(&v)),
            Kinds::STR,
            "sf.value is str",
        ),
        (
            call("str_zfill", &[v.clone(), lit("3")]),
            Kinds::STR,
            "\"3\" is str",
        ),
        (
            call("list_sum", std::slice::from_ref(&v)),
            Kinds::STR,
            "list is wanted",
        ),
        (
            call("between", &[v.clone(), lit("a"), lit("b")]),
            Kinds::INT,
            "have no order",
        ),
        (call("abs", &[]), Kinds::INT, "takes 1 arguments"),
        (
            call("abs", &[lit(1), lit(2)]),
            Kinds::INT,
            "takes 1 arguments",
        ),
        (
            call("round", &[v.clone(), lit(-1)]),
            Kinds::FLOAT,
            "0 to 300",
        ),
        (
            call("round", &[v.clone(), v.clone()]),
            Kinds::INT,
            "must be a constant",
        ),
        (
            call("str_matches", &[v.clone(), lit("(")]),
            Kinds::STR,
            "no regular expression",
        ),
        (
            call("str_matches", &[v.clone(), lit("(?=a)")]),
            Kinds::STR,
            "look-around",
        ),
        (
            call("str_extract", &[v.clone(), lit("a(b)"), lit(2)]),
            Kinds::STR,
            "no group 2",
        ),
        (
            call("str_replace_regex", &[v.clone(), lit("a"), lit("\\1")]),
            Kinds::STR,
            "no group 1",
        ),
        (
            call("str_to_int", &[v.clone(), lit(37), lit(true)]),
            Kinds::STR,
            "from 2 to 36",
        ),
        (
            call("str_split_n", &[v.clone(), lit(""), lit(1)]),
            Kinds::STR,
            "empty separator",
        ),
        (
            call("str_ljust", &[v.clone(), lit(5), lit("ab")]),
            Kinds::STR,
            "one character",
        ),
        (
            call("with_fields", &[v.clone(), lit("a")]),
            Kinds::JSON,
            "a name and a value",
        ),
        (
            call("dt_truncate", &[v.clone(), lit(0), lit("UTC")]),
            Kinds::INT,
            "at least 1 ms",
        ),
        (
            call("dt_hour", &[v.clone(), lit("Mars/Olympus")]),
            Kinds::INT,
            "no time zone",
        ),
        (
            call("dt_strftime", &[v.clone(), lit("%Q%"), lit("UTC")]),
            Kinds::INT,
            "no form of a time",
        ),
        (
            call("hash", &[v.clone(), lit("md5")]),
            Kinds::STR,
            "murmur2",
        ),
    ] {
        let (sentences, _) = found(e.clone(), kinds);
        assert_eq!(sentences.len(), 1, "{e}: {sentences:?}");
        assert!(
            sentences[0].contains(part),
            "{sentences:?} should mention {part}"
        );
    }
}

#[test]
fn possible_expressions_are_accepted() {
    let member = json!({"op": "get", "args": [value()], "name": "a"});
    for e in [
        json!({"op": "add", "args": [member, lit("x")]}),
        json!({"op": "add", "args": [member, lit(1)]}),
        json!({"op": "lt", "args": [member, lit(1)]}),
        json!({"op": "eq", "args": [value(), lit(Value::Null)]}),
        json!({"op": "add", "args": [value(), lit(Value::Null)]}),
        json!({"op": "and", "args": [member, lit(true)]}),
        call("abs", std::slice::from_ref(&member)),
        call("list_sum", std::slice::from_ref(&member)),
        call("slice", &[member.clone(), lit(0), lit(Value::Null)]),
    ] {
        let (sentences, _) = found(e.clone(), Kinds::JSON);
        assert!(sentences.is_empty(), "{e}: {sentences:?}");
    }
}

#[test]
fn results_are_of_the_kinds_that_rows_say() {
    for (e, kinds, made) in [
        (call("abs", &[value()]), Kinds::INT, Kinds::INT),
        (call("abs", &[value()]), Kinds::FLOAT, Kinds::FLOAT),
        (call("round", &[value()]), Kinds::FLOAT, Kinds::INT),
        (
            call("round", &[value(), lit(2)]),
            Kinds::FLOAT,
            Kinds::FLOAT,
        ),
        (call("pow", &[value(), lit(2)]), Kinds::INT, Kinds::INT),
        (
            call("pow", &[value(), lit(-2)]),
            Kinds::INT,
            Kinds::INT.or(Kinds::FLOAT),
        ),
        (
            call("slice", &[value(), lit(1), lit(2)]),
            Kinds::STR,
            Kinds::STR,
        ),
        (
            call("least", &[value(), lit(2.5)]),
            Kinds::INT,
            Kinds::INT.or(Kinds::FLOAT),
        ),
        (call("is_in", &[value(), lit(2)]), Kinds::INT, Kinds::BOOL),
        (
            json!({"op": "add", "args": [value(), lit(1)]}),
            Kinds::INT,
            Kinds::INT,
        ),
        (
            json!({"op": "add", "args": [value(), lit("x")]}),
            Kinds::STR,
            Kinds::STR,
        ),
        (
            json!({"op": "array", "args": [value()]}),
            Kinds::STR,
            Kinds::LIST,
        ),
    ] {
        assert_eq!(found(e.clone(), kinds), (vec![], made), "{e}");
    }
}

#[test]
fn the_parts_of_windowed_keys_have_the_kinds_of_their_serdes() {
    let key = json!({"op": "key"});
    let part = |function: &str| call(function, std::slice::from_ref(&key));
    let located = json!({"op": "located", "line": "app.py:1", "args": [part("windowed_key")]});
    let inner = || Box::new(SerdeSpec::Builtin("int32".into()));
    let in_time = SerdeSpec::TimeWindowed {
        time_windowed: inner(),
        size_ms: 10,
    };
    let in_session = SerdeSpec::SessionWindowed {
        session_windowed: inner(),
    };
    for serde in [&in_time, &in_session] {
        for e in [
            part("windowed_key"),
            located.clone(),
            part("window_start"),
            part("window_end"),
        ] {
            let made = check(&expression(e), Known::of(Some(serde), None), &mut |what| {
                panic!("{what}")
            });
            assert_eq!(made, Kinds::INT);
        }
        let mut sentences = Vec::new();
        let member = json!({"op": "get", "args": [key], "name": "start"});
        let text = json!({"op": "str_lower", "args": [part("windowed_key")]});
        for wrong in [member, text] {
            check(
                &expression(wrong),
                Known::of(Some(serde), None),
                &mut |what| {
                    sentences.push(what);
                },
            );
        }
        assert_eq!(sentences.len(), 2, "{sentences:?}");
        assert!(sentences[0].contains("write sf.key.key"), "{sentences:?}");
        assert!(
            sentences[1].contains("sf.key.key.str.lower()"),
            "{sentences:?}"
        );
    }
    // The serde of a user may read anything.
    let unknown = check(
        &expression(part("windowed_key")),
        Known::NOTHING,
        &mut |what| panic!("{what}"),
    );
    assert_eq!(unknown, Kinds::ALL);
    for function in ["windowed_key", "window_start", "window_end"] {
        let (sentences, _) = found(part(function), Kinds::ALL);
        assert_eq!(sentences.len(), 1, "{sentences:?}");
        assert!(
            sentences[0].ends_with(
                "sf.key is str: only the keys of windowed aggregations have .key and .window"
            ),
            "{sentences:?}"
        );
    }
}

#[test]
fn a_sentence_names_the_line_of_the_part() {
    let inner = json!({"op": "located", "line": "rules.py:3", "args": [
        {"op": "add", "args": [value(), lit("x")]}]});
    let e = json!({"op": "located", "line": "app.py:9", "args": [
        {"op": "eq", "args": [inner, lit("y")]}]});
    let (sentences, _) = found(e, Kinds::INT);
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(
        sentences[0].starts_with("rules.py:3 sf.value + \"x\": "),
        "{sentences:?}"
    );
}

#[test]
fn every_function_has_a_row_that_holds_together() {
    for &function in ScalarFunction::ALL {
        let row = function.signature();
        assert!(row.needed <= row.params.len(), "{function:?}");
        assert!(!row.params.is_empty(), "{function:?}");
        let name = serde_json::to_value(function).expect("a name");
        assert_eq!(
            serde_json::from_value::<ScalarFunction>(name).expect("the same"),
            function
        );
    }
}

#[test]
fn an_expression_reads_as_it_was_written() {
    for (e, text) in [
        (call("pow", &[value(), lit(2)]), "sf.value ** 2"),
        (
            call("neg", &[call("pow", &[value(), lit(2)])]),
            "-(sf.value ** 2)",
        ),
        (
            call("str_zfill", &[value(), lit(3)]),
            "sf.value.str.zfill(3)",
        ),
        (call("least", &[value(), lit(3)]), "sf.least(sf.value, 3)"),
        (
            call(
                "dt_iso",
                &[call("window_start", &[json!({"op": "key"})]), lit("UTC")],
            ),
            "sf.key.window.start.dt.iso(\"UTC\")",
        ),
        (
            json!({"op": "get", "args": [call("windowed_key", &[json!({"op": "key"})])], "name": "a"}),
            "sf.key.key[\"a\"]",
        ),
        (
            call(
                "format",
                &[
                    lit("{"),
                    value(),
                    call("format_number", &[value(), lit(".2f")]),
                ],
            ),
            "sf.format(\"{{{}{:.2f}\", sf.value, sf.value)",
        ),
        (
            json!({"op": "when", "args": [value(), lit(1), lit(2)]}),
            "sf.when(sf.value).then(1).otherwise(2)",
        ),
        (
            json!({"op": "cast", "args": [value()], "to": "int", "strict": false}),
            "sf.value.cast(\"int\", strict=False)",
        ),
        (
            json!({"op": "object", "names": ["a"], "args": [lit(true)]}),
            "sf.obj(a=True)",
        ),
    ] {
        assert_eq!(render(&expression(e)), text);
    }
    let long = expression(lit("x".repeat(1000)));
    let text = located(&long, Some("app.py:1"));
    assert!(
        text.starts_with("app.py:1 \"xxx") && text.len() < 300,
        "{text}"
    );
}

#[test]
fn strict_is_what_a_cast_is_unless_it_says_otherwise() {
    let cast = expression(json!({"op": "cast", "args": [value()], "to": "int"}));
    assert!(matches!(cast, Expression::Cast { strict: true, .. }));
    let text = serde_json::to_string(&cast).expect("JSON");
    assert!(!text.contains("strict"), "{text}");
}

#[test]
fn replacements_are_pythons() {
    let found = pattern(r"(?P<user>\w+)@(\w+)").expect("a pattern");
    let text = |t: &str| Part::Text(t.into());
    assert_eq!(
        replacement(&found, r"\2 of \g<user>\\\n").expect("a replacement"),
        [Part::Group(2), text(" of "), Part::Group(1), text("\\\n")]
    );
    for wrong in [r"\3", r"\g<nobody>", r"\q", "\\", r"\gx"] {
        assert!(replacement(&found, wrong).is_err(), "{wrong}");
    }
}
