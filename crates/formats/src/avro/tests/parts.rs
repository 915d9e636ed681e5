//! Parts one by one, as code that displays them reads them.

use super::*;
use stoatflow_core::Open;

fn value(format: &Format, text: &str) -> Datum {
    format.decode(&encoded(format, text)).unwrap()
}

fn open(datum: &Datum) -> &dyn Open {
    match datum {
        Datum::Opaque(value) => value.open().unwrap(),
        other => panic!("{other:?} has no parts"),
    }
}

#[test]
fn members_have_the_places_of_their_fields() {
    let format = format(USER);
    let user = value(&format, r#"{"id": 7, "name": "ann", "tags": ["x", "y"]}"#);
    let user = open(&user);
    assert!(!user.is_list());
    assert_eq!(user.member("name").unwrap(), Some((1, Datum::text("ann"))));
    assert_eq!(user.member("mail").unwrap(), Some((2, Datum::Null)));
    assert_eq!(user.member("nmae").unwrap(), None);
    assert_eq!(user.element(0).unwrap(), None, "it is no list");
    let (place, tags) = user.member("tags").unwrap().unwrap();
    assert_eq!(place, 3);
    let tags = open(&tags);
    assert!(tags.is_list());
    assert_eq!(tags.element(1).unwrap(), Some(Datum::text("y")));
    assert_eq!(tags.element(2).unwrap(), None);
    assert_eq!(tags.member("x").unwrap(), None, "it has no members");
    let parts = user.parts().unwrap();
    let Fields(members) = Fields::of(&parts).unwrap();
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    let schema = [
        "id", "name", "mail", "tags", "scores", "level", "photo", "boss",
    ];
    assert_eq!(names, schema);
}

#[test]
fn the_last_of_equal_entries_counts() {
    let format = format(r#"{"type": "map", "values": "int"}"#);
    // a: 1, b: 2, a: 3, which no writer should produce.
    let bytes = Bytes::from_static(b"\x06\x02a\x02\x02b\x04\x02a\x06\x00");
    let map = format.decode(&bytes).unwrap();
    assert_eq!(open(&map).member("a").unwrap(), Some((2, Datum::Int(3))));
}

#[test]
fn rewritten_values_keep_their_union_branch() {
    // For each of the first two fields another branch would fit better.
    let schema = r#"{"type": "record", "name": "T", "fields": [
        {"name": "number", "type": ["int", "long"]},
        {"name": "word", "type": ["null", "string", {"type": "enum", "name": "E", "symbols": ["A"]}]},
        {"name": "maybe", "type": ["null", "string"]}
    ]}"#;
    let format = format(schema);
    let bytes = Bytes::from_static(b"\x02\x0a\x02\x02A\x02\x02m");
    let came = format.decode(&bytes).unwrap();
    let read = open(&came).parts().unwrap();
    let number = Fields::of(&read).unwrap().last("number");
    assert_eq!(number, Some((0, Datum::Int(5))));
    assert_ne!(format.encode(&read).unwrap(), bytes);
    let kept = open(&came).as_written().unwrap().datum();
    assert_eq!(format.encode(&kept).unwrap(), bytes);
    // Another schema has other branches: there only the values count.
    let other = super::format(&schema.replace(r#"["int", "long"]"#, r#"["string", "long"]"#));
    let written = other.encode(&kept).unwrap();
    assert_eq!(written, Bytes::from_static(b"\x02\x0a\x04\x00\x02\x02m"));
}

#[test]
fn bytes_that_are_written_again_have_a_form_in_json() {
    let format = format(USER);
    let user = value(&format, r#"{"id": 7, "name": "ann", "photo": "\u00ff"}"#);
    let text = |parts: Datum| match parts {
        Datum::Opaque(fields) => fields.to_json(),
        other => panic!("{other:?} is no object"),
    };
    let kept = text(open(&user).as_written().unwrap().datum()).unwrap();
    let kept = String::from_utf8(kept.to_vec()).unwrap();
    assert!(kept.contains("\"photo\":\"\u{ff}\""), "{kept}");
    assert!(text(open(&user).parts().unwrap()).is_err());
}

#[test]
fn all_parts_of_a_changeable_value_are_changeable() {
    let mut spec = Spec::new(USER.to_owned(), None, BTreeMap::new());
    spec.decode = Decode::Dict;
    let plain = spec.format().unwrap();
    let lazy = format(USER);
    let text = r#"{"id": 7, "name": "ann", "boss": {"id": 1, "name": "bob"}}"#;
    assert_eq!(plain.name(), lazy.name(), "a store may be read as either");
    for (format, wanted) in [(&*plain, true), (&lazy, false)] {
        let user = value(format, text);
        let (_, boss) = open(&user).member("boss").unwrap().unwrap();
        assert_eq!(open(&user).is_for_change(), wanted);
        assert_eq!(open(&boss).is_for_change(), wanted);
        assert_eq!(format.encode(&user).unwrap(), encoded(&lazy, text));
    }
}

/// `user` with `value` in the member `name`.
fn changed(user: &Datum, name: &str, value: Datum) -> Datum {
    let changes = Fields(vec![(name.into(), value)]);
    open(user).with_members(changes).unwrap()
}

#[test]
fn bytes_between_changes_are_copied() {
    // Runs of elements with their sizes, which our own writer doesn't produce; then the last field.
    let schema = r#"{"type": "record", "name": "T", "fields": [
        {"name": "longs", "type": {"type": "array", "items": "long"}},
        {"name": "next", "type": ["null", "T", "int"], "default": null},
        {"name": "last", "type": "int"}
    ]}"#;
    let format = format(schema);
    let odd = b"\x03\x04\x02\x04\x02\x06\x00";
    let bytes = |rest: &[u8]| Bytes::from([odd, rest].concat());
    let came = format.decode(&bytes(b"\x00\x02")).unwrap();
    let write = |datum: &Datum| format.encode(datum).unwrap();
    assert_eq!(
        write(&changed(&came, "last", Datum::Int(2))),
        bytes(b"\x00\x04")
    );
    assert_eq!(
        write(&changed(&came, "next", Datum::Int(2))),
        bytes(b"\x04\x04\x02")
    );
    // One changed record within another, in a union.
    let inner = changed(&came, "last", Datum::Int(2));
    let nested = write(&changed(&came, "next", inner));
    let whole = [odd, &b"\x02"[..], odd, b"\x00\x04", b"\x02"].concat();
    assert_eq!(nested, Bytes::from(whole));
    // With another schema each field is encoded again.
    let other = super::format(&schema.replace("\"T\"", "\"U\""));
    let anew = other
        .encode(&changed(&came, "last", Datum::Int(2)))
        .unwrap();
    assert_eq!(anew, Bytes::from_static(b"\x06\x02\x04\x06\x00\x00\x04"));
}

#[test]
fn a_misfitting_change_names_its_position() {
    let format = format(USER);
    let user = value(&format, r#"{"id": 7, "name": "ann"}"#);
    let said = |name: &str, value: Datum| {
        let written = format.encode(&changed(&user, name, value));
        written.unwrap_err().to_string()
    };
    assert!(said("nmae", Datum::Null).contains("no field 'nmae', did you mean 'name'?"));
    assert!(said("id", Datum::text("x")).contains("at id: long is wanted"));
    let Datum::Opaque(object) = changed(&user, "name", Datum::text("bob")) else {
        panic!("it is an object");
    };
    let json = String::from_utf8(object.to_json().unwrap().to_vec()).unwrap();
    assert!(json.contains(r#""id":7,"name":"bob""#), "{json}");
    let parts = object.parts().unwrap().unwrap();
    let name = Fields::of(&parts).unwrap().last("name");
    assert_eq!(name, Some((1, Datum::text("bob"))));
}

#[test]
fn bytes_are_taken_for_an_encoded_value() {
    let user = format(USER);
    let bytes = encoded(&user, r#"{"id": 7, "name": "ann"}"#);
    let given = Datum::Bytes(bytes.clone());
    assert_eq!(user.encode(&given).unwrap(), bytes);
    let framed = Format::new(USER, Some(7), &BTreeMap::new()).unwrap();
    let written = framed.encode(&given).unwrap();
    assert_eq!(written, [&[0, 0, 0, 0, 7], &bytes[..]].concat());
    for (text, json) in [
        (r#"{"type": "array", "items": "bytes"}"#, r#"["a", "b"]"#),
        (r#"{"type": "map", "values": "int"}"#, r#"{"a": 1}"#),
    ] {
        let format = format(text);
        let bytes = encoded(&format, json);
        assert_eq!(format.encode(&Datum::Bytes(bytes.clone())).unwrap(), bytes);
    }
    // Here the bytes are the value itself, not an encoded one.
    assert_eq!(
        format(r#""bytes""#)
            .encode(&Datum::Bytes("ab".into()))
            .unwrap(),
        "\u{4}ab"
    );
}

#[test]
fn bytes_that_are_no_encoded_value_are_refused() {
    let user = format(USER);
    let bytes = encoded(&user, r#"{"id": 7, "name": "ann"}"#);
    let longer = Bytes::from([&bytes[..], &[0]].concat());
    for wrong in [Bytes::new(), bytes.slice(..bytes.len() - 1), longer] {
        let error = user.encode(&Datum::Bytes(wrong)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Serde);
        let said = error.to_string();
        assert!(
            said.contains("no value of the Avro schema 'shop.User'"),
            "{said}"
        );
    }
}
