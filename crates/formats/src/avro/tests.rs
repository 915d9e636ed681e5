//! Values that are read in place, and written by their schema.

mod fuzz;
mod parts;
mod random;

use super::*;
use crate::PathStep;
use bytes::Bytes;
use std::collections::BTreeMap;
use stoatflow_core::{CustomSerde, Datum, ErrorKind, Fields, Opaque, Text};

const USER: &str = r#"{"type": "record", "name": "User", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"},
    {"name": "name", "type": "string"},
    {"name": "mail", "type": ["null", "string"], "default": null},
    {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    {"name": "scores", "type": {"type": "map", "values": "double"}, "default": {}},
    {"name": "level", "type": {"type": "enum", "name": "Level", "symbols": ["LOW", "HIGH"]}, "default": "LOW"},
    {"name": "photo", "type": "bytes", "default": "\u00ff"},
    {"name": "boss", "type": ["null", "User"], "default": null}
]}"#;

fn format(schema: &str) -> Format {
    Format::new(schema, None, &BTreeMap::new()).unwrap()
}

fn json(text: &str) -> Datum {
    Datum::Json(Bytes::copy_from_slice(text.as_bytes()))
}

fn encoded(format: &Format, text: &str) -> Bytes {
    format.encode(&json(text)).unwrap()
}

fn read(format: &Format, datum: &Datum, path: &[PathStep<'_>]) -> Datum {
    let value = format.decode(&format.encode(datum).unwrap()).unwrap();
    AvroValue::of(&value)
        .unwrap()
        .walk(path.iter().copied())
        .unwrap()
}

fn refused(format: &Format, text: &str) -> String {
    format.encode(&json(text)).unwrap_err().to_string()
}

use PathStep::{Element, Member};

#[test]
fn fields_elements_and_entries_are_read() {
    let format = format(USER);
    let user = json(
        r#"{"name": "ann", "id": 7, "tags": ["a", "b"], "scores": {"x": 1.5, "y": 2}, "boss": {"id": 1, "name": "bob"}}"#,
    );
    let at = |path: &[PathStep<'_>]| read(&format, &user, path);
    assert_eq!(at(&[Member("id")]), Datum::Int(7));
    assert_eq!(at(&[Member("name")]), Datum::text("ann"));
    assert_eq!(at(&[Member("mail")]), Datum::Null);
    assert_eq!(at(&[Member("mail"), Member("x")]), Datum::Null);
    assert_eq!(at(&[Member("tags"), Element(1)]), Datum::text("b"));
    assert_eq!(at(&[Member("tags"), Element(2)]), Datum::Null);
    assert_eq!(at(&[Member("scores"), Member("y")]), Datum::Float(2.0));
    assert_eq!(at(&[Member("scores"), Member("z")]), Datum::Null);
    assert_eq!(at(&[Member("level")]), Datum::text("LOW"));
    assert_eq!(
        at(&[Member("photo")]),
        Datum::Bytes(Bytes::from_static(&[0xff]))
    );
    assert_eq!(at(&[Member("boss"), Member("name")]), Datum::text("bob"));
    assert_eq!(
        at(&[Member("boss"), Member("boss"), Member("name")]),
        Datum::Null
    );
    assert_eq!(at(&[Member("nothing")]), Datum::Null);
}

#[test]
fn a_member_of_what_has_none_is_an_error() {
    let format = format(USER);
    let value = format
        .decode(&encoded(&format, r#"{"id": 7, "name": "ann"}"#))
        .unwrap();
    let error = AvroValue::of(&value)
        .unwrap()
        .walk([Member("id"), Member("x")])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::User);
    assert!(
        error
            .to_string()
            .contains("of the Avro type long has no member 'x'"),
        "{error}"
    );
}

#[test]
fn unchanged_values_keep_their_bytes() {
    let format = format(USER);
    let bytes = encoded(
        &format,
        r#"{"id": 7, "name": "ann", "boss": {"id": 1, "name": "bob"}}"#,
    );
    let value = format.decode(&bytes).unwrap();
    assert_eq!(format.encode(&value).unwrap().as_ptr(), bytes.as_ptr());
    // So does a serde that was created from the same text again.
    let other = Format::new(USER, None, &BTreeMap::new()).unwrap();
    assert_eq!(other.encode(&value).unwrap().as_ptr(), bytes.as_ptr());
    // A part shares the bytes of the whole, and is copied when it is written.
    let boss = AvroValue::of(&value)
        .unwrap()
        .walk([Member("boss")])
        .unwrap();
    let part = AvroValue::of(&boss).unwrap().bytes();
    assert!(bytes.as_ptr_range().contains(&part.as_ptr()));
    let made = Fields(vec![
        (Text::from("id"), Datum::Int(9)),
        (Text::from("name"), Datum::text("cyd")),
        (Text::from("boss"), boss),
    ]);
    let boss_of = read(&format, &made.datum(), &[Member("boss"), Member("name")]);
    assert_eq!(boss_of, Datum::text("bob"));
}

#[test]
fn unshared_values_release_their_buffer() {
    let format = format(USER);
    let bytes = encoded(&format, r#"{"id": 7, "name": "ann"}"#);
    let mut value = format.decode(&bytes).unwrap();
    value.unshare();
    let own = AvroValue::of(&value).unwrap().bytes();
    assert_eq!(own, &bytes);
    assert_ne!(own.as_ptr(), bytes.as_ptr());
}

#[test]
fn dates_and_times_are_numbers_decimals_and_uuids_texts() {
    let format = format(
        r#"{"type": "record", "name": "T", "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 3}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "raw", "type": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}}
    ]}"#,
    );
    let id = "6fa459ea-ee8a-3ca4-894e-db77e160355e";
    let value = json(&format!(
        r#"{{"day": 19000, "ms": 1700000000123, "us": 1700000000123456, "price": "-12.5", "fixed": 7, "id": "{id}", "raw": "{id}"}}"#
    ));
    let at = |name: &str| read(&format, &value, &[Member(name)]);
    assert_eq!(at("day"), Datum::Int(19000));
    assert_eq!(at("ms"), Datum::Int(1_700_000_000_123));
    assert_eq!(at("us"), Datum::Int(1_700_000_000_123_456));
    assert_eq!(at("price"), Datum::text("-12.50"));
    assert_eq!(at("fixed"), Datum::text("7.000"));
    assert_eq!(at("id"), Datum::text(id));
    assert_eq!(at("raw"), Datum::text(id));
}

#[test]
fn decimals_are_exact_or_refused() {
    for (text, made) in [
        ("0", "0.00"),
        ("-0.01", "-0.01"),
        ("1e2", "100.00"),
        ("1.230e0", "1.23"),
        ("99999.99", "99999.99"),
        ("+5", "5.00"),
    ] {
        let bytes = decimal::bytes(text, 7, 2).unwrap();
        assert_eq!(decimal::text(&bytes, 2), made, "{text}");
    }
    for text in [
        "",
        ".",
        "-",
        "abc",
        "1.234",
        "100000",
        "1e9999999",
        "1_0",
        "0x1",
    ] {
        assert!(decimal::bytes(text, 7, 2).is_err(), "{text}");
    }
    assert_eq!(decimal::sized(vec![0xff], 3).unwrap(), [0xff; 3]);
    assert!(decimal::sized(vec![1, 2, 3], 2).is_err());
}

#[test]
fn misfits_name_their_position_and_a_remedy() {
    let format = format(USER);
    for (text, parts) in [
        (
            r#"{"id": 7, "nmae": "ann"}"#,
            &["has no field 'nmae', did you mean 'name'?", "shop.User"][..],
        ),
        (
            r#"{"id": 7}"#,
            &[
                "the field 'name' is missing",
                "a default for it in the schema",
            ],
        ),
        (
            r#"{"id": "7", "name": "ann"}"#,
            &["at id: long is wanted", "of type str"],
        ),
        (
            r#"{"id": 1.5, "name": "ann"}"#,
            &["at id: long is wanted", ".cast(\"int\")"],
        ),
        (
            r#"{"id": 7, "name": 5}"#,
            &["at name: string is wanted", ".cast(\"str\")"],
        ),
        (
            r#"{"id": 7, "name": "a", "tags": ["x", null]}"#,
            &["at tags[1]: string is wanted", "of type null"],
        ),
        (
            r#"{"id": 7, "name": "a", "scores": {"x": "y"}}"#,
            &["at scores[\"x\"]: double"],
        ),
        (
            r#"{"id": 7, "name": "a", "level": "MID"}"#,
            &["at level: the enum has no 'MID'"],
        ),
        (
            r#"{"id": 7, "name": "a", "boss": {"id": 1}}"#,
            &["at boss: the field 'name' is missing"],
        ),
        (
            r#"{"id": 7, "name": "a", "boss": {"id": 1, "name": 2}}"#,
            &["at boss.name: string is wanted"],
        ),
        (r#"[1]"#, &["shop.User is wanted", "of type list"]),
        (
            r#"{"id": 9223372036854775808, "name": "a"}"#,
            &["at id: long is wanted"],
        ),
    ] {
        let error = refused(&format, text);
        for part in parts {
            assert!(error.contains(part), "{error} should mention {part}");
        }
    }
    let error = format.encode(&json("{")).unwrap_err();
    assert!(
        error.to_string().contains("not well-formed JSON"),
        "{error}"
    );
}

#[test]
fn a_text_is_bytes_in_json_only() {
    let format = format("\"bytes\"");
    assert_eq!(encoded(&format, "\"\\u00ff\"").as_ref(), [2, 0xff]);
    let error = format.encode(&Datum::text("abc")).unwrap_err();
    assert!(error.to_string().contains("give bytes"), "{error}");
    assert!(refused(&format, "\"\\u0100\"").contains("stand for no byte"));
}

#[test]
fn a_scalar_is_a_scalar() {
    let string = format("\"string\"");
    let value = string
        .decode(&string.encode(&Datum::text("k")).unwrap())
        .unwrap();
    assert_eq!(value, Datum::text("k"));
    let maybe = format(r#"["null", "int"]"#);
    assert_eq!(
        maybe.decode(&Bytes::from_static(&[2, 4])).unwrap(),
        Datum::Int(2)
    );
    assert_eq!(
        maybe.decode(&Bytes::from_static(&[0])).unwrap(),
        Datum::Null
    );
}

#[test]
fn runs_of_elements_with_sizes_are_read_too() {
    let longs = format(r#"{"type": "array", "items": "long"}"#);
    // A run of two in 2 bytes, then a run of one: -2 2 [1 2] 1 [3] 0
    let bytes = Bytes::from_static(&[3, 4, 2, 4, 2, 6, 0]);
    let value = longs.decode(&bytes).unwrap();
    let value = AvroValue::of(&value).unwrap();
    for (at, number) in [(0, 1), (1, 2), (2, 3)] {
        assert_eq!(value.walk([Element(at)]).unwrap(), Datum::Int(number));
    }
    assert_eq!(value.walk([Element(3)]).unwrap(), Datum::Null);
    assert_eq!(value.length().unwrap(), 3);
    assert_eq!(value.to_json().unwrap().as_ref(), b"[1,2,3]");
    let wrong = longs
        .decode(&Bytes::from_static(&[3, 6, 2, 4, 0]))
        .unwrap_err();
    assert!(wrong.to_string().contains("another size"), "{wrong}");
}

#[test]
fn damaged_bytes_are_refused_where_they_are_read() {
    let user = format(USER);
    let bytes = encoded(&user, r#"{"id": 7, "name": "ann"}"#);
    let mut longer = bytes.to_vec();
    longer.push(0);
    for (bytes, part) in [
        (longer, "something is left"),
        (bytes[..bytes.len() - 1].to_vec(), "they end"),
        (vec![14, 6, 0xff, 0xff, 0xff], "not UTF-8"),
        (vec![14, 0, 4], "choice 2 of 2"),
        (vec![0xff; 12], "longer than 64 bits"),
        (vec![14, 1], "a length is negative"),
    ] {
        let error = user.decode(&bytes.into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Serde);
        assert!(
            error.to_string().contains(part),
            "{error} should mention {part}"
        );
        assert!(error.to_string().contains("'shop.User'"), "{error}");
    }
    // A list of nulls takes no bytes: its length must not be trusted.
    let nulls = format(r#"{"type": "array", "items": "null"}"#);
    let many = Bytes::from_static(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0]);
    assert!(
        nulls
            .decode(&many)
            .unwrap_err()
            .to_string()
            .contains("too many empty elements")
    );
    // A list that contains itself, nested deeper than the stack allows.
    let list = format(
        r#"{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}"#,
    );
    let deep = Bytes::from(vec![2; 100_000]);
    assert!(
        list.decode(&deep)
            .unwrap_err()
            .to_string()
            .contains("nested deeper")
    );
}

#[test]
fn schemas_that_can_not_be_used_are_refused() {
    for (schema, part) in [
        ("{", "no Avro schema"),
        (r#"{"type": "recrd"}"#, "no Avro schema"),
        (
            r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Other"}]}"#,
            "schema",
        ),
    ] {
        let error = Format::new(schema, None, &BTreeMap::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Topology);
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn state_of_another_schema_has_another_name() {
    let one = format(USER);
    let documented = USER.replacen("\"fields\"", "\"doc\": \"who\", \"fields\"", 1);
    assert_eq!(one.name(), format(&documented).name());
    assert_ne!(
        one.name(),
        format(&USER.replace("\"mail\"", "\"email\"")).name()
    );
}

mod framed {
    use super::*;

    const OLD: &str = r#"{"type": "record", "name": "User", "namespace": "shop", "fields": [
        {"name": "name", "type": "string"}, {"name": "gone", "type": "int"}, {"name": "id", "type": "int"}
    ]}"#;

    fn framed(writers: &[(u32, &str)]) -> Format {
        let writers = writers.iter().map(|(id, text)| (*id, (*text).to_owned()));
        Format::new(USER, Some(7), &writers.collect()).unwrap()
    }

    #[test]
    fn the_id_stands_before_the_value() {
        let (plain, framed) = (format(USER), framed(&[]));
        let body = encoded(&plain, r#"{"id": 7, "name": "ann"}"#);
        let bytes = encoded(&framed, r#"{"id": 7, "name": "ann"}"#);
        assert_eq!(&bytes[..5], [0, 0, 0, 0, 7]);
        assert_eq!(&bytes[5..], &body);
        let value = framed.decode(&bytes).unwrap();
        assert_eq!(framed.encode(&value).unwrap().as_ptr(), bytes.as_ptr());
        assert_eq!(plain.encode(&value).unwrap().as_ptr(), bytes[5..].as_ptr());
        let plain_value = plain.decode(&body).unwrap();
        assert_eq!(framed.encode(&plain_value).unwrap(), bytes);
    }

    #[test]
    fn values_of_another_writer_schema_are_resolved() {
        let framed = framed(&[(3, OLD), (4, USER)]);
        let old = encoded(&format(OLD), r#"{"name": "ann", "gone": 1, "id": 5}"#);
        let bytes: Bytes = [&[0, 0, 0, 0, 3], old.as_ref()].concat().into();
        let value = framed.decode(&bytes).unwrap();
        let value = AvroValue::of(&value).unwrap();
        assert_eq!(value.walk([Member("id")]).unwrap(), Datum::Int(5));
        assert_eq!(value.walk([Member("name")]).unwrap(), Datum::text("ann"));
        assert_eq!(value.walk([Member("level")]).unwrap(), Datum::text("LOW"));
        assert_eq!(value.walk([Member("gone")]).unwrap(), Datum::Null);
        // When it is written again, it has the serde's own schema.
        let again = framed.encode(&framed.decode(&bytes).unwrap()).unwrap();
        assert_eq!(&again[..5], [0, 0, 0, 0, 7]);
        let body = encoded(&format(USER), r#"{"id": 7, "name": "ann"}"#);
        let same: Bytes = [&[0, 0, 0, 0, 4], body.as_ref()].concat().into();
        let again = framed.encode(&framed.decode(&same).unwrap()).unwrap();
        assert_eq!(
            again,
            Bytes::from([&[0, 0, 0, 0, 7], body.as_ref()].concat())
        );
    }

    #[test]
    fn an_unknown_id_is_named() {
        let error = framed(&[])
            .decode(&Bytes::from_static(&[0, 0, 0, 1, 2, 0]))
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("schema id 258"), "{text}");
        assert!(text.contains("writer_schemas={258: ...}"), "{text}");
        for short in [&b""[..], &[0, 0], &[1, 0, 0, 0, 7, 0]] {
            let error = framed(&[]).decode(&Bytes::from_static(short)).unwrap_err();
            assert!(error.to_string().contains("no schema id"), "{error}");
        }
    }

    #[test]
    fn damage_in_what_another_schema_wrote_is_found() {
        let framed = framed(&[(3, OLD)]);
        let error = framed
            .decode(&Bytes::from_static(&[0, 0, 0, 0, 3, 9]))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Serde);
    }

    #[test]
    fn a_writer_that_can_not_be_read_is_refused_at_once() {
        let other = r#"{"type": "record", "name": "User", "namespace": "shop", "fields": [{"name": "id", "type": "string"}]}"#;
        let writers = BTreeMap::from([(3, other.to_owned())]);
        let error = Format::new(USER, Some(7), &writers).unwrap_err();
        assert!(
            error.to_string().contains("the schema with the id 3"),
            "{error}"
        );
    }
}
