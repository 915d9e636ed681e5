//! Error messages for invalid schemas, invalid messages and values that don't fit.

use super::*;

#[test]
fn misfits_name_their_position_and_a_remedy() {
    let format = order();
    for (text, parts) in [
        (
            r#"{"amuont": 1}"#,
            &[
                "shop.Order has no field 'amuont', did you mean 'amount'?",
                "the Protobuf message 'shop.Order'",
            ][..],
        ),
        (
            r#"{"customer": {"nmae": 1}}"#,
            &["at customer: shop.Customer has no field 'nmae', did you mean 'name'?"],
        ),
        (
            r#"{"customer": {"name": 1}}"#,
            &[
                "at customer.name: string is wanted, but the value is a whole number",
                ".cast(\"str\")",
            ],
        ),
        (
            r#"{"customer": {"age": 2147483648}}"#,
            &["at customer.age: 2147483648 does not fit into int32"],
        ),
        (
            r#"{"numbers": [1, 2.5]}"#,
            &["at numbers[1]: int32 is wanted", ".cast(\"int\")"],
        ),
        (
            r#"{"numbers": [null]}"#,
            &["at numbers[0]: int32 is wanted, but the value is of type null"],
        ),
        (
            r#"{"numbers": 5}"#,
            &["at numbers: repeated int32 is wanted, but the value is a whole number"],
        ),
        (
            r#"{"others": [null]}"#,
            &["at others[0]: shop.Customer is wanted"],
        ),
        (
            r#"{"items": {"a": 1}}"#,
            &["at items: repeated string is wanted, but the value is of type object"],
        ),
        (
            r#"{"counts": {"x": "y"}}"#,
            &["at counts[\"x\"]: int64 is wanted"],
        ),
        (
            r#"{"counts": []}"#,
            &["at counts: map<string, int64> is wanted"],
        ),
        (
            r#"{"by_number": {"x": {}}}"#,
            &["the key \"x\" is no int32"],
        ),
        (
            r#"{"by_number": {"3000000000": {}}}"#,
            &["3000000000 does not fit into int32"],
        ),
        (
            r#"{"level": "HIHG"}"#,
            &["at level: the enum shop.Level has no 'HIHG', did you mean 'HIGH'?"],
        ),
        (
            r#"{"level": 2.5}"#,
            &["at level: enum shop.Level is wanted"],
        ),
        (
            r#"{"large": -1}"#,
            &["at large: -1 does not fit into uint64"],
        ),
        (
            r#"{"cash": 18446744073709551615}"#,
            &["at cash: 18446744073709551615 does not fit into int64"],
        ),
        (
            r#"{"photo": "\u0100"}"#,
            &["at photo: the text holds characters that stand for no byte"],
        ),
        (
            r#"{"card": "x", "cash": 1}"#,
            &["'card' and 'cash' exclude each other (oneof payment)"],
        ),
        (r#"{"points": "x"}"#, &["at points: int64 is wanted"]),
        (
            r#"[1]"#,
            &["shop.Order is wanted, but the value is of type list"],
        ),
        ("{", &["not well-formed JSON"]),
    ] {
        let error = format.encode(&json(text)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Serde);
        for part in parts {
            let said = error.to_string();
            assert!(said.contains(part), "{text}: {part}: {said}");
        }
    }
    let old = format_of(OLD, "old.Old");
    let error = old.encode(&json(r#"{"name": "x"}"#)).unwrap_err();
    assert!(
        error.to_string().contains("the field 'id' is missing"),
        "{error}"
    );
    let bytes = Datum::Bytes(Bytes::from_static(b"x"));
    assert!(
        order()
            .encode(&bytes)
            .unwrap_err()
            .to_string()
            .contains("the bytes are no value of the Protobuf message 'shop.Order'")
    );
    // Bytes outside of JSON are bytes; text is refused.
    let text = Fields(vec![(Text::from("photo"), Datum::text("x"))]).datum();
    let error = order().encode(&text).unwrap_err();
    assert!(
        error.to_string().contains("at photo: bytes is wanted"),
        "{error}"
    );
}

#[test]
fn numbers_of_enums_are_written_and_read() {
    let format = order();
    let bytes = bytes_of(&format, r#"{"level": 7, "best": 0}"#);
    let value = format.decode(&bytes).unwrap();
    assert_eq!(at(&value, &[Member("level")]), Datum::Int(7));
    assert_eq!(at(&value, &[Member("best")]), Datum::text("LOW"));
}

#[test]
fn damaged_bytes_are_refused_where_they_are_read() {
    let format = order();
    for (bytes, said) in [
        (&b"\x0a"[..], "they end within a number at byte 1 of 1"),
        (b"\x0a\x05ab", "they end within a field at byte 2 of 4"),
        (b"\x0a\x02a\xff", "a text is not UTF-8 at byte 3 of 4"),
        (
            b"\x12\x04\x0a\x02a\xff",
            "a text is not UTF-8 at byte 5 of 6",
        ),
        (b"\x22\x01\xff", "a text is not UTF-8"),
        (b"\x32\x03\x0a\x01\xff", "a text is not UTF-8"),
        (b"\x1a\x08", "they end within a field"),
        (b"\x19\x00", "they end within a field"),
        (b"\x4a\x01\x80", "they end within a number at byte 3 of 3"),
        (
            b"\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
            "a number is longer than 64 bits",
        ),
        (b"\x00\x00", "a field has no valid number at byte 0"),
        (b"\x0f", "a field is written in no known way"),
        (b"\x0c", "a group ends that didn't begin"),
        (b"\x0b\x08\x01", "they end within a group"),
        (b"\x0b\x14", "another group ends than began"),
    ] {
        let error = format.decode(&Bytes::copy_from_slice(bytes)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Serde);
        let text = error.to_string();
        assert!(
            text.contains("no value of the Protobuf message 'shop.Order'"),
            "{text}"
        );
        assert!(text.contains(said), "{bytes:?}: {said}: {text}");
    }
    // Unknown fields, and known ones with another wire type, are kept unread.
    for bytes in [&b"\x0b\x08\x01\x0c"[..], b"\x08\x05", b"\x9a\x3f\x01\xff"] {
        let value = format.decode(&Bytes::copy_from_slice(bytes)).unwrap();
        assert_eq!(at(&value, &[Member("id")]), Datum::text(""));
    }
}

#[test]
fn required_fields_must_be_present() {
    let old = format_of(OLD, "old.Old");
    for (bytes, missing) in [
        (&b""[..], true),
        (b"\x08\x01", false),
        (b"\x08\x01\x3b\x12\x00\x3c", true),
    ] {
        let read = old.decode(&Bytes::from_static(bytes));
        match read {
            Ok(_) => assert!(!missing),
            Err(error) => {
                assert!(missing);
                assert!(
                    error
                        .to_string()
                        .contains("the required field 'id' of 'old.Old' is missing"),
                    "{error}"
                );
            }
        }
    }
    // In pieces, none of which has all required fields.
    let pieces = Bytes::from_static(b"\x08\x01\x3b\x12\x02\x18\x05\x3c\x3b\x12\x02\x08\x07\x3c");
    let value = old.decode(&pieces).unwrap();
    let path = ["inner", "old", "id"].map(Member);
    assert_eq!(at(&value, &path), Datum::Int(7));
}

#[test]
fn values_that_are_nested_too_deeply_are_refused() {
    let format = format_of(SHOP, "shop.Customer");
    let nested = |depth: usize| {
        let inner = Fields(vec![(Text::from("age"), Datum::Int(1))]).datum();
        (0..depth).fold(inner, |inner, _| {
            Fields(vec![(Text::from("boss"), inner)]).datum()
        })
    };
    let deep = format.encode(&nested(100)).unwrap();
    assert!(format.decode(&deep).is_ok());
    let error = format.encode(&nested(101)).unwrap_err();
    assert!(error.to_string().contains("nested too deeply"), "{error}");
    let mut deeper = vec![0x1a];
    let length = u8::try_from(deep.len() & 0x7f).unwrap() | 0x80;
    deeper.extend([length, u8::try_from(deep.len() >> 7).unwrap()]);
    deeper.extend_from_slice(&deep);
    let error = format.decode(&deeper.into()).unwrap_err();
    assert!(error.to_string().contains("nested too deeply"), "{error}");
    let groups = Bytes::from(vec![0x0b; 10_000]);
    let error = format.decode(&groups).unwrap_err();
    assert!(error.to_string().contains("nested too deeply"), "{error}");
}

#[test]
fn invalid_schemas_name_the_position() {
    let refused = |text: &str| of_text(text, &[]).unwrap_err().to_string();
    let said = refused("syntax = \"proto3\";\nmessage M { strin a = 1; }");
    assert!(said.contains("schema.proto:2:13"), "{said}");
    assert!(said.contains("'strin' is not defined"), "{said}");
    let said = refused("syntax = \"proto3\";\n\nmesage M {}");
    assert!(said.contains("schema.proto:3:1"), "{said}");
    let said = refused("syntax = \"proto3\"; import \"other.proto\";");
    assert!(
        said.contains("other.proto") && said.contains("include=[...]"),
        "{said}"
    );
    let said = refused("edition = \"2023\"; message M {}");
    assert!(said.contains("editions can't yet"), "{said}");
    // As protoc and generated classes write it, whether it is the first file or one that the message
    // doesn't need.
    let named = |name: &str, syntax: &str| prost_reflect::prost_types::FileDescriptorProto {
        name: Some(name.into()),
        syntax: Some(syntax.into()),
        ..Default::default()
    };
    for (first, second) in [("editions", "proto3"), ("proto3", "editions")] {
        let file = vec![named("a.proto", first), named("b.proto", second)];
        let set = prost_reflect::prost_types::FileDescriptorSet { file };
        let said = needed(&prost_reflect::prost::Message::encode_to_vec(&set), None);
        let said = said.unwrap_err().to_string();
        assert!(said.contains("is written in editions"), "{said}");
        assert!(said.contains("editions can't yet"), "{said}");
    }

    let set = of_text(SHOP, &[]).unwrap();
    let of = |message: Option<&str>| needed(&set, message).unwrap_err().to_string();
    assert!(of(Some("shop.Oder")).contains("did you mean 'shop.Order'?"));
    assert!(of(Some("Order")).contains("did you mean 'shop.Order'?"));
    assert!(of(None).contains("several messages: shop.Order, shop.Customer"));
    let said = needed(b"\xff", None).unwrap_err().to_string();
    assert!(said.contains("no descriptors"), "{said}");
    let said = needed(b"", Some("M")).unwrap_err().to_string();
    assert!(
        said.contains("no Protobuf message 'M', there are none"),
        "{said}"
    );
}
