//! Which texts are JSON, compared with serde's own parser.

use super::*;

const GOOD: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "-1.5e+3",
    "1e999",
    "\"\"",
    "\"a\"",
    "\"\\u00e9\\n\\\"\"",
    "\"é🙂\"",
    "[]",
    "[1, 2]",
    "{}",
    " {\"a\": [1, {\"b\": null}], \"c\": 2}\r\n\t",
    "123456789012345678901234567890",
];
const BAD: &[&[u8]] = &[
    b"",
    b" ",
    b"nul",
    b"NaN",
    b"Infinity",
    b"01",
    b"-",
    b"1.",
    b"1e",
    b".5",
    b"+1",
    b"'a'",
    b"\"a",
    b"\"\\x\"",
    b"\"\\u00g0\"",
    b"\"a\nb\"",
    b"\"\xff\"",
    b"\xef\xbb\xbf{}",
    b"[1,]",
    b"[1 2]",
    b"[",
    b"{\"a\"}",
    b"{\"a\":}",
    b"{\"a\":1,}",
    b"{a:1}",
    b"{} {}",
    b"{}x",
    b"\0",
];

#[test]
fn valid_json_stays_text() {
    for text in GOOD {
        let read = Serde::Json.read(Some(Bytes::from_static(text.as_bytes())));
        assert_eq!(
            read.unwrap(),
            Datum::Json(Bytes::from_static(text.as_bytes())),
            "{text}"
        );
    }
    assert_eq!(Serde::Json.read(None).unwrap(), Datum::Null);
}

#[test]
fn invalid_json_is_refused_when_read_from_a_topic() {
    for text in BAD {
        let bytes = || Some(Bytes::from_static(text));
        let error = Serde::Json.read(bytes()).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Serde);
        assert!(error.message().contains("not well-formed JSON"), "{error}");
        // A store holds text that was checked when it was read from its topic.
        assert!(Serde::Json.decode(bytes()).is_ok());
    }
}

#[test]
fn a_key_in_a_window_is_looked_at_too() {
    let key = |text: &[u8]| Some(Bytes::from([text, &[0; 8]].concat()));
    let windowed = Serde::TimeWindowed {
        inner: Arc::new(Serde::Json),
        size_ms: 5,
    };
    assert!(windowed.read(key(b"{\"a\":1}")).is_ok());
    assert!(windowed.read(key(b"{\"a\":1")).is_err());
    assert!(
        Serde::SessionWindowed(Arc::new(Serde::Json))
            .read(key(b"{\"a\":1"))
            .is_err()
    );
}

#[test]
fn text_that_functions_get_as_objects_is_looked_at_too() {
    let datum = |text: &'static [u8]| PlainJson::datum(Bytes::from_static(text));
    assert!(checked(datum(b"{\"a\":[1]}")).is_ok());
    assert!(checked(datum(b"{\"a\":[1}")).is_err());
    assert!(checked(datum(b"tru")).is_err());
}

#[test]
fn depth_costs_no_stack() {
    let deep = |close: usize| [vec![b'['; 3_000_000], vec![b']'; close]].concat();
    assert!(json::check_bytes(&deep(3_000_000)).is_ok());
    assert!(json::check_bytes(&deep(2_999_999)).is_err());
}

#[test]
fn one_changed_byte_is_judged_as_a_parser_does() {
    let text = br#"{"name":"J\u00f6rg","n":[-1.5e3, 0,true,null],"o":{"a b":""}, "x":"\"\\"}"#;
    let mut refused = 0;
    for at in 0..text.len() {
        for byte in 0..=255 {
            let mut changed = text.to_vec();
            changed[at] = byte;
            let parsed = serde_json::from_slice::<serde_json::Value>(&changed);
            let checked = json::check_bytes(&changed);
            assert_eq!(
                parsed.is_ok(),
                checked.is_ok(),
                "{:?}",
                String::from_utf8_lossy(&changed)
            );
            refused += usize::from(checked.is_err());
        }
    }
    assert!(refused > 5_000, "{refused}");
}
