//! JSON that fits, JSON that doesn't, and the header before it.

use super::*;
use bytes::Bytes;
use std::collections::BTreeMap;
use stoatflow_core::{CustomSerde, Datum, ErrorKind, Serde};

const ORDER: &str = r#"{"title": "Order", "type": "object", "required": ["amount"],
    "properties": {"amount": {"type": "number", "minimum": 0}, "note": {"type": "string", "format": "date"}}}"#;

fn order() -> Checked {
    Checked::new(ORDER, &BTreeMap::new(), None).unwrap()
}

fn json(text: &'static str) -> Datum {
    Datum::Json(Bytes::from_static(text.as_bytes()))
}

fn read(serde: &Checked, bytes: &'static [u8]) -> stoatflow_core::Result<Datum> {
    Serde::Custom(std::sync::Arc::new(serde.clone())).read(Some(Bytes::from_static(bytes)))
}

#[test]
fn valid_values_are_read_and_written_unchanged() {
    let text = r#"{"amount": 5, "more": [1]}"#;
    assert_eq!(order().encode(&json(text)).unwrap(), text);
    match read(&order(), text.as_bytes()).unwrap() {
        Datum::Json(read) => assert_eq!(read, text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn invalid_values_are_neither_read_nor_written() {
    for (text, said) in [
        (
            r#"{"amount": -1}"#,
            "doesn't fit the JSON Schema 'Order' at /amount: -1 is less than the minimum of 0",
        ),
        (
            "{}",
            "doesn't fit the JSON Schema 'Order': \"amount\" is a required property",
        ),
    ] {
        for error in [
            order().encode(&json(text)).unwrap_err(),
            read(&order(), text.as_bytes()).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Serde);
            assert!(error.to_string().contains(said), "{error}");
        }
        assert!(order().unchecked().encode(&json(text)).is_ok());
        assert!(read(&order().unchecked(), text.as_bytes()).is_ok());
    }
    assert!(read(&order(), b"{").is_err());
    assert!(read(&order().unchecked(), b"{").is_err());
}

#[test]
fn too_deep_values_are_refused() {
    let nested = |depth: usize| Bytes::from(format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    let any = Checked::new("{}", &BTreeMap::new(), None).unwrap();
    assert!(any.encode(&Datum::Json(nested(127))).is_ok());
    assert!(any.encode(&Datum::Json(nested(129))).is_err());
    assert!(any.unchecked().encode(&Datum::Json(nested(129))).is_ok());
}

#[test]
fn stored_values_are_not_validated_again() {
    let kept = Bytes::from_static(br#"{"amount": -1}"#);
    assert!(order().decode(&kept).is_ok());
}

#[test]
fn formats_and_encodings_are_remarks_as_in_confluents_serializers() {
    let text = r#"{"amount": 1, "note": "no date"}"#;
    assert!(order().encode(&json(text)).is_ok());
    let encoded = r#"{"type": "string", "contentEncoding": "base64"}"#;
    let serde = Checked::new(encoded, &BTreeMap::new(), None).unwrap();
    assert!(serde.encode(&json(r#""%""#)).is_ok());
}

#[test]
fn a_schema_without_a_draft_is_one_of_draft_7() {
    // Later drafts use another keyword for it.
    let tuple = r#"{"items": [{"type": "string"}, {"type": "integer"}]}"#;
    let serde = Checked::new(tuple, &BTreeMap::new(), None).unwrap();
    assert!(serde.encode(&json(r#"["a", 1]"#)).is_ok());
    assert!(serde.encode(&json(r#"[1, "a"]"#)).is_err());
    let later = r#"{"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "string"}]}"#;
    let serde = Checked::new(later, &BTreeMap::new(), None).unwrap();
    assert!(serde.encode(&json("[1]")).is_err());
}

#[test]
fn references_are_given_and_never_fetched() {
    let outer = r#"{"properties": {"home": {"$ref": "city.json"}}}"#;
    let missing = Checked::new(outer, &BTreeMap::new(), None).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Topology);
    assert!(missing.next_step().contains("$defs"), "{missing:?}");
    let city = r#"{"properties": {"zip": {"type": "integer"}}}"#;
    let references = BTreeMap::from([("city.json".to_owned(), city.to_owned())]);
    let serde = Checked::new(outer, &references, None).unwrap();
    assert!(serde.encode(&json(r#"{"home": {"zip": 1}}"#)).is_ok());
    let wrong = serde
        .encode(&json(r#"{"home": {"zip": "x"}}"#))
        .unwrap_err();
    assert!(wrong.to_string().contains("at /home/zip"), "{wrong}");
}

#[test]
fn invalid_schemas_are_refused() {
    for text in ["{", r#"{"type": "strin"}"#] {
        let error = Checked::new(text, &BTreeMap::new(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Topology, "{error}");
    }
}

#[test]
fn the_header_says_the_id() {
    let serde = Checked::new(ORDER, &BTreeMap::new(), Some((7, &[3]))).unwrap();
    let written = serde.encode(&json(r#"{"amount":5}"#)).unwrap();
    assert_eq!(written, &b"\0\0\0\0\x07{\"amount\":5}"[..]);
    assert!(read(&serde, b"\0\0\0\0\x03{\"amount\":5}").is_ok());
    let unknown = read(&serde, b"\0\0\0\0\x04{\"amount\":5}").unwrap_err();
    assert!(unknown.to_string().contains("schema id 4"), "{unknown}");
    assert!(unknown.next_step().contains("schema_ids=[4]"));
    let none = read(&serde, b"{\"amount\":5}").unwrap_err();
    assert!(
        none.to_string()
            .contains("no schema id before its JSON value"),
        "{none}"
    );
}

#[test]
fn a_spec_is_what_it_was_written_as() {
    let text = r#"{"schema":"{}","references":{"a":"{}"},"schema_id":7,"schema_ids":[3],"validate":false,"decode":"dict"}"#;
    let spec: JsonSchemaSpec = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&spec).unwrap(), text);
    assert!(spec.is_framed() && !spec.validate);
    assert_eq!(spec.format().unwrap().name(), "json_schema");
    let plain: JsonSchemaSpec = serde_json::from_str(r#"{"schema":"{}"}"#).unwrap();
    assert!(plain.validate && !plain.is_framed());
    assert_eq!(plain.format().unwrap().name(), "json_schema(plain)");
    assert!(plain != spec && !plain.writes_as(&spec));
}
