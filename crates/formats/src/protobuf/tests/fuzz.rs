//! Damaged messages, and damaged JSON text to be written: a value or an error.

use super::*;
use stoatflow_fuzz::FuzzTarget;

const TEXT: &str = r#"{"id": "7", "customer": {"name": "ann", "age": 3, "boss": {"name": "bob"}}, "amount": 1.5,
    "items": ["a", "b"], "coupon": "c", "counts": {"x": 1, "y": -2}, "level": "HIGH", "numbers": [1, -2, 300],
    "card": "1234", "points": 5, "others": [{"name": "x"}], "by_number": {"4": {"age": 4}}, "large": 77}"#;

#[test]
fn damaged_messages() {
    let format = format_of(SHOP, "shop.Order");
    let text = Datum::Json(Bytes::from_static(TEXT.as_bytes()));
    let valid = vec![format.encode(&text).unwrap().to_vec()];
    FuzzTarget::new("protobuf messages", valid).run(|input| {
        let Ok(found) = format.decode(&Bytes::copy_from_slice(input)) else {
            return;
        };
        if let Some(value) = ProtobufValue::of(&found) {
            drop(value.to_json());
            drop(value.walk([
                PathStep::Member("others"),
                PathStep::Element(0),
                PathStep::Member("name"),
            ]));
            drop(value.walk([
                PathStep::Member("by_number"),
                PathStep::Member("4"),
                PathStep::Member("age"),
            ]));
        }
    });
}

#[test]
fn damaged_text() {
    let format = format_of(SHOP, "shop.Order");
    let deep = "[".repeat(50_000).into_bytes();
    FuzzTarget::new("json for protobuf", vec![TEXT.as_bytes().to_vec(), deep]).run(|input| {
        if let Ok(text) = stoatflow_core::json::read(Bytes::copy_from_slice(input)) {
            drop(format.encode(&Datum::Json(text)));
        }
    });
}
