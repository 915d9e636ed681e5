//! Confluent's framing, well-known types, and the needed part of a descriptor set.

use super::*;

const PLACES: &str = r#"
syntax = "proto3";
package p;
message First { int32 a = 1; message Inner { int32 b = 1; message Deep { int32 c = 1; } } }
message Second { message One {} message Two { int32 d = 1; } }
"#;

fn framed(message: &str, id: u32, others: &[u32]) -> Format {
    Format::new(&of_text(PLACES, &[]).unwrap(), message, Some(id), others).unwrap()
}

#[test]
fn the_header_says_the_id_and_which_message_it_is() {
    for (message, indexes) in [
        ("p.First", &[0][..]),
        ("p.First.Inner", &[4, 0, 0]),
        ("p.First.Inner.Deep", &[6, 0, 0, 0]),
        ("p.Second", &[2, 2]),
        ("p.Second.Two", &[4, 2, 2]),
    ] {
        let format = framed(message, 7, &[]);
        let written = format.encode(&json("{}")).unwrap();
        assert_eq!(written, [&[0, 0, 0, 0, 7], indexes].concat(), "{message}");
        let value = format.decode(&written).unwrap();
        assert_eq!(format.encode(&value).unwrap().as_ptr(), written.as_ptr());
        assert_eq!(format.body(&written).unwrap().len(), 0);
    }
    // The position of the first message of a file has two encodings.
    let long = Bytes::from_static(&[0, 0, 0, 0, 7, 2, 0, 8, 5]);
    let format = framed("p.First", 7, &[]);
    let value = format.decode(&long).unwrap();
    assert_eq!(at(&value, &[Member("a")]), Datum::Int(5));
    // The value is written with our header.
    assert_eq!(
        &format.encode(&value).unwrap()[..],
        [0, 0, 0, 0, 7, 0, 8, 5]
    );
}

#[test]
fn other_ids_are_read_if_they_are_known() {
    let format = framed("p.First", 7, &[3, 4]);
    let other = Bytes::from_static(&[0, 0, 0, 0, 4, 2, 2, 8, 5]);
    let value = format.decode(&other).unwrap();
    assert_eq!(at(&value, &[Member("a")]), Datum::Int(5));
    assert_eq!(
        &format.encode(&value).unwrap()[..],
        [0, 0, 0, 0, 7, 0, 8, 5]
    );
    for (bytes, said) in [
        (&[0, 0, 0, 0, 9, 0][..], "schema id 9"),
        (&[0, 0, 0, 0, 9, 0], "schema_ids=[9]"),
        (&[8, 5], "no schema id before its Protobuf value"),
        (&[0, 0, 0, 0, 7, 2, 2], "another message of the schema 7"),
        (&[0, 0, 0, 0, 7, 2], "which message of the schema"),
        (&[0, 0, 0, 0, 7, 1], "which message of the schema"),
        (&[0, 0, 0, 0, 7], "which message of the schema"),
    ] {
        let error = format.decode(&Bytes::copy_from_slice(bytes)).unwrap_err();
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
}

#[test]
fn a_message_of_a_class_is_taken_by_its_own_type_alone() {
    let format = order();
    let of = |name: &str, bytes: &'static [u8]| {
        let bytes = Bytes::from_static(bytes);
        let name = name.into();
        Serialized { name, bytes }.datum()
    };
    let ann = b"\x0a\x03ann";
    let made = |customer| Fields(vec![(Text::from("customer"), customer)]).datum();
    let written = format.encode(&made(of("shop.Customer", ann))).unwrap();
    assert_eq!(&written[..], b"\x12\x05\x0a\x03ann");
    assert_eq!(&format.encode(&of("shop.Order", ann)).unwrap()[..], ann);
    let error = format.encode(&made(of("shop.Order", ann))).unwrap_err();
    let said = "at customer: a message of the type shop.Customer is wanted, but this is one of the type shop.Order";
    assert!(error.to_string().contains(said), "{error}");
    let error = format
        .encode(&of("shop.Order", b"\x0a\x01\xff"))
        .unwrap_err();
    assert!(error.to_string().contains("not UTF-8"), "{error}");
    assert!(json_error(&of("shop.Order", ann)).contains("JSON has no form"));
}

fn json_error(datum: &Datum) -> String {
    stoatflow_core::serde::json_bytes(datum)
        .unwrap_err()
        .to_string()
}

#[test]
fn a_wrapper_is_what_it_wraps() {
    let text = "syntax = \"proto3\"; import \"google/protobuf/wrappers.proto\"; message M {
        repeated google.protobuf.StringValue all = 1; map<string, google.protobuf.BoolValue> by = 2; google.protobuf.DoubleValue x = 3; }";
    let format = format_of(text, "M");
    let written = bytes_of(&format, r#"{"all": ["a", ""], "by": {"k": false}, "x": 0}"#);
    let theirs = dynamic(text, "M", &written);
    assert_eq!(theirs.encode_to_vec().len(), written.len());
    let value = format.decode(&written).unwrap();
    assert_eq!(at(&value, &[Member("all"), Element(1)]), Datum::text(""));
    assert_eq!(at(&value, &[Member("by"), Member("k")]), Datum::Bool(false));
    assert_eq!(at(&value, &[Member("x")]), Datum::Float(0.0));
    // In two pieces: fields that the second one leaves out stay.
    let pieces = Bytes::from_static(b"\x1a\x09\x09\0\0\0\0\0\0\xf0\x3f\x1a\x00");
    let value = format.decode(&pieces).unwrap();
    assert_eq!(at(&value, &[Member("x")]), Datum::Float(1.0));
    // A whole value too.
    let whole = format_of(text, "google.protobuf.DoubleValue");
    let two = whole.encode(&Datum::Float(2.0)).unwrap();
    assert_eq!(whole.decode(&two).unwrap(), Datum::Float(2.0));
    assert_eq!(whole.decode(&Bytes::new()).unwrap(), Datum::Float(0.0));
}

#[test]
fn of_descriptors_only_what_is_needed_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "used.proto",
        "syntax = \"proto3\"; message Used { int32 a = 1; }",
    );
    write("unused.proto", "syntax = \"proto3\"; message Unused {}");
    write(
        "main.proto",
        "syntax = \"proto3\"; import \"used.proto\"; message Main { Used used = 1; }",
    );
    write(
        "all.proto",
        "syntax = \"proto3\"; import \"unused.proto\"; import \"main.proto\"; message All {}",
    );
    let folders = [folder.path().to_owned()];
    let all = of_file(&folder.path().join("all.proto"), &folders).unwrap();
    let (kept, name) = needed(&all, Some("Main")).unwrap();
    assert_eq!(name, "Main");
    let pool = DescriptorPool::decode(&*kept).unwrap();
    let files: Vec<_> = pool.files().map(|f| f.name().to_owned()).collect();
    assert_eq!(files, ["used.proto", "main.proto"]);
    assert_eq!(needed(&all, None).unwrap().1, "All");
    let text = "syntax = \"proto3\"; import \"main.proto\"; message X { Main m = 1; }";
    let of_text = of_text(text, &folders).unwrap();
    assert_eq!(needed(&of_text, None).unwrap().1, "X");
}

#[test]
fn a_plan_carries_a_format() {
    let (descriptors, message) = needed(&of_text(SHOP, &[]).unwrap(), Some("shop.Order")).unwrap();
    let spec = Spec::new(&descriptors, message, Some(7), vec![3]);
    let text = serde_json::to_string(&spec).unwrap();
    let again: Spec = serde_json::from_str(&text).unwrap();
    assert_eq!(again, spec);
    assert_eq!(again.format().unwrap().name(), "protobuf(shop.Order)");
    let wrong: Spec = serde_json::from_str(r#"{"descriptors": "?", "message": "M"}"#).unwrap();
    let error = wrong.format().unwrap_err();
    assert!(error.to_string().contains("no base64"), "{error}");
    let other = text.replace("shop.Order", "shop.Oder");
    let other: Spec = serde_json::from_str(&other).unwrap();
    let error = other.format().unwrap_err().to_string();
    assert!(error.contains("did you mean 'shop.Order'?"), "{error}");
}

#[test]
fn bytes_are_taken_for_an_encoded_message() {
    let written = Datum::Bytes(Bytes::from_static(&[8, 5]));
    let plain = Format::new(&of_text(PLACES, &[]).unwrap(), "p.First", None, &[]).unwrap();
    assert_eq!(&plain.encode(&written).unwrap()[..], [8, 5]);
    let framed = framed("p.Second", 7, &[]);
    assert_eq!(
        &framed.encode(&written).unwrap()[..],
        [0, 0, 0, 0, 7, 2, 2, 8, 5]
    );
    let cut = Datum::Bytes(Bytes::from_static(&[8]));
    let said = plain.encode(&cut).unwrap_err().to_string();
    assert!(
        said.contains("no value of the Protobuf message 'p.First'"),
        "{said}"
    );
    // A wrapper is represented by its content.
    let text = "syntax = \"proto3\"; import \"google/protobuf/wrappers.proto\"; message M { google.protobuf.BytesValue x = 1; }";
    let wrapped = format_of(text, "google.protobuf.BytesValue");
    assert_eq!(
        &wrapped.encode(&Datum::Bytes("ab".into())).unwrap()[..],
        b"\x0a\x02ab"
    );
}
