//! Damaged text: the scan must agree with a parser on what is found in it and on whether it is JSON.

use super::{MemberPlace, find, pick, read};
use bytes::Bytes;
use stoatflow_fuzz::FuzzTarget;

/// The text of a member; `None` if the object doesn't have it.
fn member<'t>(text: &'t [u8], name: &str) -> Option<&'t [u8]> {
    match find(text, [Some(name)]) {
        MemberPlace::At(place) => Some(&text[place]),
        MemberPlace::Nowhere => None,
        MemberPlace::Unknown => panic!("picked, but not found"),
    }
}

#[test]
fn damaged_text() {
    let text = r#"{"a": {"b": [1, -2.5e3, true, null, "\u00e9\n"], "c": "x"}, "d": {"a": 1, "a": 2}, "é": 1}"#;
    let deep = ["[", r#"{"a":"#].map(|open| open.repeat(10_000).into_bytes());
    let valid = [text.as_bytes().to_vec()].into_iter().chain(deep).collect();
    FuzzTarget::new("json", valid).run(|input| {
        for path in [&["a", "b"][..], &["d", "a"], &["é"], &["a"; 9]] {
            if let MemberPlace::At(place) = find(input, path.iter().map(|name| Some(*name))) {
                assert!(place.end <= input.len());
            }
        }
        let mut part = Vec::new();
        for names in [&["a", "d"][..], &["d", "x"]] {
            part.clear();
            if pick(input, names, &mut part) {
                for name in names {
                    assert_eq!(member(input, name), member(&part, name));
                }
            }
        }
        let found = read(Bytes::copy_from_slice(input));
        let parsed = serde_json::from_slice::<&serde_json::value::RawValue>(input);
        if let Ok(found) = found {
            assert!(
                std::str::from_utf8(&found).is_ok() && parsed.is_ok(),
                "this is no JSON"
            );
        }
    });
}
