use super::*;
use serde_json::Value;

fn at<'t>(text: &'t str, path: &[&str]) -> Option<&'t str> {
    match find(text.as_bytes(), path.iter().map(|name| Some(*name))) {
        MemberPlace::At(place) => Some(&text[place]),
        MemberPlace::Nowhere => None,
        MemberPlace::Unknown => panic!("nothing known of {path:?} in {text}"),
    }
}

fn is_unknown(text: &[u8], path: &[&str]) -> bool {
    find(text, path.iter().map(|name| Some(*name))) == MemberPlace::Unknown
}

#[test]
fn values_lie_where_their_names_lead() {
    let text = r#" { "user" : "u\u0061", "n":-1.5e3 ,"in": {"a": [1, {"n": 2}], "n": null}, "t":true, "e":{} } "#;
    assert_eq!(at(text, &["user"]), Some(r#""u\u0061""#));
    assert_eq!(at(text, &["n"]), Some("-1.5e3"));
    assert_eq!(at(text, &["in", "a"]), Some(r#"[1, {"n": 2}]"#));
    assert_eq!(at(text, &["in", "n"]), Some("null"));
    assert_eq!(at(text, &["t"]), Some("true"));
    assert_eq!(at(text, &["e"]), Some("{}"));
    assert_eq!(at(text, &["e", "n"]), None);
    assert_eq!(at(text, &["in", "t"]), None);
    assert_eq!(at("{}", &["a"]), None);
    assert_eq!(at("7", &[]), Some("7"));
}

#[test]
fn of_two_members_the_first_counts() {
    assert_eq!(at(r#"{"a":1,"a":2}"#, &["a"]), Some("1"));
}

#[test]
fn text_after_the_value_is_not_read() {
    assert_eq!(at(r#"{"a":1,"b"#, &["a"]), Some("1"));
    assert_eq!(
        at(r#"{"a":{"b":"x"}, nonsense"#, &["a", "b"]),
        Some(r#""x""#)
    );
}

#[test]
fn undecidable_texts_are_left_to_the_parser() {
    for text in [
        r#"{"\u0061":1,"a":2}"#, // escaped
        r#"{"b":01,"a":2}"#,
        r#"{"a":01}"#,
        r#"{"a":1x}"#,
        r#"{"a":1"#.trim_end_matches('1'),
        r#"{"a":"x"#,
        r#"{"b":[1,"a":2}"#,
        r#"{"b":1;"a":2}"#,
        r#"{"a" 1}"#,
        r#"{a:1}"#,
        "{\"b\":\"\n\",\"a\":1}",
        "[1]",
        "7",
        "",
    ] {
        assert!(is_unknown(text.as_bytes(), &["a"]), "{text}");
    }
    assert!(is_unknown(r#"{"a":7}"#.as_bytes(), &["a", "b"]));
    assert!(is_unknown(b"{\"b\":\"\xff\",\"a\":1}", &["a"]));
    assert_eq!(find(b"[7]", [None]), MemberPlace::Unknown);
}

#[test]
fn it_finds_what_a_parser_finds() {
    // Strings of many lengths, with escapes at the edges of the 8-byte steps.
    for length in 0..80 {
        for (at_place, odd) in [
            (0, "\\\""),
            (3, "\\\\"),
            (7, "\\n"),
            (31, "\u{e4}"),
            (33, "\\u00e4"),
        ] {
            let mut long = "x".repeat(length);
            if at_place <= length {
                long.insert_str(at_place, odd);
            }
            let text = format!(r#"{{"b":"{long}","a":[{length},"{long}"],"c":1}}"#);
            let parsed: Value = serde_json::from_str(&text).unwrap();
            let found: Value = serde_json::from_str(at(&text, &["a"]).unwrap()).unwrap();
            assert_eq!(found, parsed["a"], "{text}");
            // If the text is cut anywhere before the value's end, the value is not found.
            let end = text.find("],").unwrap();
            for cut in (0..=end).filter(|cut| text.is_char_boundary(*cut)) {
                assert!(
                    is_unknown(&text.as_bytes()[..cut], &["a"]),
                    "{}",
                    &text[..cut]
                );
            }
        }
    }
}

fn picked(text: &str, names: &[&str]) -> Option<String> {
    let mut out = b"before".to_vec();
    let is_picked = pick(text.as_bytes(), names, &mut out);
    let out = String::from_utf8(out).unwrap();
    let part = out.strip_prefix("before").unwrap().to_owned();
    assert!(is_picked || part.is_empty(), "{part}");
    is_picked.then_some(part)
}

#[test]
fn picked_members_are_those_that_are_found() {
    let text = r#" {"a" : 1, "b":{"a":[2, "}"]} ,"c":"x\u0061", "a":3, "d":-1.5e3 } "#;
    for names in [
        &["a"][..],
        &["b", "d"],
        &["d", "c", "b", "a"],
        &["none"],
        &["a", "none"],
        &[],
    ] {
        let part = picked(text, names).unwrap();
        for name in names {
            assert_eq!(at(&part, &[name]), at(text, &[name]), "{part}");
        }
    }
    assert_eq!(
        picked(text, &["d", "a"]).unwrap(),
        r#"{"a" : 1,"d":-1.5e3}"#
    );
    assert_eq!(picked("{}", &["a"]).unwrap(), "{}");
    assert_eq!(picked(r#"{"b":1}"#, &["a"]).unwrap(), "{}");
}

#[test]
fn a_text_is_picked_from_only_as_far_as_it_is_read() {
    // The text after the last wanted member isn't read, as in `find`.
    assert_eq!(picked(r#"{"a":1, nonsense"#, &["a"]).unwrap(), r#"{"a":1}"#);
    for text in [
        r#"{"b":2, nonsense"#,
        r#"{"b":2} nonsense"#,
        r#"{"b":2"#,
        r#"{"a":01}"#,
        r#"{"a":1x}"#,
        r#"{"a":{"b":1,}}"#,
        r#"{"\u0061":1,"a":2}"#,
        "[1]",
        "null",
        "",
    ] {
        assert_eq!(picked(text, &["a"]), None, "{text}");
    }
    assert!(!pick(b"{\"b\":\"\xff\",\"a\":1}", &["a"], &mut Vec::new()));
    assert!(!pick(b"{\"b\":\"\xff\"}", &["a"], &mut Vec::new()));
}
