use super::*;

fn given(text: &str) -> String {
    let bytes = Bytes::from(text.to_owned());
    String::from_utf8(read(bytes).unwrap().to_vec()).unwrap()
}

#[test]
fn texts_without_repeated_members_are_unchanged() {
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
        let read = read(bytes.clone()).unwrap();
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
fn names_that_differ_in_one_byte_have_other_fingerprints() {
    for length in 1..=40 {
        let name = vec![b'x'; length];
        let mut prints: Vec<u64> = (0..length)
            .map(|at| {
                let mut other = name.clone();
                other[at] = b'y';
                fingerprint(1, &other)
            })
            .collect();
        prints.extend([fingerprint(1, &name), fingerprint(2, &name)]);
        prints.push(fingerprint(1, &name[1..]));
        prints.sort_unstable();
        prints.dedup();
        assert_eq!(prints.len(), length + 3, "{length}");
    }
}

#[test]
fn it_agrees_with_a_parser_whatever_is_given() {
    // Random texts with few names and values, so duplicates are common.
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
        // serde_json's own object keeps the last one too.
        assert_eq!(parsed(&read), parsed(&text), "{text}");
        assert_eq!(given(&read), read, "{text}");
        let mut again = Names::new();
        assert!(scan::is_well_formed(read.as_bytes(), &mut again));
        assert!(!again.perhaps_twice, "{read}");
    }
}

#[test]
fn deep_texts_are_validated_without_the_member_check() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(given(&deep), deep);
    assert!(read(Bytes::from(deep[1..].to_owned())).is_err());
    for wrong in ["", "{", r#"{"a":1,}"#, "NaN", "{} {}", "01"] {
        assert!(read(Bytes::from(wrong)).is_err(), "{wrong}");
    }
    assert!(read(Bytes::from_static(b"\"\xff\"")).is_err());
}

/// Asserts that scan and serde_json agree on a text, and returns their verdict.
fn judged(text: &[u8]) -> bool {
    let parsed = serde_json::from_slice::<IgnoredAny>(text).is_ok();
    let scanned = scan::is_well_formed(text, &mut Names::new());
    assert_eq!(scanned, parsed, "{:?}", String::from_utf8_lossy(text));
    parsed
}

#[test]
fn the_scan_judges_as_a_parser_does() {
    // Random sequences of tokens that matter to a parser: most texts are malformed, and many
    // well-formed.
    let parts: Vec<&str> = "{ } [ ] , : \" \\ \\n \\u00e9 \\uD800 \\x \\u12 a é 0 1 -1 -0 01 1.5 1. .5 1e5 1E+5 1e 1e+ - + true false null tru nul NaN {} [] [1] {\"a\":1} \"a\" \"a\":"
        .split(' ')
        .chain([" ", "\n", "\t", "\r", "\u{b}", "\u{1}", "\u{7f}", "\""])
        .collect();
    let mut state = 11_u64;
    let mut next = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut right = 0;
    for _ in 0..300_000 {
        let count = 1 + next(7);
        let text: String = (0..count).map(|_| parts[next(parts.len())]).collect();
        right += usize::from(judged(text.as_bytes()));
    }
    assert!(right > 10_000, "{right}");
    // Well-formed texts with one byte changed, removed or inserted.
    let whole = br#" {"name":"J\u00f6rg \"x\"","n":[-1.5e3, 0,true,null,{}],"o":{"a b":"","c":[[]]}, "x":"\\"} "#;
    assert!(judged(whole));
    for at in 0..whole.len() {
        for byte in 0..=255 {
            let mut changed = whole.to_vec();
            changed[at] = byte;
            judged(&changed);
            changed.insert(at, b'0');
            judged(&changed);
        }
        judged(&[&whole[..at], &whole[at + 1..]].concat());
        judged(&whole[..at]);
    }
}

#[test]
fn members_that_occur_twice_too_deep_are_refused() {
    let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(2_000), "]".repeat(2_000));
    let fine = deep(r#"{"a":1,"b":2}"#);
    assert_eq!(given(&fine), fine);
    let error = read(Bytes::from(deep(r#"{"a":1,"a":2}"#))).unwrap_err();
    assert!(error.to_string().contains("too deep"), "{error}");
}
