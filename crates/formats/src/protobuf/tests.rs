//! Messages that are read in place, and written by their type.

mod fuzz;
mod random;
mod refused;
mod registered;
mod wire;

use super::*;
use crate::PathStep;
use bytes::Bytes;
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};
use stoatflow_core::{CustomSerde, Datum, ErrorKind, Fields, Opaque, Open, Text};

const SHOP: &str = r#"
syntax = "proto3";
package shop;
import "google/protobuf/wrappers.proto";
import "google/protobuf/timestamp.proto";

message Order {
  string id = 1;
  Customer customer = 2;
  double amount = 3;
  repeated string items = 4;
  optional string coupon = 5;
  map<string, int64> counts = 6;
  Level level = 7;
  bytes photo = 8;
  repeated int32 numbers = 9;
  oneof payment { string card = 10; int64 cash = 11; Customer friend = 12; }
  google.protobuf.Int64Value points = 13;
  google.protobuf.Timestamp at = 14;
  repeated Customer others = 15;
  map<int32, Customer> by_number = 16;
  uint64 large = 17;
  optional Level best = 18;
}
message Customer { string name = 1; int32 age = 2; Customer boss = 3; }
enum Level { LOW = 0; HIGH = 1; }
"#;

const OLD: &str = r#"
syntax = "proto2";
package old;

message Old {
  required int32 id = 1;
  optional string name = 2 [default = "nobody"];
  optional int32 age = 3;
  optional Color color = 4 [default = BLUE];
  repeated int32 plain = 5;
  repeated int32 packed = 6 [packed = true];
  optional group Inner = 7 { optional int32 x = 1; optional Old old = 2; }
  repeated group Many = 8 { optional string s = 1; }
  optional bytes raw = 9 [default = "\377"];
  optional double rate = 10 [default = -1.5];
  extensions 100 to 200;
}
enum Color { RED = 1; BLUE = 2; }
"#;

fn format_of(text: &str, message: &str) -> Format {
    Format::new(&of_text(text, &[]).unwrap(), message, None, &[]).unwrap()
}

fn order() -> Format {
    format_of(SHOP, "shop.Order")
}

fn json(text: &str) -> Datum {
    Datum::Json(Bytes::copy_from_slice(text.as_bytes()))
}

fn bytes_of(format: &Format, text: &str) -> Bytes {
    format.encode(&json(text)).unwrap()
}

fn at(value: &Datum, path: &[PathStep<'_>]) -> Datum {
    let value = ProtobufValue::of(value).unwrap();
    value.walk(path.iter().copied()).unwrap()
}

/// Decodes with the crate `prost-reflect`.
fn dynamic(text: &str, message: &str, bytes: &[u8]) -> DynamicMessage {
    let pool = DescriptorPool::decode(&*of_text(text, &[]).unwrap()).unwrap();
    let of = pool.get_message_by_name(message).unwrap();
    DynamicMessage::decode(of, bytes).unwrap()
}

use PathStep::{Element, Member};

const ANN: &str = r#"{"id": "a", "customer": {"name": "ann", "age": 30, "boss": {"name": "bob"}}, "amount": 2.5,
    "items": ["pen", "ink"], "coupon": "", "counts": {"x": 5, "y": 0}, "level": "HIGH", "photo": "\u00ff\u0000",
    "numbers": [1, -1, 300], "cash": 0, "points": 7, "at": {"seconds": 1700000000, "nanos": 5},
    "others": [{"name": "cyd"}, {}], "by_number": {"-3": {"age": 1}}, "large": 18446744073709551615}"#;

#[test]
fn fields_elements_and_entries_are_read() {
    let format = order();
    let value = format.decode(&bytes_of(&format, ANN)).unwrap();
    let at = |path: &[PathStep<'_>]| at(&value, path);
    assert_eq!(at(&[Member("id")]), Datum::text("a"));
    assert_eq!(at(&[Member("customer"), Member("age")]), Datum::Int(30));
    let boss = [Member("customer"), Member("boss"), Member("name")];
    assert_eq!(at(&boss), Datum::text("bob"));
    assert_eq!(at(&[Member("amount")]), Datum::Float(2.5));
    assert_eq!(at(&[Member("items"), Element(1)]), Datum::text("ink"));
    assert_eq!(at(&[Member("items"), Element(2)]), Datum::Null);
    assert_eq!(at(&[Member("counts"), Member("x")]), Datum::Int(5));
    assert_eq!(at(&[Member("counts"), Member("y")]), Datum::Int(0));
    assert_eq!(at(&[Member("counts"), Member("z")]), Datum::Null);
    assert_eq!(at(&[Member("level")]), Datum::text("HIGH"));
    assert_eq!(
        at(&[Member("photo")]),
        Datum::Bytes(Bytes::from_static(&[0xff, 0]))
    );
    assert_eq!(at(&[Member("numbers"), Element(1)]), Datum::Int(-1));
    assert_eq!(at(&[Member("cash")]), Datum::Int(0));
    assert_eq!(at(&[Member("card")]), Datum::Null);
    assert_eq!(at(&[Member("points")]), Datum::Int(7));
    assert_eq!(
        at(&[Member("at"), Member("seconds")]),
        Datum::Int(1_700_000_000)
    );
    let age = [Member("by_number"), Member("-3"), Member("age")];
    assert_eq!(at(&age), Datum::Int(1));
    assert_eq!(
        at(&[Member("large")]),
        Datum::Json(Bytes::from_static(b"18446744073709551615"))
    );
    assert_eq!(at(&[Member("nothing")]), Datum::Null);
    let others = at(&[Member("others")]);
    let others = ProtobufValue::of(&others).unwrap();
    assert_eq!((others.length().unwrap(), others.is_object()), (2, false));
    assert_eq!(ProtobufValue::of(&value).unwrap().length().unwrap(), 18);
}

#[test]
fn unset_fields_are_their_default_or_null() {
    let format = order();
    let value = format.decode(&Bytes::new()).unwrap();
    let at = |name: &str| at(&value, &[Member(name)]);
    assert_eq!(at("id"), Datum::text(""));
    assert_eq!(at("amount"), Datum::Float(0.0));
    assert_eq!(at("level"), Datum::text("LOW"));
    assert_eq!(at("photo"), Datum::Bytes(Bytes::new()));
    for name in ["customer", "coupon", "card", "cash", "points", "at", "best"] {
        assert_eq!(at(name), Datum::Null, "{name}");
    }
    for name in ["items", "counts", "by_number"] {
        let empty = at(name);
        assert_eq!(ProtobufValue::of(&empty).unwrap().length().unwrap(), 0);
    }
    let coupon = format
        .decode(&bytes_of(&format, r#"{"coupon": ""}"#))
        .unwrap();
    assert_eq!(
        super::tests::at(&coupon, &[Member("coupon")]),
        Datum::text("")
    );

    let old = format_of(OLD, "old.Old");
    let value = old.decode(&bytes_of(&old, r#"{"id": 0}"#)).unwrap();
    let at = |name: &str| super::tests::at(&value, &[Member(name)]);
    assert_eq!(at("id"), Datum::Int(0));
    assert_eq!(at("name"), Datum::text("nobody"));
    assert_eq!(at("age"), Datum::Null);
    assert_eq!(at("color"), Datum::text("BLUE"));
    assert_eq!(at("rate"), Datum::Float(-1.5));
    assert_eq!(at("raw"), Datum::Bytes(Bytes::from_static(&[0xff])));
    assert_eq!(at("inner"), Datum::Null);
}

#[test]
fn a_member_of_what_has_none_is_an_error() {
    let format = order();
    let value = format.decode(&bytes_of(&format, ANN)).unwrap();
    let walk = |path: &[PathStep<'_>]| {
        let value = ProtobufValue::of(&value).unwrap();
        value.walk(path.iter().copied())
    };
    for (path, said) in [
        (&[Member("id"), Member("x")][..], "string has no member 'x'"),
        (
            &[Member("items"), Member("x")],
            "repeated string has no member 'x'",
        ),
        (
            &[Member("customer"), Element(0)],
            "shop.Customer has no elements",
        ),
        (
            &[Member("counts"), Member("x"), Element(0)],
            "int has no elements",
        ),
    ] {
        let error = walk(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::User);
        assert!(error.to_string().contains(said), "{error}");
    }
    assert!(walk(&[Member("coupon"), Member("x")]).is_err());
    assert_eq!(walk(&[Member("card"), Member("x")]).unwrap(), Datum::Null);
}

#[test]
fn unchanged_values_keep_their_bytes() {
    let format = order();
    let mut bytes = bytes_of(&format, ANN).to_vec();
    bytes.extend_from_slice(&[0xf8, 0x3f, 0x07]); // the field 1023, which the type doesn't know
    let bytes = Bytes::from(bytes);
    let value = format.decode(&bytes).unwrap();
    assert_eq!(format.encode(&value).unwrap().as_ptr(), bytes.as_ptr());
    // So does a serde that was created from the same text again.
    assert_eq!(order().encode(&value).unwrap().as_ptr(), bytes.as_ptr());
    // A part shares the bytes of the whole, and is copied when it is written, including unknown fields.
    let customer = at(&value, &[Member("customer")]);
    let part = ProtobufValue::of(&customer).unwrap().bytes();
    assert!(bytes.as_ptr_range().contains(&part.as_ptr()));
    // Also by a type of the same name and form from other descriptors.
    let alone = format_of(SHOP, "shop.Customer");
    let strange = Bytes::from_static(b"\x0a\x03ann\xf8\x3f\x07");
    let read = alone.decode(&strange).unwrap();
    let made = Fields(vec![(Text::from("customer"), read)]).datum();
    let written = format.encode(&made).unwrap();
    assert!(written.windows(3).any(|three| three == [0xf8, 0x3f, 0x07]));
}

#[test]
fn parts_that_are_placed_elsewhere_keep_their_bytes() {
    let format = order();
    // Elements in two pieces with another field between them, and an entry in two.
    let parts: [&[u8]; 5] = [
        b"\x22\x01a",
        b"\x0a\x02id",
        b"\x22\x01b",
        b"\x32\x05\x0a\x01x\x10\x01",
        b"\x32\x05\x0a\x01x\x10\x02",
    ];
    let value = format.decode(&Bytes::from(parts.concat())).unwrap();
    let (items, counts) = (
        at(&value, &[Member("items")]),
        at(&value, &[Member("counts")]),
    );
    assert_eq!(
        ProtobufValue::of(&items)
            .unwrap()
            .elements()
            .unwrap()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(at(&counts, &[Member("x")]), Datum::Int(2));
    assert_eq!(ProtobufValue::of(&counts).unwrap().length().unwrap(), 1);
    let made = Fields(vec![
        (Text::from("items"), items),
        (Text::from("counts"), counts),
    ]);
    let written = format.encode(&made.datum()).unwrap();
    assert_eq!(written, [parts[0], parts[2], parts[3], parts[4]].concat());
}

#[test]
fn fields_are_written_by_number_without_defaults() {
    let format = order();
    let written = bytes_of(
        &format,
        r#"{"numbers": [], "level": "LOW", "amount": 0, "items": [""], "coupon": null, "id": "x", "cash": 0, "photo": ""}"#,
    );
    assert_eq!(&written[..], b"\x0a\x01x\x22\x00\x58\x00");
    // Minus zero is not a default.
    assert_eq!(bytes_of(&format, r#"{"amount": -0.0}"#).len(), 9);
}

#[test]
fn groups_are_read_and_written() {
    let format = format_of(OLD, "old.Old");
    let text = r#"{"id": 1, "inner": {"x": 5, "old": {"id": 2, "inner": {"x": 6}}}, "many": [{"s": "a"}, {}]}"#;
    let bytes = bytes_of(&format, text);
    let value = format.decode(&bytes).unwrap();
    let deep = ["inner", "old", "inner", "x"].map(Member);
    assert_eq!(at(&value, &deep), Datum::Int(6));
    assert_eq!(
        at(&value, &[Member("many"), Element(0), Member("s")]),
        Datum::text("a")
    );
    let theirs = dynamic(OLD, "old.Old", &bytes);
    assert_eq!(theirs.encode_to_vec(), bytes);
}

#[test]
fn the_json_of_a_value() {
    let format = format_of(SHOP, "shop.Customer");
    let value = format
        .decode(&bytes_of(&format, r#"{"name": "a\"b", "boss": {}}"#))
        .unwrap();
    let text = ProtobufValue::of(&value).unwrap().to_json().unwrap();
    assert_eq!(
        text,
        r#"{"name":"a\"b","age":0,"boss":{"name":"","age":0,"boss":null}}"#
    );
    let format = order();
    let value = format.decode(&bytes_of(&format, ANN)).unwrap();
    let text = ProtobufValue::of(&value).unwrap().to_json().unwrap();
    assert_eq!(
        format.encode(&Datum::Json(text)).unwrap(),
        bytes_of(&format, ANN)
    );
}

#[test]
fn parts_are_told_one_by_one() {
    let format = order();
    let value = format.decode(&bytes_of(&format, ANN)).unwrap();
    let open = ProtobufValue::of(&value).unwrap();
    let parts = Open::parts(open).unwrap();
    let Fields(members) = Fields::of(&parts).unwrap();
    for (place, (name, part)) in members.iter().enumerate() {
        let (at, found) = open.member(name.as_str()).unwrap().unwrap();
        assert_eq!(at, place);
        match ProtobufValue::of(part) {
            None => assert_eq!(&found, part),
            Some(part) => {
                let found = ProtobufValue::of(&found).unwrap();
                assert_eq!((found.bytes(), found.node()), (part.bytes(), part.node()));
            }
        }
    }
    assert!(open.member("nothing").unwrap().is_none());
    let items = at(&value, &[Member("items")]);
    let items = ProtobufValue::of(&items).unwrap();
    assert!(Open::is_list(items) && !Open::is_list(open));
    assert_eq!(items.element(0).unwrap(), Some(Datum::text("pen")));
    assert_eq!(items.element(2).unwrap(), None);
    // When the parts are written again, they are the same message.
    assert_eq!(format.encode(&parts).unwrap(), bytes_of(&format, ANN));
}

#[test]
fn unshared_values_release_their_buffer() {
    let format = order();
    let bytes = bytes_of(&format, ANN);
    let mut value = format.decode(&bytes).unwrap();
    value.unshare();
    let own = ProtobufValue::of(&value).unwrap().bytes();
    assert_eq!(own, &bytes);
    assert_ne!(own.as_ptr(), bytes.as_ptr());
}

#[test]
fn a_name_tells_state_of_another_type_apart() {
    let name = |text: &str| format_of(text, "M").name().to_owned();
    let first = name("syntax = \"proto3\"; message M { int32 a = 1; M m = 2; }");
    assert!(first.starts_with("protobuf(M, "), "{first}");
    // Names and comments don't affect the bytes.
    let renamed = name("syntax = \"proto3\"; /* x */ message M { M n = 2; int32 b = 1; }");
    assert_eq!(renamed, first);
    for other in [
        "syntax = \"proto3\"; message M { int64 a = 1; M m = 2; }",
        "syntax = \"proto3\"; message M { int32 a = 3; M m = 2; }",
        "syntax = \"proto3\"; message M { int32 a = 1; N m = 2; } message N { int32 a = 1; M m = 2; }",
    ] {
        assert_ne!(name(other), first);
    }
    let framed = Format::new(&of_text(SHOP, &[]).unwrap(), "shop.Order", Some(1), &[]);
    assert_eq!(framed.unwrap().name(), "protobuf(shop.Order)");
}

#[test]
fn a_changed_message_keeps_unchanged_fields() {
    let format = order();
    // An unknown field, fields out of order, elements in two pieces, an inner message with an unknown
    // field.
    let odd = b"\xf8\x3f\x07\x22\x01a\x19\0\0\0\0\0\0\xf0\x3f\x0a\x01x\x22\x01b\x12\x03\xf8\x3f\x07\x58\x05";
    let value = format.decode(&Bytes::from_static(odd)).unwrap();
    let changed = |changes: Vec<(&str, Datum)>| {
        let changes = changes.into_iter();
        let changes = changes.map(|(name, value)| (Text::from(name), value));
        let open = ProtobufValue::of(&value).unwrap();
        let changed = open.with_members(Fields(changes.collect())).unwrap();
        format.encode(&changed).map(|bytes| bytes.to_vec())
    };
    assert_eq!(changed(vec![]).unwrap(), odd);
    let one = changed(vec![("id", Datum::text("y"))]).unwrap();
    assert_eq!(
        one,
        b"\x0a\x01y\xf8\x3f\x07\x22\x01a\x19\0\0\0\0\0\0\xf0\x3f\x22\x01b\x12\x03\xf8\x3f\x07\x58\x05"
    );
    // A default is not written, elements go with their field, a member of a oneof replaces the other.
    let more = changed(vec![
        ("amount", Datum::Int(0)),
        ("items", Datum::List([Datum::text("c")].into())),
        ("card", Datum::text("z")),
    ]);
    assert_eq!(
        more.unwrap(),
        b"\x22\x01c\x52\x01z\xf8\x3f\x07\x0a\x01x\x12\x03\xf8\x3f\x07"
    );
    let none = changed(vec![("customer", Datum::Null), ("cash", Datum::Null)]);
    assert_eq!(none.unwrap().len(), odd.len() - 7);
    let wrong = changed(vec![("amuont", Datum::Null)]).unwrap_err();
    assert!(wrong.to_string().contains("did you mean 'amount'?"));
    let wrong = changed(vec![("card", Datum::text("")), ("cash", Datum::Int(1))]);
    assert!(
        wrong
            .unwrap_err()
            .to_string()
            .contains("exclude each other")
    );
    // For other code it is an object with its members.
    let open = ProtobufValue::of(&value).unwrap();
    let id = || Fields(vec![(Text::from("id"), Datum::text("y"))]);
    let elsewhere = open.with_members(id()).unwrap();
    let Datum::Opaque(object) = &elsewhere else {
        panic!("{elsewhere:?}");
    };
    let json = String::from_utf8(object.to_json().unwrap().to_vec()).unwrap();
    assert!(
        json.contains(r#""id":"y""#) && json.contains(r#""photo":"""#),
        "{json}"
    );
    let lower = SHOP.replace("package shop", "package other");
    let other = format_of(&lower, "other.Order");
    let written = other.encode(&elsewhere).unwrap();
    assert_eq!(
        at(&other.decode(&written).unwrap(), &[Member("id")]),
        Datum::text("y")
    );
    assert!(written.len() < odd.len());
}

#[test]
fn bytes_that_are_written_again_are_bytes_and_text_in_json() {
    let format = order();
    let value = format
        .decode(&bytes_of(&format, r#"{"photo": "\u00ff"}"#))
        .unwrap();
    let written = ProtobufValue::of(&value).unwrap().as_written().unwrap();
    let (_, photo) = written.last("photo").unwrap();
    assert_eq!(
        stoatflow_core::serde::json_bytes(&photo).unwrap(),
        "\"\u{ff}\""
    );
    assert_eq!(photo.type_name(), "bytes");
    assert_eq!(
        format.encode(&written.datum()).unwrap(),
        bytes_of(&format, r#"{"photo": "\u00ff"}"#)
    );
}
