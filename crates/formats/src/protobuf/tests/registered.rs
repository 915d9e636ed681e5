//! Files of a registry: which message a value is, whatever its writer's file looks like.

use super::*;
use base64::prelude::{BASE64_STANDARD, Engine};
use std::collections::BTreeMap;
use std::sync::Arc;
use stoatflow_core::{Error, Result, SchemaPlace, SchemaRegistry};

/// A registry whose ids are indexes into this list.
#[derive(Debug)]
struct Kept(Vec<String>);

impl SchemaRegistry for Kept {
    fn schema(&self, id: u32) -> Result<String> {
        let found = self.0.get(id as usize).cloned();
        found.ok_or_else(|| Error::serde("unknown"))
    }

    fn id(&self, _: &SchemaPlace) -> Result<u32> {
        Ok(0)
    }
}

/// A map comes before the nested message: protoc counts its entry.
const FILE: &str = r#"syntax = "proto3"; package shop;
message Other { string x = 1; }
message Outer { map<string, int32> counts = 1; message City { int32 zip = 1; } message Town { int32 zip = 1; } }
"#;

fn registered(message: &str, files: &[&str]) -> Format {
    let files = files.iter().map(|&file| file.to_owned()).collect();
    let place = SchemaPlace::of(Some("t"), false);
    format_of(FILE, message).registered(Arc::new(Kept(files)), place)
}

fn framed(id: u8, rest: &[u8]) -> Bytes {
    [&[0, 0, 0, 0, id], rest].concat().into()
}

#[test]
fn the_place_of_the_message_is_written() {
    let first = registered("shop.Other", &[FILE]);
    assert_eq!(bytes_of(&first, r#"{"x": "a"}"#), framed(0, b"\0\x0a\x01a"));
    let inner = registered("shop.Outer.City", &[FILE]);
    assert_eq!(
        bytes_of(&inner, r#"{"zip": 5}"#),
        framed(0, b"\x04\x02\x02\x08\x05")
    );
}

#[test]
fn a_message_is_found_where_the_writers_file_has_it() {
    let moved =
        r#"syntax = "proto3"; package shop; message Outer { message City { int64 zip = 1; } }"#;
    let city = registered("shop.Outer.City", &[FILE, moved]);
    for (id, place) in [(0, &b"\x04\x02\x02"[..]), (1, b"\x04\0\0")] {
        let read = city
            .decode(&framed(id, &[place, b"\x08\x05"].concat()))
            .unwrap();
        assert_eq!(at(&read, &[PathStep::Member("zip")]), Datum::Int(5));
    }
}

#[test]
fn places_count_entries_of_maps_or_not() {
    // As Java counts.
    let city = registered("shop.Outer.City", &[FILE]);
    assert!(city.decode(&framed(0, b"\x04\x02\0\x08\x05")).is_ok());
}

#[test]
fn another_message_is_an_error_that_names_both() {
    let city = registered("shop.Outer.City", &[FILE]);
    for (bytes, said) in [
        (
            &b"\0\x0a\0"[..],
            "the record is the message 'shop.Other' of the schema 0, and 'shop.Outer.City' is wanted",
        ),
        (b"\x04\x02\x04\x08\x05", "'shop.Outer.Town'"),
        (
            b"\x02\x0a\x08\x05",
            "at [5] in the schema 0, which has no message there",
        ),
        (b"\x05", "doesn't say behind its schema id which message"),
    ] {
        let error = city.decode(&framed(0, bytes)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Serde);
        assert!(error.to_string().contains(said), "{error}");
    }
    let unknown = city.decode(&framed(9, b"\0")).unwrap_err();
    assert!(unknown.to_string().contains("unknown"), "{unknown}");
}

#[test]
fn a_file_may_be_a_descriptor_with_missing_imports() {
    let set = of_text(FILE, &[]).unwrap();
    let (own, files) = files(&set, "shop.Outer.City").unwrap();
    assert_eq!((own.as_str(), files.len()), ("schema.proto", 1));
    let descriptor = BASE64_STANDARD.encode(&files[0].descriptor);
    let lonely = r#"syntax = "proto3"; package shop; import "gone.proto"; message Other { gone.Gone g = 1; }"#;
    let other = registered("shop.Other", &[&descriptor, lonely, "message {"]);
    for id in [0, 1] {
        assert!(other.decode(&framed(id, b"\0\x0a\x01a")).is_ok());
    }
    let none = other.decode(&framed(2, b"\0")).unwrap_err();
    assert!(
        none.to_string().contains("its schema is no Protobuf file"),
        "{none}"
    );
}

#[test]
fn a_registered_file_compiles_with_what_it_imports() {
    let city = r#"syntax = "proto3"; package shop; message City { int32 zip = 1; }"#;
    let set = of_text(city, &[]).unwrap();
    let (_, found) = files(&set, "shop.City").unwrap();
    let order = r#"syntax = "proto3"; package shop; import "city.proto"; import "google/protobuf/timestamp.proto";
        message Order { City city = 1; google.protobuf.Timestamp at = 2; }"#;
    for content in [
        city.to_owned(),
        BASE64_STANDARD.encode(&found[0].descriptor),
    ] {
        let imports = BTreeMap::from([("city.proto".to_owned(), content)]);
        let descriptors = of_registered(order, &imports).unwrap();
        let (own, all) = files(&descriptors, "shop.Order").unwrap();
        assert_eq!((own.as_str(), all.len()), ("schema.proto", 3));
        let own = all.iter().find(|file| file.name == own).unwrap();
        assert_eq!(
            own.imports,
            ["city.proto", "google/protobuf/timestamp.proto"]
        );
    }
    assert!(of_registered(order, &BTreeMap::new()).is_err());
}

#[test]
fn schemas_that_write_the_same_have_the_message_at_the_same_place() {
    let schema = |text: &str| Schema::parse(&of_text(text, &[]).unwrap(), "shop.City").unwrap();
    let city = "message City { int32 zip = 1; }";
    let one = schema(&format!(
        "syntax = \"proto3\"; package shop; {city} message Z {{}}"
    ));
    let more = schema(&format!("syntax = \"proto3\"; package shop; {city}"));
    let moved = schema(&format!(
        "syntax = \"proto3\"; package shop; message A {{}} {city}"
    ));
    let other = schema("syntax = \"proto3\"; package shop; message City { int64 zip = 1; }");
    assert!(one.writes_as(&more));
    assert!(!one.writes_as(&moved));
    assert!(!one.writes_as(&other));
}
