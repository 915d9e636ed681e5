use super::*;
use proptest::prelude::*;
use stoatflow_core::Bytes;

/// `path("a.0.-1")` is `sf.value["a"][0][-1]`.
fn path(steps: &str) -> String {
    steps
        .split('.')
        .fold(r#"{"op":"value"}"#.to_owned(), |of, step| {
            match step.parse::<i64>() {
                Ok(index) => format!(r#"{{"op":"at","args":[{of}],"index":{index}}}"#),
                Err(_) => format!(r#"{{"op":"get","args":[{of}],"name":"{step}"}}"#),
            }
        })
}

const ORDER: &str = r#" { "id" : 7, "amount": 12.50, "open": true, "note": null, "user": {"name": "Zoë", "tags": ["a", "b\n", {"deep": [1, 2, 3]}]},
    "esc\"aped": 1, "big": 12345678901234567890123, "empty": {}, "none": [], "minus": -0, "exp": 1E3 } "#;

#[test]
fn members_and_elements() {
    let table = [
        ("id", Datum::Int(7)),
        ("amount", Datum::Float(12.5)),
        ("open", Datum::Bool(true)),
        ("note", Datum::Null),
        ("user.name", text("Zoë")),
        ("user.tags.0", text("a")),
        ("user.tags.1", text("b\n")),
        ("user.tags.2.deep", raw("[1, 2, 3]")),
        ("user.tags.2.deep.2", Datum::Int(3)),
        ("user.tags.-1.deep.-3", Datum::Int(1)),
        ("minus", Datum::Int(0)),
        ("exp", Datum::Float(1000.0)),
        // Beyond 64 bits a number passes through as it is.
        ("big", raw("12345678901234567890123")),
        // Missing, null on the way, out of range: null.
        ("absent", Datum::Null),
        ("absent.more.7", Datum::Null),
        ("note.more", Datum::Null),
        ("note.0", Datum::Null),
        ("user.tags.3", Datum::Null),
        ("user.tags.-4", Datum::Null),
        ("empty.x", Datum::Null),
        ("none.0", Datum::Null),
        ("none.-1", Datum::Null),
        ("empty", raw("{}")),
    ];
    for (steps, expected) in table {
        assert_eq!(eval(&path(steps), raw(ORDER)).unwrap(), expected, "{steps}");
    }
    assert_eq!(
        eval(
            r#"{"op":"get","args":[{"op":"value"}],"name":"esc\"aped"}"#,
            raw(ORDER)
        )
        .unwrap(),
        Datum::Int(1)
    );
    assert_eq!(eval(&path("a"), Datum::Null).unwrap(), Datum::Null);
    assert_eq!(eval(&path("a"), raw(" null ")).unwrap(), Datum::Null);
}

#[test]
fn texts_and_objects_share_the_record() {
    let bytes = Bytes::from(r#"{"s":"plain","o":{"x":1}}"#.to_owned());
    let range = bytes.as_ptr_range();
    for steps in ["s", "o"] {
        match eval(&path(steps), Datum::Json(bytes.clone())).unwrap() {
            Datum::Str(t) => assert!(range.contains(&t.as_bytes().as_ptr())),
            Datum::Json(b) => assert!(range.contains(&b.as_ptr())),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_step_into_something_else_names_it() {
    user_error(eval(&path("id.x"), raw(ORDER)), &["int", "member 'x'"]);
    user_error(
        eval(&path("user.name.x"), raw(ORDER)),
        &["str", "member 'x'"],
    );
    user_error(eval(&path("user.0"), raw(ORDER)), &["object", "elements"]);
    user_error(
        eval(&path("user.tags.x"), raw(ORDER)),
        &["list", "member 'x'"],
    );
    user_error(eval(&path("user.-1"), raw(ORDER)), &["object", "elements"]);
    user_error(eval(&path("x"), text(r#"{"x":1}"#)), &["str", "member 'x'"]);
    user_error(eval(&path("x"), Datum::Int(1)), &["int"]);
    user_error(eval(&path("x"), raw("5")), &["int"]);
}

#[test]
fn malformed_json_is_a_serde_error() {
    for text in [
        "",
        " ",
        "{",
        r#"{"a""#,
        r#"{"a":}"#,
        "[",
        "nul",
        "tru",
        "\"open",
        "\"a\"b\"",
        "\"\u{1}\"",
        "01",
        "-",
        "1.",
        "1e",
        "--1",
        "{a:1}",
        "'x'",
    ] {
        for steps in ["a", "0"] {
            let error = eval(&path(steps), raw(text)).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Serde, "{text:?}: {error}");
        }
    }
    let broken = Datum::Json(Bytes::from_static(b"{\"a\":\"\xff\"}"));
    assert_eq!(
        eval(&path("a"), broken).unwrap_err().kind(),
        ErrorKind::Serde
    );
}

#[test]
fn half_a_surrogate_is_no_text() {
    let error = eval(&path("a"), raw(r#"{"a":"\ud800"}"#)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Serde);
}

#[test]
fn text_behind_the_found_member_is_not_read() {
    assert_eq!(
        eval(&path("a"), raw(r#"{"a":1, broken"#)).unwrap(),
        Datum::Int(1)
    );
    assert_eq!(
        eval(&path("b"), raw(r#"{"a":1, broken"#))
            .unwrap_err()
            .kind(),
        ErrorKind::Serde
    );
}

#[test]
fn scalars_of_the_whole_value() {
    for (of, expected) in [
        ("5", Datum::Int(5)),
        (" -2.5 ", Datum::Float(-2.5)),
        ("true", Datum::Bool(true)),
        ("null", Datum::Null),
        (r#""t\u00e9""#, text("té")),
        (" [1] ", raw("[1]")),
        ("1e999", Datum::Float(f64::INFINITY)),
    ] {
        assert_eq!(
            eval(r#"{"op":"value"}"#, raw(of)).unwrap(),
            expected,
            "{of}"
        );
    }
}

#[test]
fn equality_by_content() {
    let same = |a: &str, b: &str| {
        let both = raw(&format!("[{a},{b}]"));
        eval(
            &format!(r#"{{"op":"eq","args":[{},{}]}}"#, path("0"), path("1")),
            both,
        )
        .unwrap()
    };
    let table = [
        (
            r#"{"a":1,"b":[2,3]}"#,
            r#"{ "b" : [2.0, 3], "a" : 1 }"#,
            true,
        ),
        (r#"{"a":1}"#, r#"{"a":2}"#, false),
        (r#"{"a":1}"#, r#"{"b":1}"#, false),
        (r#"{"a":1}"#, r#"{"a":1,"b":null}"#, false),
        ("[1,2]", "[2,1]", false),
        ("[1,2]", "[1, 2]", true),
        ("[1]", "[1,2]", false),
        ("[]", "{}", false),
        ("[1]", "1", false),
        (r#""é""#, r#""\u00e9""#, true),
        ("123456789012345678901", "123456789012345678901", true),
        ("123456789012345678901", "123456789012345678902", false),
    ];
    for (a, b, expected) in table {
        assert_eq!(same(a, b), Datum::Bool(expected), "{a} == {b}");
    }
    let words = r#"{"op":"eq","args":[{"op":"str_split","args":[{"op":"get","args":[{"op":"value"}],"name":"t"}],"by":null},{"op":"get","args":[{"op":"value"}],"name":"l"}]}"#;
    assert_eq!(
        eval(words, raw(r#"{"t":"a b","l":["a","b"]}"#)).unwrap(),
        Datum::Bool(true)
    );
    let deep = |tail: &str| format!("{}{tail}{}", "[".repeat(4000), "]".repeat(4000));
    let both = raw(&format!("[{},{}]", deep("1"), deep("2")));
    user_error(
        eval(
            &format!(r#"{{"op":"eq","args":[{},{}]}}"#, path("0"), path("1")),
            both,
        ),
        &["nested deeper"],
    );
}

#[test]
fn objects_are_built_in_order() {
    let object = format!(
        r#"{{"op":"object","names":["n","q\"uote","o","missing"],"args":[{},{{"op":"key"}},{},{}]}}"#,
        path("id"),
        path("user.tags.2"),
        path("zzz")
    );
    assert_eq!(
        word(&eval(&object, raw(ORDER)).unwrap()),
        r#"{"n":7,"q\"uote":"the key","o":{"deep": [1, 2, 3]},"missing":null}"#
    );
    assert_eq!(
        eval(r#"{"op":"object","names":[],"args":[]}"#, Datum::Null).unwrap(),
        raw("{}")
    );
}

/// Nothing is decoded and encoded again: a number keeps its digits, a text its escapes.
#[test]
fn an_object_copies_members_as_they_were_written() {
    let value = raw(r#"{"n": 1.10, "t": "\u00e9", "o": {"deep": [ 1 ]}, "big": 1e400, "s": "x"}"#);
    let object = obj(&["n", "t", "o", "big", "none"]);
    assert_eq!(
        word(&eval(&object, value.clone()).unwrap()),
        r#"{"n":1.10,"t":"\u00e9","o":{"deep": [ 1 ]},"big":1e400,"none":null}"#
    );
    // Errors in the requested member are reported, as for any member.
    assert!(eval(&obj(&["n"]), raw(r#"{"n": 01}"#)).is_err());
    assert!(eval(&obj(&["n"]), text("no object")).is_err());
    let no_text = Datum::Json(Bytes::from_static(b"{\"t\": \"\xff\"}"));
    assert!(eval(&obj(&["t"]), no_text).is_err());
}

fn obj(names: &[&str]) -> String {
    let args = names
        .iter()
        .map(|name| serde_json::from_str::<serde_json::Value>(&path(name)).unwrap());
    serde_json::json!({"op": "object", "names": names, "args": args.collect::<Vec<_>>()})
        .to_string()
}

/// A byte that must be escaped is found anywhere in a text.
#[test]
fn texts_are_written_as_json_has_them() {
    for length in [0, 1, 31, 32, 33, 100] {
        for odd in ["", "\"", "\\", "\n", "\u{1}", "é", "\u{7f}"] {
            for at in 0..=length {
                let plain = "x".repeat(length);
                let (before, after) = plain.split_at(at);
                let value = format!("{before}{odd}{after}");
                let mut written = Vec::new();
                stoatflow_core::serde::write_json(&text(&value), &mut written).unwrap();
                assert_eq!(written, serde_json::to_vec(&value).unwrap());
            }
        }
    }
}

proptest! {
    #[test]
    fn numbers_and_texts_come_back(i: i64, x in proptest::num::f64::NORMAL, s in "\\PC{0,30}") {
        let value = serde_json::json!({"pad": [1, {"x": "y"}], "i": i, "x": x, "s": s}).to_string();
        prop_assert_eq!(eval(&path("i"), raw(&value)).unwrap(), Datum::Int(i));
        prop_assert_eq!(eval(&path("x"), raw(&value)).unwrap(), Datum::Float(x));
        prop_assert_eq!(eval(&path("s"), raw(&value)).unwrap(), text(&s));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), json in r#"[\[\]{}",:0-9a.e\\ -]{0,40}"#) {
        for value in [Bytes::from(bytes), Bytes::from(json.into_bytes())] {
            for steps in ["a", "0", "a.0", "-1"] {
                let _any = eval(&path(steps), Datum::Json(value.clone()));
            }
            let _any = unary("len", Datum::Json(value));
        }
    }
}
