use super::{IndexFields, RowReader, is_kept_apart, split_entry};
use crate::ForeignCode;
use serde_json::json;
use stoatflow_core::{Bytes, Datum, Error, Record, ordered};
use stoatflow_plan::{IndexSpec, SerdeSpec, Store, StoreKind};

fn index(fields: &serde_json::Value, each: bool) -> IndexFields {
    let spec: IndexSpec =
        serde_json::from_value(json!({"name": "by", "fields": fields, "each": each})).unwrap();
    IndexFields::new(&spec).unwrap()
}

fn member(name: &str) -> serde_json::Value {
    json!({"expr": {"op": "get", "args": [{"op": "value"}], "name": name}})
}

fn row(value: &str) -> stoatflow_core::Result<Record> {
    Ok(Record {
        key: Datum::text("k"),
        value: Datum::Json(Bytes::copy_from_slice(value.as_bytes())),
        ..Record::default()
    })
}

fn entry(values: &[Datum]) -> Vec<u8> {
    values.iter().flat_map(ordered::bytes).collect()
}

#[test]
fn fields_stand_behind_each_other() {
    let index = index(&json!([member("city"), member("age")]), false);
    let (found, whole) = index.entries(&row(r#"{"city": "Oslo", "age": 31.5}"#));
    assert!(whole);
    let expected = entry(&[Datum::text("Oslo"), Datum::Float(31.5)]);
    assert_eq!(found.keys().next(), Some(&expected));
    let with_key = [expected.as_slice(), b"key"].concat();
    assert_eq!(
        split_entry(&with_key, index.width()),
        Some((expected.as_slice(), &b"key"[..]))
    );
}

#[test]
fn a_missing_field_is_null_and_a_broken_one_stands_last() {
    let index = index(&json!([member("city")]), false);
    let (found, whole) = index.entries(&row("{}"));
    assert_eq!(
        (found.keys().next(), whole),
        (Some(&vec![ordered::NULL]), true)
    );
    // An object has no order, but that is no error.
    let (found, whole) = index.entries(&row(r#"{"city": {}}"#));
    assert_eq!(
        (found.keys().next(), whole),
        (Some(&vec![ordered::OTHER]), true)
    );
    for broken in [row("[1"), row("5"), Err(Error::serde("no value"))] {
        let (found, whole) = index.entries(&broken);
        assert_eq!(
            (found.keys().next(), whole),
            (Some(&vec![ordered::OTHER]), false)
        );
    }
}

#[test]
fn each_element_leads_to_the_row_once() {
    let index = index(&json!([member("tags")]), true);
    let (found, whole) = index.entries(&row(r#"{"tags": ["b", "a", "b", {}, 1]}"#));
    let expected = [
        entry(&[Datum::Int(1)]),
        entry(&[Datum::text("a")]),
        entry(&[Datum::text("b")]),
    ];
    assert_eq!(found.into_keys().collect::<Vec<_>>(), expected);
    assert!(whole);
    assert_eq!(index.entries(&row("{}")), (Default::default(), true));
    assert_eq!(
        index.entries(&row(r#"{"tags": 1}"#)),
        (Default::default(), false)
    );
}

#[test]
fn null_may_occur_often() {
    assert!(is_kept_apart(&entry(&[Datum::text("a"), Datum::Int(1)])));
    assert!(!is_kept_apart(&entry(&[Datum::text("a"), Datum::Null])));
    assert!(!is_kept_apart(&[ordered::OTHER]));
}

#[test]
fn a_covering_index_keeps_its_fields_and_what_it_stores() {
    let kept = |value: &str| {
        let spec = json!({"name": "by", "fields": [member("city")], "storing": [member("age"), member("of")]});
        let index = IndexFields::new(&serde_json::from_value(spec).unwrap()).unwrap();
        let (found, _) = index.entries(&row(value));
        found.into_values().next().unwrap()
    };
    assert_eq!(
        kept(r#"{"age": 3, "city": "O\"s", "of": {"a": [1.5]}}"#),
        r#"["O\"s",3,{"a": [1.5]}]"#
    );
    assert_eq!(kept("{}"), "[null,null,null]");
    // It keeps nothing of a row that it can't keep exactly.
    for other in ["[1", "5", r#"{"age": 1e999}"#, r#"{"of": [1,}"#] {
        assert_eq!(kept(other), "", "{other}");
    }
}

/// What a reader passes on of a value, with these expressions in two indexes.
fn part(one: &serde_json::Value, other: &serde_json::Value, value: &str) -> String {
    let serde = || SerdeSpec::Builtin("json".into());
    let mut store = Store::new("docs", StoreKind::TimestampedKeyValue, serde(), serde());
    let indexes = json!([
        {"name": "one", "fields": [one]},
        {"name": "other", "fields": [member("b")], "storing": [other]},
    ]);
    store.indexes = serde_json::from_value(indexes).unwrap();
    let reader = RowReader::new(&store, &ForeignCode::default()).unwrap();
    let mut part = Vec::new();
    reader.append_part(value.as_bytes(), &mut part);
    String::from_utf8(part).unwrap()
}

#[test]
fn only_members_that_indexes_read_are_picked_from_a_row() {
    let value = json!({"expr": {"op": "value"}});
    let text = r#"{"a":{"n":1},"b":2,"c":3}"#;
    let inner = json!({"expr": {"op": "get", "args": [member("a")["expr"]], "name": "n"}});
    assert_eq!(part(&inner, &member("b"), text), r#"{"a":{"n":1},"b":2}"#);
    assert_eq!(part(&member("c"), &member("x"), text), r#"{"b":2,"c":3}"#);
    let whole = json!({"expr": {"op": "len", "args": [{"op": "value"}]}});
    for reads_all in [&value, &whole] {
        assert_eq!(part(reads_all, &inner, text), text);
        assert_eq!(part(&inner, reads_all, text), text);
    }
    // What isn't an object is left to the expressions.
    assert_eq!(part(&inner, &inner, "[1, 2"), "[1, 2");
}
