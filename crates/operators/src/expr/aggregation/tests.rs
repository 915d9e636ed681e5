use super::sketch::Sketch;
use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use stoatflow_core::{Bytes, ErrorKind, Serde, Text};

fn compiled(spec: &Value) -> Aggregation {
    let spec = serde_json::from_value(spec.clone()).expect("a well-formed aggregation");
    Aggregation::new(&spec).unwrap()
}

fn one(kind: &str) -> Value {
    json!({"one": {"kind": kind, "of": {"op": "value"}}})
}

fn sized(kind: &str, size: u64) -> Value {
    json!({"one": {"kind": kind, "of": {"op": "value"}, "size": size}})
}

fn member(name: &str) -> Value {
    json!({"op": "get", "args": [{"op": "value"}], "name": name})
}

fn several() -> Value {
    json!({"several": [
        ["n", {"kind": "count"}],
        ["total", {"kind": "sum", "of": member("x")}],
        ["mean", {"kind": "avg", "of": member("x")}],
        ["last", {"kind": "last", "of": member("name")}],
        ["best", {"kind": "top_k", "of": member("name"), "by": member("x"), "size": 2}],
        ["names", {"kind": "collect_set", "of": member("name")}],
        ["users", {"kind": "approx_distinct", "of": member("name"), "size": 4}],
    ]})
}

fn record(value: &Value) -> Record {
    let value = match value {
        Value::Null => Datum::Null,
        value => Datum::Json(value.to_string().into()),
    };
    Record {
        value,
        ..Record::default()
    }
}

fn shown(datum: &Datum) -> Value {
    match Serde::Json.encode(datum).unwrap() {
        Some(bytes) => serde_json::from_slice(&bytes).unwrap(),
        None => Value::Null,
    }
}

/// Aggregates values; the aggregate stays in memory, or goes through a store after each value.
fn folded(aggregation: &Aggregation, values: &[Value], stored: bool) -> Result<Datum> {
    let mut so_far = Datum::Null;
    for value in values {
        so_far = aggregation.step(&so_far, &record(value))?;
        if stored {
            so_far = Serde::Json.decode(Serde::Json.encode(&so_far)?)?;
        }
    }
    Ok(so_far)
}

fn gives(spec: &Value, values: &Value, expected: &Value) {
    let aggregation = compiled(spec);
    let values = values.as_array().unwrap();
    for stored in [false, true] {
        let found = folded(&aggregation, values, stored).unwrap();
        assert_eq!(
            &shown(&found),
            expected,
            "{spec} of {values:?}, stored: {stored}"
        );
    }
    // However the records are split, merging the parts gives the same.
    for at in 0..=values.len() {
        let (a, b) = values.split_at(at);
        let (a, b) = (
            folded(&aggregation, a, false).unwrap(),
            folded(&aggregation, b, true).unwrap(),
        );
        let merged = aggregation.merge(&a, &b).unwrap();
        let merged = if values.is_empty() {
            Datum::Null
        } else {
            merged
        };
        assert_eq!(
            &shown(&merged),
            expected,
            "{spec} of {values:?}, split at {at}"
        );
    }
}

#[test]
fn numbers() {
    gives(&one("sum"), &json!([1, 2, null, 3]), &json!(6));
    gives(&one("sum"), &json!([1, 0.5, true]), &json!(2.5));
    gives(&one("sum"), &json!([null]), &json!(0));
    gives(
        &one("avg"),
        &json!([1, 2, null, 6]),
        &json!({"avg": 3.0, "count": 3, "sum": 9}),
    );
    gives(
        &one("avg"),
        &json!([null]),
        &json!({"avg": null, "count": 0, "sum": 0}),
    );
    gives(&one("count"), &json!([1, "a", null, {}]), &json!(3));
    gives(
        &json!({"one": {"kind": "count"}}),
        &json!([1, "a", null]),
        &json!(3),
    );
}

#[test]
fn one_of_many() {
    gives(&one("min"), &json!([3, 1.5, null, 2]), &json!(1.5));
    gives(&one("max"), &json!([3, 1.5, 7, 2]), &json!(7));
    gives(&one("max"), &json!(["b", "c", "a"]), &json!("c"));
    gives(&one("first"), &json!([null, {"a": 1}, 2]), &json!({"a": 1}));
    gives(&one("last"), &json!([1, [2], null]), &json!([2]));
    gives(&one("min"), &json!([null]), &Value::Null);
}

#[test]
fn lists() {
    gives(
        &one("collect"),
        &json!([1, "a,b", null, {"x": [1, 2]}, "a,b"]),
        &json!([1, "a,b", {"x": [1, 2]}, "a,b"]),
    );
    gives(&one("collect"), &json!([null]), &json!([]));
    gives(
        &sized("collect", 2),
        &json!([1, "two", [3], 4]),
        &json!([[3], 4]),
    );
    gives(
        &one("collect_set"),
        &json!([2, "2", 1, 2.0, true, "2", {"a": 1, "b": 2}]),
        &json!([2, "2", 1, {"a": 1, "b": 2}]),
    );
    gives(
        &sized("collect_set", 2),
        &json!([1, 1, 2, 3]),
        &json!([1, 2]),
    );
    gives(
        &sized("top_k", 2),
        &json!([1, 5, null, 3, 5]),
        &json!([5, 5]),
    );
    gives(
        &sized("top_k", 5),
        &json!(["a", "c", "b"]),
        &json!(["c", "b", "a"]),
    );
    let ranked = ranked(2);
    let values = json!([{"name": "a", "x": 1}, {"name": "b", "x": 2}, {"name": "c", "x": 2}, {"name": "d"}, {"x": 9}]);
    gives(&ranked, &values, &json!({"top": ["b", "c"], "by": [2, 2]}));
    gives(&ranked, &json!([{}]), &json!({"top": [], "by": []}));
}

#[test]
fn equal_objects_are_one_however_they_are_spelled() {
    let set = compiled(&one("collect_set"));
    let mut so_far = Datum::Null;
    for text in [
        "{\"a\":1,\"b\":[2]}",
        "{ \"b\" : [2.0], \"a\" : 1 }",
        "[1]",
        "[ 1 ]",
        "{\"a\":1}",
    ] {
        let record = Record {
            value: Datum::Json(text.into()),
            ..Record::default()
        };
        so_far = set.step(&so_far, &record).unwrap();
    }
    assert_eq!(shown(&so_far), json!([{"a": 1, "b": [2]}, [1], {"a": 1}]));
}

#[test]
fn several_at_once() {
    let aggregation = compiled(&several());
    let values = [
        json!({"x": 1, "name": "a"}),
        json!({"x": 5, "name": "b"}),
        json!({"name": "a"}),
    ];
    for stored in [false, true] {
        let mut found = shown(&folded(&aggregation, &values, stored).unwrap());
        let users = found.as_object_mut().unwrap().remove("users").unwrap();
        assert_eq!(users["estimate"], 2);
        assert_eq!(
            found,
            json!({"n": 3, "total": 6, "mean": {"avg": 3.0, "count": 2, "sum": 6}, "last": "a",
                   "best": {"top": ["b", "a"], "by": [5, 1]}, "names": ["a", "b"]})
        );
    }
}

#[test]
fn members_are_read_without_writing_the_whole() {
    let aggregation = compiled(&several());
    let values = [json!({"x": 1, "name": "a"}), json!({"x": 5, "name": "b"})];
    let state = folded(&aggregation, &values, false).unwrap();
    let json = Datum::Json(Serde::Json.encode(&state).unwrap().unwrap());
    for path in [
        vec!["n"],
        vec!["total"],
        vec!["mean", "avg"],
        vec!["mean", "sum"],
        vec!["mean", "count"],
        vec!["users", "estimate"],
        vec!["best", "top"],
        vec!["names"],
        vec!["mean"],
        vec!["last", "nothing"],
        vec!["nothing"],
    ] {
        let of_value = json!({"op": "value"});
        let path = path.iter().fold(
            of_value,
            |of, name| json!({"op": "get", "args": [of], "name": name}),
        );
        let read = Compiled::new(&serde_json::from_value(path.clone()).unwrap()).unwrap();
        let eval = |value: &Datum| {
            let record = Record {
                value: value.clone(),
                ..Record::default()
            };
            read.eval(&record)
                .map(|found| shown(&found))
                .map_err(|e| e.message().to_owned())
        };
        assert_eq!(eval(&state), eval(&json), "{path}");
    }
}

#[test]
fn added_values_can_be_retracted() {
    let spec = json!({"several": [["n", {"kind": "count"}], ["sum", {"kind": "sum", "of": member("x")}], ["avg", {"kind": "avg", "of": member("x")}]]});
    let aggregation = compiled(&spec);
    let values = [json!({"x": 1}), json!({"x": 5}), json!({})];
    let all = folded(&aggregation, &values, true).unwrap();
    let less = aggregation.take(&all, &record(&values[1])).unwrap();
    let others = [values[0].clone(), values[2].clone()];
    assert_eq!(
        shown(&less),
        shown(&folded(&aggregation, &others, false).unwrap())
    );
    for kind in ["count", "sum"] {
        let aggregation = compiled(&one(kind));
        let all = folded(&aggregation, &[json!(4), json!(7)], true).unwrap();
        let less = aggregation.take(&all, &record(&json!(7))).unwrap();
        assert_eq!(
            shown(&less),
            shown(&folded(&aggregation, &[json!(4)], false).unwrap())
        );
    }
}

#[test]
fn invalid_values_are_errors_of_their_record() {
    let fails = |spec: &Value, values: &Value, part: &str| {
        let error = folded(&compiled(spec), values.as_array().unwrap(), false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::User);
        assert!(error.to_string().contains(part), "{error}");
    };
    fails(
        &one("sum"),
        &json!(["12"]),
        "a number was expected, but found str",
    );
    fails(
        &one("avg"),
        &json!([{}]),
        "a number was expected, but found object",
    );
    fails(&one("sum"), &json!([i64::MAX, 1]), "beyond 64 bits");
    fails(&one("sum"), &json!([1.0e308, 1.0e308]), "no finite number");
    fails(&one("max"), &json!([1, "a"]), "can't order");
    fails(&sized("top_k", 2), &json!(["a", 1]), "can't order");
    fails(&one("sum"), &json!(["12"]), "sf.sum");
}

fn ranked(size: u64) -> Value {
    json!({"one": {"kind": "top_k", "of": member("name"), "by": member("x"), "size": size}})
}

/// The stored form of a sketch of this precision with this many values.
fn held_sketch(bits: u64, values: i64) -> Value {
    let values: Vec<Value> = (0..values).map(Value::from).collect();
    shown(&folded(&compiled(&sized("approx_distinct", bits)), &values, true).unwrap())
}

#[test]
fn a_size_that_was_changed_holds_from_the_next_record_on() {
    for (kind, held, expected) in [
        ("top_k", json!([5, 4, 3]), json!([5, 4])),
        ("collect", json!([1, 2, 3]), json!([3, 0])),
        ("collect_set", json!([1, 2, 3]), json!([1, 2])),
        ("top_k", json!([5]), json!([5, 0])),
    ] {
        let held = Datum::Json(held.to_string().into());
        let made = compiled(&sized(kind, 2)).step(&held, &record(&json!(0)));
        assert_eq!(shown(&made.unwrap()), expected, "{kind} of {held:?}");
    }
    let held = Datum::Json(r#"{"top":["a","b"],"by":[5,4]}"#.into());
    let made = compiled(&ranked(1)).step(&held, &record(&json!({"name": "c", "x": 3})));
    assert_eq!(shown(&made.unwrap()), json!({"top": ["a"], "by": [5]}));
}

#[test]
fn values_of_another_aggregation_are_refused() {
    let cases = [
        (one("sum"), json!("text")),
        (one("count"), json!(1.5)),
        (one("avg"), json!(3)),
        (one("avg"), json!({"count": 3})),
        (one("collect"), json!({"a": 1})),
        (sized("top_k", 2), json!(7)),
        // The rank was added or removed, also without elements.
        (sized("top_k", 2), json!({"top": ["a"], "by": [1]})),
        (sized("top_k", 2), json!({"top": [], "by": []})),
        (ranked(2), json!([3, 2])),
        (ranked(2), json!([])),
        (ranked(2), json!({"top": ["a"], "by": [1, 2]})),
        (
            sized("approx_distinct", 4),
            json!({"estimate": 1, "registers": "AAAA"}),
        ),
        (
            sized("approx_distinct", 4),
            json!({"estimate": 1, "few": "////"}),
        ),
        // Another precision, with few registers and with all.
        (sized("approx_distinct", 14), held_sketch(12, 3)),
        (sized("approx_distinct", 10), held_sketch(12, 3)),
        (sized("approx_distinct", 5), held_sketch(4, 100)),
        (several(), json!({"n": 1})),
        (several(), json!(1)),
    ];
    for (spec, held) in cases {
        let held = Datum::Json(held.to_string().into());
        let error = compiled(&spec)
            .step(&held, &record(&json!({"x": 1})))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible, "{spec}: {error}");
    }
}

#[test]
fn another_stream_s_measures_stay_as_they_are() {
    let spec = json!({"several": [["own", {"kind": "count"}], ["other", {"kind": "sum", "of": {"op": "value"}, "elsewhere": true}]]});
    let found = folded(&compiled(&spec), &[json!(5), json!(6)], true).unwrap();
    assert_eq!(shown(&found), json!({"own": 2, "other": 0}));
}

#[test]
fn returned_results_never_change() {
    let aggregation = compiled(&one("collect"));
    let first = aggregation.step(&Datum::Null, &record(&json!(1))).unwrap();
    let _second = aggregation.step(&first, &record(&json!(2))).unwrap();
    assert_eq!(shown(&first), json!([1]));
    let Datum::Opaque(state) = first else {
        panic!("a state was expected")
    };
    assert!(!state.changes(), "so nobody copies it");
}

#[test]
fn kept_values_do_not_keep_input_buffers_alive() {
    let words = json!({"op": "str_split", "args": [{"op": "value"}], "by": null});
    for measure in [
        json!({"kind": "last", "of": words}),
        json!({"kind": "first", "of": {"op": "array", "args": [words, {"op": "value"}]}}),
        json!({"kind": "top_k", "size": 2, "of": words, "by": {"op": "value"}}),
        json!({"kind": "max", "of": {"op": "value"}}),
    ] {
        for spec in [
            json!({"one": measure}),
            json!({"several": [["a", measure], ["n", {"kind": "count"}]]}),
        ] {
            let buffer = Bytes::from(b"one two three and all the rest of a block".to_vec());
            let line = Text::from_utf8(buffer.slice(..13)).unwrap();
            let record = Record {
                value: Datum::Str(line),
                ..Record::default()
            };
            let kept = compiled(&spec).step(&Datum::Null, &record).unwrap();
            drop(record);
            assert!(buffer.is_unique(), "{spec} holds a slice of the input");
            assert!(shown(&kept).to_string().contains("three"), "{spec}");
        }
    }
}

#[test]
fn a_record_that_changes_nothing_copies_nothing() {
    for (spec, same, other) in [
        (one("collect_set"), json!({"a": 1, "b": [2]}), json!("x")),
        (sized("collect_set", 1), json!("more"), json!("than fits")),
        (one("approx_distinct"), json!("a"), json!("b")),
        (sized("top_k", 1), json!(5), json!(6)),
    ] {
        let aggregation = compiled(&spec);
        let first = match same {
            Value::String(_) => json!("a"),
            _ => same.clone(),
        };
        let before = aggregation.step(&Datum::Null, &record(&first)).unwrap();
        let same = aggregation.step(&before, &record(&same)).unwrap();
        assert!(shares(&before, &same), "{spec}");
        let after = aggregation.step(&same, &record(&other)).unwrap();
        assert_eq!(
            shares(&same, &after),
            shown(&same) == shown(&after),
            "{spec}"
        );
    }
}

/// Whether two aggregates share their memory.
fn shares(a: &Datum, b: &Datum) -> bool {
    let cells = |datum: &Datum| State::of(datum).expect("a state").cells().clone();
    match (&cells(a)[0], &cells(b)[0]) {
        (Cell::Items(a), Cell::Items(b)) => Arc::ptr_eq(a, b),
        (Cell::Sketch(a), Cell::Sketch(b)) => Arc::ptr_eq(a, b),
        (Cell::Top { best: a, .. }, Cell::Top { best: b, .. }) => Arc::ptr_eq(a, b),
        others => panic!("{others:?}"),
    }
}

#[test]
fn values_without_a_json_form_are_refused_when_added() {
    let nan = Record {
        value: Datum::Float(f64::NAN),
        ..Record::default()
    };
    let by =
        json!({"kind": "top_k", "of": {"op": "lit", "value": 1}, "by": {"op": "value"}, "size": 2});
    for measure in [
        json!({"kind": "last", "of": {"op": "value"}}),
        json!({"kind": "first", "of": {"op": "array", "args": [{"op": "value"}]}}),
        json!({"kind": "top_k", "of": {"op": "value"}, "size": 2}),
        json!({"kind": "collect", "of": {"op": "value"}}),
        json!({"kind": "collect_set", "of": {"op": "value"}}),
        by,
    ] {
        let aggregation = compiled(&json!({"several": [["a", measure]]}));
        let error = aggregation.step(&Datum::Null, &nan).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Serde, "{measure}");
        assert!(error.message().contains("NaN"), "{measure}: {error}");
    }
    // A plain aggregate may be written differently: its serde decides.
    let last = compiled(&one("last")).step(&Datum::Null, &nan).unwrap();
    assert!(matches!(last, Datum::Float(_)));
}

#[test]
fn base64_of_the_standard() {
    for (plain, text) in [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
        ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ] {
        let mut out = Vec::new();
        base64::encode(plain.as_bytes(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), text);
        assert_eq!(base64::decode(text).unwrap(), plain.as_bytes());
    }
    for wrong in ["Zg=", "Zg==Zg==", "Z===", "Zm9 ", "Zm9-"] {
        assert_eq!(base64::decode(wrong), None, "{wrong}");
    }
}

#[allow(clippy::cast_precision_loss)]
#[test]
fn estimates_are_within_their_error() {
    for bits in [4_u8, 8, 12, 16] {
        let error = 1.04 / f64::from(1_u32 << bits).sqrt();
        let mut squares = 0.0;
        let mut rounds = 0.0;
        for round in 0..20 {
            let mut sketch = Arc::new(Sketch::new(bits));
            for n in 1..=20_000_i64 {
                Sketch::add(&mut sketch, &Datum::Int(round * 1_000_000 + n)).unwrap();
                if [1, 10, 100, 1000, 5000, 20_000].contains(&n) {
                    let off = (sketch.estimate() - n) as f64 / n as f64;
                    assert!(
                        off.abs() < 5.0 * error + 0.5 / n as f64,
                        "{bits} bits: {off} of {n}"
                    );
                    if n >= 1000 {
                        squares += off * off;
                        rounds += 1.0;
                    }
                }
            }
        }
        let measured: f64 = (squares / rounds).sqrt();
        assert!(
            measured < 1.4 * error,
            "{bits} bits: {measured} instead of {error}"
        );
    }
}

#[test]
fn bytes_of_a_sketch_stay_readable() {
    let mut few = Arc::new(Sketch::new(12));
    for text in ["a", "b", "c", "a"] {
        Sketch::add(&mut few, &Datum::text(text)).unwrap();
    }
    Sketch::add(&mut few, &Datum::Int(1)).unwrap();
    Sketch::add(&mut few, &Datum::Float(1.0)).unwrap();
    let mut out = Vec::new();
    few.write(&mut out);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(
        text, "{\"estimate\":4,\"bits\":12,\"few\":\"ByYCCAMBDJICDz4B\"}",
        "stores hold this: it must never change"
    );
    // The format before the precision was written.
    let held = Datum::Json("{\"estimate\":4,\"few\":\"ByYCCAMBDJICDz4B\"}".into());
    let merged = compiled(&sized("approx_distinct", 12)).step(&held, &record(&json!("a")));
    let merged = Serde::Json.encode(&merged.unwrap()).unwrap().unwrap();
    assert_eq!(merged, text);
}

proptest! {
    #[test]
    fn sketches_that_are_merged_are_those_of_all(bits in 4_u8..9, a in prop::collection::vec(0_i64..3000, 0..800), b in prop::collection::vec(0_i64..3000, 0..800)) {
        let sketch = |values: &[i64]| {
            let mut sketch = Arc::new(Sketch::new(bits));
            for value in values {
                Sketch::add(&mut sketch, &Datum::Int(*value)).unwrap();
            }
            Arc::unwrap_or_clone(sketch)
        };
        let written = |sketch: &Sketch| {
            let mut out = Vec::new();
            sketch.write(&mut out);
            let value: Value = serde_json::from_slice(&out).unwrap();
            value
        };
        let mut merged = sketch(&a);
        merged.merge(&sketch(&b));
        let all = sketch(&[a, b].concat());
        prop_assert_eq!(written(&merged), written(&all));
        let text = written(&all);
        let name = if text["few"].is_string() { "few" } else { "registers" };
        let read = Sketch::read(bits, name, text[name].as_str().unwrap()).unwrap();
        prop_assert_eq!(written(&read), text);
    }
}
