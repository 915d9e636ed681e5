//! Expressions against Python: the result of `python3` for the same operation is written beside it.

mod avro;
mod functions;
mod json;
mod numbers;
mod protobuf;
mod texts;
mod windowed;

use super::Compiled;
use crate::testing::{json as raw, record, text, word};
use stoatflow_core::{Datum, Error, ErrorKind, Record, Result};
use stoatflow_plan::Expression;

pub(super) fn compile(expression: &str) -> Compiled {
    Compiled::new(&serde_json::from_str(expression).unwrap_or_else(|e| panic!("{expression}: {e}")))
        .unwrap()
}

/// A record with this datum as its value.
pub(super) fn with(value: Datum) -> Record {
    Record {
        value,
        ..record("the key", "~", 77)
    }
}

pub(super) fn eval(expression: &str, value: Datum) -> Result<Datum> {
    compile(expression).eval(&with(value))
}

/// An operation of two arguments, on literals: `binary("add", "1", "2")`.
pub(super) fn binary(op: &str, left: &str, right: &str) -> Result<Datum> {
    eval(
        &format!(
            r#"{{"op":"{op}","args":[{{"op":"lit","value":{left}}},{{"op":"lit","value":{right}}}]}}"#
        ),
        Datum::Null,
    )
}

pub(super) fn unary(op: &str, of: Datum) -> Result<Datum> {
    eval(&format!(r#"{{"op":"{op}","args":[{{"op":"value"}}]}}"#), of)
}

pub(super) fn user_error(result: Result<Datum>, parts: &[&str]) {
    let error: Error = result.expect_err("an error");
    assert_eq!(error.kind(), ErrorKind::User, "{error}");
    for part in parts {
        assert!(
            error.message().contains(part),
            "{error} should mention {part}"
        );
    }
    assert_ne!(
        error.next_step(),
        ErrorKind::User.action(),
        "{error} should say what to do"
    );
}

#[test]
fn three_valued_logic() {
    let (t, f, n) = ("true", "false", "null");
    let table = [
        ("and", t, t, t),
        ("and", t, f, f),
        ("and", f, t, f),
        ("and", f, f, f),
        ("and", t, n, n),
        ("and", n, t, n),
        ("and", f, n, f),
        ("and", n, f, f),
        ("and", n, n, n),
        ("or", t, t, t),
        ("or", t, f, t),
        ("or", f, t, t),
        ("or", f, f, f),
        ("or", t, n, t),
        ("or", n, t, t),
        ("or", f, n, n),
        ("or", n, f, n),
        ("or", n, n, n),
    ];
    for (op, a, b, expected) in table {
        let expected = match expected {
            "true" => Datum::Bool(true),
            "false" => Datum::Bool(false),
            _ => Datum::Null,
        };
        assert_eq!(binary(op, a, b).unwrap(), expected, "{a} {op} {b}");
    }
    assert_eq!(unary("not", Datum::Bool(true)).unwrap(), Datum::Bool(false));
    assert_eq!(unary("not", Datum::Null).unwrap(), Datum::Null);
    user_error(unary("not", text("x")), &["condition", "str"]);
}

#[test]
fn logic_stops_when_the_result_is_known() {
    // The right side would fail.
    assert_eq!(
        binary("and", "false", "\"no condition\"").unwrap(),
        Datum::Bool(false)
    );
    assert_eq!(
        binary("or", "true", "\"no condition\"").unwrap(),
        Datum::Bool(true)
    );
    user_error(
        binary("or", "false", "\"no condition\""),
        &["condition", "str"],
    );
}

#[test]
fn a_condition_that_is_null_counts_as_false() {
    let greater = compile(
        r#"{"op":"gt","args":[{"op":"get","args":[{"op":"value"}],"name":"n"},{"op":"lit","value":1}]}"#,
    );
    assert!(greater.test(&with(raw(r#"{"n":2}"#))).unwrap());
    assert!(!greater.test(&with(raw(r#"{"n":1}"#))).unwrap());
    assert!(!greater.test(&with(raw("{}"))).unwrap());
    assert!(!greater.test(&with(Datum::Null)).unwrap());
}

#[test]
fn key_value_timestamp_and_constants() {
    let one = with(text("v"));
    for (expression, expected) in [
        (r#"{"op":"key"}"#, text("the key")),
        (r#"{"op":"value"}"#, text("v")),
        (r#"{"op":"timestamp"}"#, Datum::Int(77)),
        (r#"{"op":"lit","value":1.5}"#, Datum::Float(1.5)),
    ] {
        assert_eq!(compile(expression).eval(&one).unwrap(), expected);
        assert_eq!(
            compile(expression).reads_record(),
            !expression.contains("lit")
        );
    }
}

#[test]
fn choices() {
    let coalesce = r#"{"op":"coalesce","args":[{"op":"get","args":[{"op":"value"}],"name":"a"},{"op":"get","args":[{"op":"value"}],"name":"b"},{"op":"lit","value":"none"}]}"#;
    for (value, expected) in [
        (r#"{"a":"1","b":"2"}"#, "1"),
        (r#"{"a":null,"b":"2"}"#, "2"),
        ("{}", "none"),
    ] {
        assert_eq!(word(&eval(coalesce, raw(value)).unwrap()), expected);
    }
    let when = r#"{"op":"when","args":[{"op":"eq","args":[{"op":"value"},{"op":"lit","value":"x"}]},{"op":"lit","value":1},{"op":"lit","value":2}]}"#;
    assert_eq!(eval(when, text("x")).unwrap(), Datum::Int(1));
    assert_eq!(eval(when, text("y")).unwrap(), Datum::Int(2));
    assert_eq!(eval(when, Datum::Null).unwrap(), Datum::Int(2));
    assert_eq!(unary("is_null", Datum::Null).unwrap(), Datum::Bool(true));
    assert_eq!(unary("is_null", raw("null")).unwrap(), Datum::Bool(true));
    assert_eq!(unary("is_null", raw("0")).unwrap(), Datum::Bool(false));
}

#[test]
fn impossible_expressions_are_refused_when_compiled() {
    let bad = [
        (
            r#"{"op":"str_split","args":[{"op":"value"}],"by":""}"#,
            "empty separator",
        ),
        (
            r#"{"op":"cast","args":[{"op":"value"}],"to":"date"}"#,
            "date",
        ),
        (
            r#"{"op":"object","names":["a"],"args":[]}"#,
            "1 names for 0 values",
        ),
    ];
    for (expression, part) in bad {
        let error = Compiled::new(&serde_json::from_str(expression).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Topology);
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn an_expression_reads_as_it_was_written() {
    let shown = compile(
        r#"{"op":"and","args":[{"op":"gt","args":[{"op":"at","args":[{"op":"get","args":[{"op":"value"}],"name":"amounts"}],"index":-1},{"op":"lit","value":100}]},
            {"op":"not","args":[{"op":"str_starts_with","args":[{"op":"str_lower","args":[{"op":"key"}]}],"text":"a"}]}]}"#,
    );
    assert_eq!(
        shown.text(),
        r#"(sf.value["amounts"][-1] > 100) & ~sf.key.str.lower().str.startswith("a")"#
    );
}

#[test]
fn a_deep_expression_runs_and_names_the_part_that_failed() {
    let begin = r#"{"op":"located","line":"a.py:1","args":[{"op":"add","args":["#;
    let end = r#",{"op":"lit","value":1}]}]}"#;
    let e = format!(
        r#"{}{{"op":"value"}}{}"#,
        begin.repeat(120),
        end.repeat(120)
    );
    let deep = Compiled::new(&Expression::decode(e.as_bytes()).unwrap()).unwrap();
    assert_eq!(deep.eval(&with(Datum::Int(5))).unwrap(), Datum::Int(125));
    let error = deep.eval(&with(Datum::text("x"))).unwrap_err();
    assert!(
        error.to_string().contains("a.py:1 sf.value + 1, a part of"),
        "{error}"
    );
}
