use super::*;

fn given(text: &str) -> String {
    let bytes = Bytes::from(text.to_owned());
    String::from_utf8(read(&bytes).unwrap().to_vec()).unwrap()
}

#[test]
fn what_has_no_member_twice_stays_as_it_came() {
    let many: String = (0..500).map(|n| format!(r#""k{n}": {n}, "#)).collect();
    let many = format!("{{{many}\"last\": [{{\"k1\": 1}}, {{\"k1\": 2}}]}}");
    for text in [
        r#" {"a": 1, "b": {"a": 1.50, "c": [{"a": 1}, {"a": 2}]}} "#,
        r#"{"a": "x\u0062", "ab": 1e5, "": null, "A": true}"#,
        "7",
        r#""text""#,
        "[[], {}, null]",
        "1e999",
        &many,
    ] {
        let bytes = Bytes::from(text.to_owned());
        let read = read(&bytes).unwrap();
        assert_eq!(
            (read.as_ptr(), read.len()),
            (bytes.as_ptr(), bytes.len()),
            "{text}"
        );
    }
}

#[test]
fn of_a_member_that_occurs_twice_the_last_counts() {
    assert_eq!(given(r#"{"a":1,"b":2,"a":3}"#), r#"{"a":3,"b":2}"#);
    assert_eq!(given(r#"{"ab":1,"a\u0062":2}"#), r#"{"ab":2}"#);
    assert_eq!(
        given(r#"[1, {"x": {"y": 1.50, "y": 2.50}}]"#),
        r#"[1,{"x":{"y":2.50}}]"#
    );
    assert_eq!(
        given(r#"{"a":{"b":1,"b":2},"a":{"c":"\n","c":"\t"}}"#),
        r#"{"a":{"c":"\t"}}"#
    );
    let mut many: String = (0..500).map(|n| format!(r#""k{n}":{n},"#)).collect();
    many = format!("{{{many}\"k499\":0}}");
    assert!(given(&many).ends_with(r#""k498":498,"k499":0}"#));
}

#[test]
fn it_agrees_with_a_parser_whatever_is_given() {
    // Random texts of few names and values: duplicates are common.
    let mut state = 7_u64;
    let mut next = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    fn build(next: &mut dyn FnMut(u64) -> u64, depth: u32) -> String {
        match next(if depth > 4 { 3 } else { 6 }) {
            0 => "12345678901234567890123".into(),
            1 => r#""t\u00e9""#.into(),
            2 => "null".into(),
            3 => {
                let items: Vec<_> = (0..next(4)).map(|_| build(next, depth + 1)).collect();
                format!("[{}]", items.join(" , "))
            }
            _ => {
                let member = |next: &mut dyn FnMut(u64) -> u64| {
                    format!(
                        r#""{}":{}"#,
                        ["a", "b", "\\u0061", "c"][next(4) as usize],
                        build(next, depth + 1)
                    )
                };
                let members: Vec<_> = (0..next(6)).map(|_| member(next)).collect();
                format!("{{{}}}", members.join(","))
            }
        }
    }
    for _ in 0..3_000 {
        let text = build(&mut next, 0);
        let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        let read = given(&text);
        // serde_json's own object keeps the last one.
        assert_eq!(parsed(&read), parsed(&text), "{text}");
        assert_eq!(given(&read), read, "{text}");
        let mut again = Names::new();
        Any(&mut again)
            .deserialize(&mut serde_json::Deserializer::from_str(&read))
            .unwrap();
        assert!(!again.perhaps_twice, "{read}");
    }
}

#[test]
fn what_is_too_deep_to_be_looked_at_is_still_checked() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(given(&deep), deep);
    assert!(read(&Bytes::from(deep[1..].to_owned())).is_err());
    for wrong in ["", "{", r#"{"a":1,}"#, "NaN", "{} {}", "01"] {
        assert!(read(&Bytes::from(wrong)).is_err(), "{wrong}");
    }
    assert!(read(&Bytes::from_static(b"\"\xff\"")).is_err());
}
