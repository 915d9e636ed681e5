use super::{Values, condition, order};
use crate::expression::render::render;
use crate::find::FindSpec;
use proptest::prelude::*;

fn shown(text: &str) -> String {
    render(&condition(text, Values::Objects).unwrap())
}

fn refused(text: &str, values: Values) -> String {
    condition(text, values).unwrap_err().message().to_owned()
}

#[test]
fn conditions_are_read() {
    let each = [
        ("city = 'Oslo'", "value[\"city\"] == \"Oslo\""),
        (
            "city = 'Oslo' AND age>30 or _key='it''s'",
            "value[\"city\"] == \"Oslo\" & value[\"age\"] > 30 | key == \"it's\"",
        ),
        (
            "home.\"zip code\" >= -1.5e3",
            "value[\"home\"][\"zip code\"] >= -1500.0",
        ),
        ("tags[1] = 'a'", "value[\"tags\"][0] == \"a\""),
        ("tags[-1] = 'a'", "value[\"tags\"][-1] == \"a\""),
        ("7 < _timestamp", "7 < timestamp"),
        ("mail is null", "value[\"mail\"].is_null()"),
        ("mail is not null", "~value[\"mail\"].is_null()"),
        ("name like 'a%'", "value[\"name\"].str.startswith(\"a\")"),
        ("name like '%a'", "value[\"name\"].str.endswith(\"a\")"),
        ("name like '%a%'", "value[\"name\"].str.contains(\"a\")"),
        ("name like 'a'", "value[\"name\"] == \"a\""),
        (
            "starts_with(name, 'a_')",
            "value[\"name\"].str.startswith(\"a_\")",
        ),
        (
            "list_contains(tags, 'go')",
            "value[\"tags\"].list.contains(\"go\")",
        ),
        ("vip", "value[\"vip\"]"),
        ("not vip", "~value[\"vip\"]"),
        (
            "age between 3 and 4",
            "value[\"age\"] >= 3 & value[\"age\"] <= 4",
        ),
        ("age in (1, 2)", "value[\"age\"].is_in(1, 2)"),
    ];
    for (text, wanted) in each {
        let found = shown(text).replace("sf.", "").replace(['(', ')'], "");
        assert_eq!(found, wanted.replace(['(', ')'], ""), "{text}");
    }
}

/// The lowered form must equal that of the Python condition, so that it uses the same index.
#[test]
fn negations_stand_at_comparisons_and_nulls_match_nothing() {
    let each = [
        ("not age > 3", "value[\"age\"] <= 3"),
        ("not (age > 3 and b)", "value[\"age\"] <= 3 | ~value[\"b\"]"),
        ("not (age > 3 or b)", "value[\"age\"] <= 3 & ~value[\"b\"]"),
        ("not not age > 3", "value[\"age\"] > 3"),
        ("a <> 1", "value[\"a\"] != 1 & ~value[\"a\"].is_null"),
        ("not a = 1", "value[\"a\"] != 1 & ~value[\"a\"].is_null"),
        (
            "a not between 1 and 2",
            "value[\"a\"] < 1 | value[\"a\"] > 2",
        ),
        ("a in (1, null)", "value[\"a\"].is_in1"),
        ("a not in (1, null)", "False"),
        (
            "a not in (1)",
            "~value[\"a\"].is_in1 & ~value[\"a\"].is_null",
        ),
    ];
    for (text, wanted) in each {
        let found = shown(text).replace("sf.", "").replace(['(', ')'], "");
        let found = found.replace("lit", "");
        assert_eq!(found, wanted, "{text}");
    }
}

#[test]
fn an_order_is_read() {
    let found = order("age desc, _key, home.street ASC", Values::Objects).unwrap();
    let found: Vec<_> = found.iter().map(|by| (render(&by.expr), by.down)).collect();
    assert_eq!(found[0], ("sf.value[\"age\"]".to_owned(), true));
    assert_eq!(found[1], ("sf.key".to_owned(), false));
    assert_eq!(
        found[2],
        ("sf.value[\"home\"][\"street\"]".to_owned(), false)
    );
    let wrong = order("age descending", Values::Objects).unwrap_err();
    assert_eq!(
        wrong.message(),
        "order_by=age descending wants a comma or nothing more at character 5"
    );
}

#[test]
fn errors_name_their_position() {
    let each = [
        ("", "where= wants a name at its end"),
        ("city =", "where=city = wants a name at its end"),
        (
            "city = 'Os",
            "where=city = 'Os has a quotation mark without its end at character 8",
        ),
        ("city ; age", "where=city ; age has ';' at character 6"),
        ("age = 3x", "where=age = 3x has no number at character 7"),
        ("(age = 3", "where=(age = 3 wants ) at its end"),
        (
            "age = 3)",
            "where=age = 3) wants and, or, or nothing more at character 8",
        ),
        (
            "age not 3",
            "where=age not 3 wants in, between or like behind not at character 9",
        ),
        ("3", "where=3 wants a comparison at its end"),
        (
            "äöü = 1 2",
            "where=äöü = 1 2 wants and, or, or nothing more at character 9",
        ),
        (
            "a like 'b_c'",
            "where=a like 'b_c' has a pattern with _, or with % in the middle",
        ),
        (
            "tags[0] = 1",
            "where=tags[0] = 1 wants a whole number that is not 0: SQL counts from 1 at character 7",
        ),
    ];
    for (text, wanted) in each {
        assert_eq!(refused(text, Values::Objects), wanted);
    }
    let deep = format!("{}a{}", "(".repeat(100), ")".repeat(100));
    assert!(refused(&deep, Values::Objects).ends_with("is nested too deep"));
    let deep = format!("{} a", "not ".repeat(100));
    assert!(refused(&deep, Values::Objects).ends_with("is nested too deep"));
}

#[test]
fn values_that_are_no_objects_have_one_name() {
    assert_eq!(
        render(&condition("value > 3", Values::Plain).unwrap()),
        "sf.value > 3"
    );
    assert!(refused("age > 3", Values::Plain).contains("the values have no members"));
    assert!(refused("value > 3", Values::Unreadable).contains("a serde in Python has written"));
    condition("_key = 'a' and _timestamp > 3", Values::Unreadable).unwrap();
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "([a-c_'\"%(),.<>=!0-9\\[\\] é-]|not |and |or |in |like |between |is |null ){0,40}") {
        if let Ok(condition) = condition(&text, Values::Objects) {
            let spec = FindSpec { condition: Some(condition), ..FindSpec::default() };
            let _ = spec.check();
        }
        let _ = order(&text, Values::Objects);
    }
}
