use super::topic_pattern;

#[test]
fn whole_names_match() {
    let pattern = topic_pattern("a|orders-.*").unwrap();
    assert!(pattern.is_match("a") && pattern.is_match("orders-eu"));
    assert!(!pattern.is_match("ab") && !pattern.is_match("my-orders-eu"));
}

#[test]
fn flags_stand_in_the_pattern() {
    let pattern = topic_pattern("(?i)orders-.*").unwrap();
    assert!(pattern.is_match("ORDERS-eu"));
    assert!(!pattern.is_match("x-orders-eu"));
}

#[test]
fn unsupported_patterns_are_refused_with_a_hint() {
    for (pattern, what) in [
        ("orders-(?!eu).*", "look-around"),
        (r"(.)\1", "backreferences"),
        ("a)(b", "unopened group"),
        ("a[", "unclosed"),
        // The end of the added group would be inside a comment.
        ("(?x)a # b", "unclosed group"),
    ] {
        let error = topic_pattern(pattern).unwrap_err();
        assert!(error.message().contains(what), "{error}");
        assert!(error.message().contains(pattern), "{error}");
        assert!(error.to_string().contains("name the topics"), "{error}");
    }
}
