use super::*;
use proptest::prelude::*;
use stoatflow_core::Text;

fn parts(expression: &str, line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let any = compile(expression)
        .each(&with(text(line)), &mut |part| found.push(word(&part)))
        .unwrap();
    assert!(any);
    let Datum::List(listed) = eval(expression, text(line)).unwrap() else {
        panic!("a list")
    };
    assert_eq!(
        listed.iter().map(word).collect::<Vec<_>>(),
        found,
        "eval and each agree"
    );
    found
}

const SPLIT: &str = r#"{"op":"str_split","args":[{"op":"value"}],"by":null}"#;
const LOWER_SPLIT: &str =
    r#"{"op":"str_split","args":[{"op":"str_lower","args":[{"op":"value"}]}],"by":null}"#;
const COMMA: &str = r#"{"op":"str_split","args":[{"op":"value"}],"by":", "}"#;

#[test]
fn split_as_in_python() {
    // "  a\tb \n c\x1fd ".split() == ['a', 'b', 'c', 'd']; Unicode spaces count too
    assert_eq!(parts(SPLIT, "  a\tb \n c\u{1f}d "), ["a", "b", "c", "d"]);
    assert_eq!(
        parts(SPLIT, "ä\u{a0}ö\u{2003}ü\u{85}é"),
        ["ä", "ö", "ü", "é"]
    );
    assert_eq!(parts(SPLIT, " "), [""; 0]);
    assert_eq!(parts(SPLIT, ""), [""; 0]);
    // "a, b, , c".split(", ") == ['a', 'b', '', 'c']; "".split(", ") == ['']
    assert_eq!(parts(COMMA, "a, b, , c"), ["a", "b", "", "c"]);
    assert_eq!(parts(COMMA, ""), [""]);
    assert_eq!(parts(LOWER_SPLIT, "The QUICK fox"), ["the", "quick", "fox"]);
}

#[test]
fn parts_share_the_line() {
    let line = Text::from("one two".to_owned());
    let bytes = line.as_bytes().as_ptr_range();
    let mut seen = 0;
    for expression in [SPLIT, LOWER_SPLIT] {
        compile(expression)
            .each(&with(Datum::Str(line.clone())), &mut |part| {
                let Datum::Str(part) = part else {
                    panic!("text")
                };
                assert!(
                    bytes.contains(&part.as_bytes().as_ptr()),
                    "a slice of the line: {part:?}"
                );
                seen += 1;
            })
            .unwrap();
    }
    assert_eq!(seen, 4);
}

#[test]
fn each_needs_a_list_and_null_is_none() {
    let value = compile(r#"{"op":"value"}"#);
    let mut none = |_| panic!("nothing to give");
    assert!(!value.each(&with(Datum::Null), &mut none).unwrap());
    assert!(!compile(SPLIT).each(&with(Datum::Null), &mut none).unwrap());
    // Text would be split into characters.
    let error = value.each(&with(text("abc")), &mut none).unwrap_err();
    assert!(
        error.message().contains("a list was expected") && error.message().contains("str"),
        "{error}"
    );
    assert!(
        value
            .each(&with(raw(r#"{"a":1}"#)), &mut none)
            .unwrap_err()
            .message()
            .contains("object")
    );
    let mut found = Vec::new();
    assert!(
        value
            .each(&with(raw(r#" [1, "two", null, {"x": 3}] "#)), &mut |item| {
                found.push(item)
            })
            .unwrap()
    );
    assert_eq!(
        found,
        [Datum::Int(1), text("two"), Datum::Null, raw(r#"{"x": 3}"#)]
    );
}

#[test]
fn texts_as_in_python() {
    let table = [
        ("str_lower", "HeLLo", "hello"),
        ("str_lower", "ÄÖ ΣΑΣ", "äö σας"),
        ("str_upper", "straße", "STRASSE"),
        ("str_upper", "abc", "ABC"),
        ("str_strip", " \t x y\u{a0}\n\u{1c}", "x y"),
        ("str_strip", "", ""),
    ];
    for (op, of, expected) in table {
        assert_eq!(unary(op, text(of)).unwrap(), text(expected), "{op} {of:?}");
    }
    for op in ["str_lower", "str_upper", "str_strip", "len"] {
        assert_eq!(unary(op, Datum::Null).unwrap(), Datum::Null);
    }
    user_error(
        unary("str_lower", Datum::Int(1)),
        &["text was expected", "int"],
    );
    user_error(unary("len", Datum::Int(1)), &["int", "length"]);
}

#[test]
fn lengths() {
    for (of, expected) in [
        (text("häß€😀"), 5),
        (text(""), 0),
        (raw("[1, [2, 3]]"), 2),
        (raw("[]"), 0),
        (raw(r#"{"a": 1, "b": {}}"#), 2),
        (Datum::Bytes("abc".into()), 3),
    ] {
        assert_eq!(
            unary("len", of.clone()).unwrap(),
            Datum::Int(expected),
            "{of:?}"
        );
    }
}

#[test]
fn looking_inside() {
    let at = |op: &str, what: &str, of: Datum| {
        eval(
            &format!(r#"{{"op":"{op}","args":[{{"op":"value"}}],"text":"{what}"}}"#),
            of,
        )
        .unwrap()
    };
    for (op, what, expected) in [
        ("str_contains", "ell", true),
        ("str_contains", "x", false),
        ("str_contains", "", true),
        ("str_starts_with", "he", true),
        ("str_starts_with", "el", false),
        ("str_ends_with", "lo", true),
        ("str_ends_with", "l", false),
    ] {
        assert_eq!(
            at(op, what, text("hello")),
            Datum::Bool(expected),
            "{op} {what}"
        );
        assert_eq!(at(op, what, Datum::Null), Datum::Null);
    }
}

proptest! {
    #[test]
    fn split_equals_the_standard_library(line in r"[a-zA-Zß \t\x0b\u{2003}é]{0,60}") {
        prop_assert_eq!(parts(SPLIT, &line), line.split_whitespace().collect::<Vec<_>>());
        let lower = line.to_lowercase();
        prop_assert_eq!(parts(LOWER_SPLIT, &line), lower.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn split_at_a_separator_can_be_joined_again(line in r"[ab, ]{0,30}") {
        prop_assert_eq!(parts(COMMA, &line).join(", "), line);
    }

    #[test]
    fn cases_equal_the_standard_library(s in "\\PC{0,40}") {
        prop_assert_eq!(unary("str_lower", text(&s)).unwrap(), text(&s.to_lowercase()));
        prop_assert_eq!(unary("str_upper", text(&s)).unwrap(), text(&s.to_uppercase()));
        prop_assert_eq!(unary("len", text(&s)).unwrap(), Datum::Int(i64::try_from(s.chars().count()).unwrap()));
    }
}
