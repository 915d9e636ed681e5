//! Damaged values, and damaged JSON text to be written: a value or an error.

use super::*;
use stoatflow_fuzz::FuzzTarget;

const TEXT: &str = r#"{"id": 7, "name": "ann", "mail": "a@b", "tags": ["a", "b"], "scores": {"x": 1.5}, "level": "HIGH",
    "photo": "\u00ff\u0000", "boss": {"id": 1, "name": "bob"}}"#;

#[test]
fn damaged_values() {
    let format = format(USER);
    let small = r#"{"id": -1, "name": ""}"#;
    let valid = [TEXT, small]
        .map(|text| encoded(&format, text).to_vec())
        .to_vec();
    FuzzTarget::new("avro values", valid).run(|input| {
        let Ok(found) = format.decode(&Bytes::copy_from_slice(input)) else {
            return;
        };
        if let Some(value) = AvroValue::of(&found) {
            drop(value.to_json());
            drop(value.walk([Member("tags"), Element(1)]));
            drop(value.walk([Member("boss"), Member("scores"), Member("x")]));
        }
    });
}

#[test]
fn damaged_text() {
    let format = format(USER);
    let deep = "[".repeat(50_000).into_bytes();
    FuzzTarget::new("json for avro", vec![TEXT.as_bytes().to_vec(), deep]).run(|input| {
        if let Ok(text) = stoatflow_core::json::read(Bytes::copy_from_slice(input)) {
            drop(format.encode(&Datum::Json(text)));
        }
    });
}
