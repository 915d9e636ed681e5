//! Which headers are kept, by serdes and sources.

use super::*;
use crate::testing::{plan, serde};
use bytes::Bytes;
use serde_json::{Value, json};
use stoatflow_core::SourceId;

fn avro(schema: &str) -> Value {
    json!({"avro": {"schema": schema}})
}

fn framed() -> Value {
    json!({"avro": {"schema": "\"long\"", "schema_id": 7}})
}

fn protobuf(message: &str) -> Value {
    json!({"protobuf": {"descriptors": "CgA=", "message": message}})
}

fn spec(serde: Value) -> SerdeSpec {
    serde_json::from_value(serde).unwrap()
}

/// Whether the header of a value stays, if the value was read by `read` and a sink writes `written`.
fn stays(read: Value, written: Value, as_read: bool) -> bool {
    let mut plan = plan(vec![]);
    plan.sources[0].value = spec(read);
    let ids = SchemaIds::new(&plan, (&serde("int64"), false), (&spec(written), as_read));
    names(&ids, &[VALUE], 0) == [VALUE]
}

fn names(ids: &SchemaIds, given: &[&str], source: u16) -> Vec<String> {
    let header = |name: &&str| Header {
        name: (*name).into(),
        value: Some(Bytes::from_static(b"\x01")),
    };
    let origin = Origin {
        source: SourceId(source),
        ..Origin::default()
    };
    let left = ids.valid_headers(Some(given.iter().map(header).collect()), &origin);
    assert!(
        left.as_ref().is_none_or(|left| !left.is_empty()),
        "no headers are none"
    );
    left.iter()
        .flat_map(|all| all.iter())
        .map(|h| h.name.to_string())
        .collect()
}

#[test]
fn a_schema_is_named_as_long_as_it_is_the_one() {
    let (long, int) = (avro("\"long\""), avro("\"int\""));
    for as_read in [true, false] {
        assert!(stays(long.clone(), long.clone(), as_read));
        assert!(stays(protobuf("M"), protobuf("M"), as_read));
        for (read, written) in [
            (&long, &int),
            (&long, &framed()),
            (&framed(), &long),
            (&framed(), &framed()),
            (&long, &protobuf("M")),
            (&protobuf("M"), &protobuf("N")),
            (&long, &json!("json")),
            (&json!("json"), &long),
            (&json!("bytes"), &long),
        ] {
            let stayed = stays(read.clone(), written.clone(), as_read);
            assert!(!stayed, "{read} then {written}");
        }
    }
}

#[test]
fn the_form_that_functions_get_changes_no_schema() {
    let dicts = json!({"avro": {"schema": "\"long\"", "decode": "dict"}});
    assert!(stays(avro("\"long\""), dicts, false));
}

#[test]
fn without_a_schema_what_was_read_keeps_it_and_what_was_made_does_not() {
    for one in ["json", "string", "int64"] {
        assert!(stays(json!(one), json!(one), true), "{one}");
        assert!(!stays(json!(one), json!(one), false), "{one}");
    }
    assert!(!stays(json!("json"), json!("string"), true));
    let own = json!({"custom": 0});
    assert!(stays(own.clone(), own.clone(), true) && !stays(own.clone(), own, false));
}

#[test]
fn bytes_are_written_by_somebody_else() {
    for read in [json!("bytes"), json!("json"), avro("\"long\""), framed()] {
        assert!(stays(read, json!("bytes"), false));
    }
}

#[test]
fn keys_and_values_are_looked_at_apart_and_other_headers_stay() {
    let mut plan = plan(vec![]);
    let (long, int) = (spec(avro("\"long\"")), spec(avro("\"int\"")));
    plan.sources[0].key = long.clone();
    plan.sources[0].value = long.clone();
    let all = ["trace", VALUE, KEY, VALUE, "trace", "value_schema_id"];
    let left = |key: &SerdeSpec, value: &SerdeSpec, source| {
        names(
            &SchemaIds::new(&plan, (key, false), (value, false)),
            &all,
            source,
        )
    };
    assert_eq!(left(&long, &long, 0), all);
    assert_eq!(
        left(&long, &int, 0),
        ["trace", KEY, "trace", "value_schema_id"]
    );
    assert_eq!(
        left(&int, &long, 0),
        ["trace", VALUE, VALUE, "trace", "value_schema_id"]
    );
    // The serde that read a record without a source is unknown.
    assert_eq!(left(&long, &long, 1), ["trace", "trace", "value_schema_id"]);
    assert_eq!(left(&int, &int, 0), ["trace", "trace", "value_schema_id"]);
}

#[test]
fn each_record_goes_by_its_own_source() {
    let mut plan = plan(vec![]);
    let (long, int) = (spec(avro("\"long\"")), spec(avro("\"int\"")));
    plan.sources.push(plan.sources[0].clone());
    plan.sources[0].value = long;
    plan.sources[1].value = int.clone();
    let ids = SchemaIds::new(&plan, (&serde("string"), false), (&int, false));
    assert_eq!(names(&ids, &[VALUE], 0), [""; 0]);
    assert_eq!(names(&ids, &[VALUE], 1), [VALUE]);
}
