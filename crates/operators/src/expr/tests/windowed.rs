//! The parts of windowed keys. `tests/python/test_windowed_keys.py` compares them with functions.

use super::{compile, raw, text, user_error, with};
use stoatflow_core::{Datum, Record, Result};

fn part(function: &str, key: Datum) -> Result<Datum> {
    let of = format!(r#"{{"op":"call","function":"{function}","args":[{{"op":"key"}}]}}"#);
    compile(&of).eval(&Record {
        key,
        ..with(Datum::Null)
    })
}

#[test]
fn a_windowed_key_has_a_key_and_a_window() {
    let key = Datum::windowed(text("ann"), -5, i64::MAX);
    assert!(
        matches!(part("windowed_key", key.clone()), Ok(Datum::Str(found)) if found.as_str() == "ann")
    );
    assert!(matches!(
        part("window_start", key.clone()),
        Ok(Datum::Int(-5))
    ));
    assert!(matches!(part("window_end", key), Ok(Datum::Int(i64::MAX))));
}

#[test]
fn json_within_a_windowed_key_is_read_as_json_elsewhere() {
    let number = Datum::windowed(raw("7"), 0, 1);
    assert!(matches!(part("windowed_key", number), Ok(Datum::Int(7))));
    let member = r#"{"op":"get","name":"id","args":[
        {"op":"call","function":"windowed_key","args":[{"op":"key"}]}]}"#;
    let record = Record {
        key: Datum::windowed(raw(r#"{"id":"x"}"#), 0, 1),
        ..with(Datum::Null)
    };
    assert!(matches!(compile(member).eval(&record), Ok(Datum::Str(id)) if id.as_str() == "x"));
}

#[test]
fn null_has_null_parts_and_other_keys_have_none() {
    for function in ["windowed_key", "window_start", "window_end"] {
        assert!(matches!(part(function, Datum::Null), Ok(Datum::Null)));
        user_error(part(function, text("ann")), &["a windowed key", "str"]);
        user_error(part(function, raw("{}")), &["a windowed key", "object"]);
    }
}
