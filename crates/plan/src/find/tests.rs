use super::covering::covered;
use super::ranges::{AccessRange, Domain, ranges};
use super::{Access, AccessPath, FindSpec, IndexView, KeyOrder, choose};
use crate::expression::Expression;
use crate::materialized::IndexSpec;
use proptest::prelude::*;
use serde_json::{Value, json};
use stoatflow_core::{Datum, ordered};

fn member(name: &str) -> Value {
    json!({"op": "get", "args": [{"op": "value"}], "name": name})
}

fn lit(value: impl Into<Value>) -> Value {
    json!({"op": "lit", "value": value.into()})
}

fn op(name: &str, left: Value, right: Value) -> Value {
    json!({"op": name, "args": [left, right]})
}

fn key() -> Value {
    json!({"op": "key"})
}

fn call(function: &str, args: Value) -> Value {
    json!({"op": "call", "function": function, "args": args})
}

fn index(name: &str, fields: &[&str]) -> IndexSpec {
    let fields: Vec<Value> = fields.iter().map(|f| json!({"expr": member(f)})).collect();
    serde_json::from_value(json!({"name": name, "fields": fields})).unwrap()
}

fn tags() -> IndexSpec {
    let field = json!([{"expr": member("tags")}]);
    serde_json::from_value(json!({"name": "by_tag", "fields": field, "each": true})).unwrap()
}

fn spec(asked: &Value) -> FindSpec {
    FindSpec::decode(asked.to_string().as_bytes()).unwrap()
}

fn chosen(asked: &Value, indexes: &[IndexSpec]) -> Access {
    try_choose(asked, indexes).unwrap()
}

fn try_choose(asked: &Value, indexes: &[IndexSpec]) -> stoatflow_core::Result<Access> {
    let views: Vec<_> = indexes
        .iter()
        .map(|spec| IndexView {
            spec,
            readable: true,
        })
        .collect();
    choose(&spec(asked), KeyOrder::Text, &views)
}

fn bytes(values: &[Datum]) -> Vec<u8> {
    values.iter().flat_map(ordered::bytes).collect()
}

#[test]
fn a_key_needs_no_index() {
    let asked = json!({"where": op("and", op("eq", key(), lit("k")), op("eq", member("city"), lit("Oslo")))});
    let access = chosen(&asked, &[index("by_city", &["city"])]);
    assert_eq!(access.path, AccessPath::Keys);
    assert_eq!(access.ranges[0].from, b"k");
    let asked = json!({"where": call("is_in", json!([key(), lit("b"), lit("a")]))});
    let access = chosen(&asked, &[]);
    assert_eq!((access.path, access.ranges.len()), (AccessPath::Keys, 2));
    assert_eq!(access.ranges[0].from, b"a");
}

#[test]
fn keys_in_a_range_or_with_a_beginning() {
    let access = chosen(&json!({"where": op("ge", key(), lit("k"))}), &[]);
    assert_eq!(access.path, AccessPath::KeyRange);
    assert_eq!(access.ranges[0].from, b"k");
    let begins = json!({"op": "str_starts_with", "args": [key()], "text": "user-"});
    let access = chosen(&json!({"where": begins}), &[]);
    assert_eq!(access.ranges[0].to.as_deref(), Some(&b"user."[..]));
}

#[test]
fn the_index_with_more_fixed_fields_is_better() {
    let indexes = [
        index("by_city", &["city"]),
        index("by_city_age", &["city", "age"]),
    ];
    let city = op("eq", member("city"), lit("Oslo"));
    let access = chosen(&json!({"where": city}), &indexes);
    assert_eq!(access.path, AccessPath::Index(0));
    let both = op("and", op("lt", lit(30), member("age")), city);
    let access = chosen(&json!({"where": both}), &indexes);
    assert_eq!(access.path, AccessPath::Index(1));
    let from = [
        bytes(&[Datum::text("Oslo")]),
        ordered::bytes(&Datum::Int(30)),
    ]
    .concat();
    assert!(access.ranges[0].from > from);
    assert_eq!(
        access.ranges[0].to,
        Some([bytes(&[Datum::text("Oslo")]), vec![ordered::NUMBER + 1]].concat())
    );
}

#[test]
fn an_index_gives_the_order_or_rows_are_sorted() {
    let indexes = [index("by_city_age", &["city", "age"])];
    let asked =
        |order: Value| json!({"where": op("eq", member("city"), lit("Oslo")), "order_by": order});
    let access = chosen(
        &asked(json!([{"expr": member("age"), "down": true}])),
        &indexes,
    );
    assert!(access.in_order && access.reverse);
    let access = chosen(
        &asked(json!([{"expr": member("city"), "down": true}, {"expr": member("age")}])),
        &indexes,
    );
    assert!(access.in_order && !access.reverse);
    let access = chosen(&asked(json!([{"expr": member("name")}])), &indexes);
    assert!(!access.in_order);
    // With two cities, their ages are not in order.
    let two = call("is_in", json!([member("city"), lit("Oslo"), lit("Bergen")]));
    let asked = json!({"where": two, "order_by": [{"expr": member("age")}]});
    let access = chosen(&asked, &indexes);
    assert!(!access.in_order && access.ranges.len() == 2);
}

#[test]
fn the_first_rows_of_an_index_are_no_scan() {
    let indexes = [index("by_age", &["age"])];
    let by_age = json!([{"expr": member("age"), "down": true}]);
    let access = chosen(&json!({"order_by": by_age, "limit": 10}), &indexes);
    assert_eq!((access.path, access.in_order), (AccessPath::Index(0), true));
    assert_eq!(access.ranges[0].from, [ordered::NULL]);
    assert!(try_choose(&json!({"order_by": by_age}), &indexes).is_err());
    assert_eq!(
        chosen(&json!({"limit": 10}), &indexes).path,
        AccessPath::KeyRange
    );
}

#[test]
fn elements_of_lists() {
    let has = |tag: &str| call("list_contains", json!([member("tags"), lit(tag)]));
    let indexes = [tags()];
    let access = chosen(&json!({"where": has("a")}), &indexes);
    assert_eq!((access.path, access.repeats), (AccessPath::Index(0), false));
    // Two elements of one list: only one of them selects rows.
    let access = chosen(&json!({"where": op("and", has("a"), has("b"))}), &indexes);
    assert_eq!(access.ranges.len(), 1);
    assert_eq!(access.ranges[0].from, bytes(&[Datum::text("a")]));
    let access = chosen(&json!({"where": op("or", has("a"), has("b"))}), &indexes);
    assert_eq!((access.ranges.len(), access.repeats), (2, true));
}

#[test]
fn a_scan_names_the_index_that_helps() {
    let city = op("eq", member("city"), lit("Oslo"));
    let asked = json!({"where": op("and", city.clone(), op("gt", member("age"), lit(3)))});
    let error = try_choose(&asked, &[]).unwrap_err().to_string();
    assert!(
        error.contains(r#"sf.Index("by_city_age", sf.value["city"], sf.value["age"])"#),
        "{error}"
    );
    let error = try_choose(&json!({"where": op("ne", member("city"), lit(1))}), &[]).unwrap_err();
    assert!(error.to_string().contains("allow_scan=True"), "{error}");
    let has = call("list_contains", json!([member("tags"), lit("a")]));
    let error = try_choose(&json!({"where": has}), &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("each=True"), "{error}");
    let allowed = json!({"where": city.clone(), "allow_scan": true});
    assert_eq!(chosen(&allowed, &[]).path, AccessPath::Scan);
    let building = index("by_city", &["city"]);
    let view = IndexView {
        spec: &building,
        readable: false,
    };
    let error = choose(&spec(&json!({"where": city})), KeyOrder::Text, &[view]).unwrap_err();
    assert!(
        error.to_string().contains("by_city is still being built"),
        "{error}"
    );
}

#[test]
fn an_alternative_without_index_is_none() {
    let indexes = [index("by_city", &["city"])];
    let city = |name: &str| op("eq", member("city"), lit(name));
    let access = chosen(&json!({"where": op("or", city("a"), city("b"))}), &indexes);
    assert_eq!(access.ranges.len(), 2);
    let other = op("or", city("a"), op("eq", member("name"), lit("x")));
    assert!(try_choose(&json!({"where": other}), &indexes).is_err());
}

#[test]
fn whole_keys_below_zero_stand_behind() {
    let of = |asked: Value| {
        let condition: Expression = serde_json::from_value(asked).unwrap();
        ranges(
            &condition,
            &Expression::Key,
            Domain::Key(KeyOrder::Whole(8)),
        )
        .unwrap()
    };
    let holds = |found: &[AccessRange], n: i64| {
        let bytes = n.to_be_bytes();
        found.iter().any(|p| {
            p.from.as_slice() <= &bytes[..] && p.to.as_deref().is_none_or(|to| &bytes[..] < to)
        })
    };
    let numbers = [i64::MIN, -7, -1, 0, 1, 7, i64::MAX];
    for edge in numbers {
        for (name, right) in [
            ("lt", (|n, e| n < e) as fn(i64, i64) -> bool),
            ("le", |n, e| n <= e),
            ("gt", |n, e| n > e),
            ("ge", |n, e| n >= e),
            ("eq", |n, e| n == e),
        ] {
            let found = of(op(name, key(), lit(edge)));
            for n in numbers {
                assert_eq!(holds(&found, n), right(n, edge), "{n} {name} {edge}");
            }
        }
    }
}

/// A random condition about one field, as data.
fn condition() -> impl Strategy<Value = Value> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        (-6i64..7).prop_map(|n| json!(n as f64 / 2.0)),
        "[ab]{0,2}".prop_map(Value::from),
    ];
    let compared = (
        prop_oneof![
            Just("eq"),
            Just("lt"),
            Just("le"),
            Just("gt"),
            Just("ge"),
            Just("ne")
        ],
        value.clone(),
        any::<bool>(),
    )
        .prop_map(|(how, value, turned)| {
            let (a, b) = (member("f"), json!({"op": "lit", "value": value}));
            if turned { op(how, b, a) } else { op(how, a, b) }
        });
    let leaf = prop_oneof![
        6 => compared,
        1 => Just(json!({"op": "is_null", "args": [member("f")]})),
        1 => Just(json!({"op": "not", "args": [{"op": "is_null", "args": [member("f")]}]})),
        1 => "[ab]{0,2}".prop_map(|text| json!({"op": "str_starts_with", "args": [member("f")], "text": text})),
        1 => proptest::collection::vec(value, 1..4).prop_map(|all| {
            let mut args = vec![member("f")];
            args.extend(all.into_iter().map(|v| json!({"op": "lit", "value": v})));
            call("is_in", Value::Array(args))
        }),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        (prop_oneof![Just("and"), Just("or")], inner.clone(), inner)
            .prop_map(|(how, a, b)| op(how, a, b))
    })
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_bool().map(f64::from))
}

/// Whether a condition is true for a value; errors, null and false count as not true.
fn says(condition: &Value, of: &Value) -> bool {
    let args = &condition["args"];
    let side = |at: usize| {
        if args[at]["op"] == "lit" {
            &args[at]["value"]
        } else {
            of
        }
    };
    let equal = |a: &Value, b: &Value| match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    };
    let order = |a: &Value, b: &Value| match (number(a), number(b), a.as_str(), b.as_str()) {
        (Some(a), Some(b), ..) => a.partial_cmp(&b),
        (_, _, Some(a), Some(b)) => Some(a.cmp(b)),
        _ => None,
    };
    match condition["op"].as_str().unwrap() {
        "and" => says(&args[0], of) && says(&args[1], of),
        "or" => says(&args[0], of) || says(&args[1], of),
        "not" => !of.is_null(),
        "is_null" => of.is_null(),
        "str_starts_with" => of
            .as_str()
            .is_some_and(|text| text.starts_with(condition["text"].as_str().unwrap())),
        "call" => args.as_array().unwrap()[1..]
            .iter()
            .any(|lit| equal(&lit["value"], of)),
        "eq" => equal(side(0), side(1)),
        "ne" => !equal(side(0), side(1)),
        how => order(side(0), side(1)).is_some_and(|order| match how {
            "lt" => order.is_lt(),
            "le" => order.is_le(),
            "gt" => order.is_gt(),
            _ => order.is_ge(),
        }),
    }
}

fn as_datum(value: &Value) -> Datum {
    match value {
        Value::Null => Datum::Null,
        Value::Bool(b) => Datum::Bool(*b),
        Value::Number(n) => n
            .as_i64()
            .map_or_else(|| Datum::Float(n.as_f64().unwrap()), Datum::Int),
        Value::String(text) => Datum::text(text.as_str()),
        _ => Datum::List([].into()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn matching_values_lie_in_the_ranges(condition in condition()) {
        let parsed: Expression = serde_json::from_value(condition.clone()).unwrap();
        let field: Expression = serde_json::from_value(member("f")).unwrap();
        let Some(found) = ranges(&parsed, &field, Domain::Field) else {
            return Ok(());
        };
        for pair in found.windows(2) {
            prop_assert!(pair[0].to.as_ref().is_some_and(|to| *to <= pair[1].from), "{:?}", found);
        }
        let values = [
            json!(null), json!(true), json!(false), json!(-3), json!(0), json!(1), json!(1.5), json!(2),
            json!(""), json!("a"), json!("ab"), json!("b"), json!("bb"), json!([1]),
        ];
        for value in values {
            // In an index, other fields and the key follow the field.
            let entry = [ordered::bytes(&as_datum(&value)), b"\x20key".to_vec()].concat();
            let inside = found.iter().any(|p| p.from <= entry && p.to.as_ref().is_none_or(|to| entry < *to));
            if says(&condition, &value) {
                prop_assert!(inside, "{} {} {:?}", condition, value, found);
            }
        }
    }
}

#[test]
fn of_equal_indexes_the_covering_one_is_read() {
    let plain = index("by_city", &["city"]);
    let mut covering = index("by_city_with_age", &["city"]);
    covering.storing = index("", &["age"]).fields;
    let both = [plain, covering];
    let city = json!({"op": "eq", "args": [member("city"), lit("Oslo")]});
    let mut asked = json!({"where": city, "select": {"exprs": [member("age"), {"op": "key"}]}});
    assert_eq!(chosen(&asked, &both).path, AccessPath::Index(1));
    asked["select"]["exprs"][0] = member("name");
    assert_eq!(chosen(&asked, &both).path, AccessPath::Index(0));
}

#[test]
fn a_covered_query_reads_elements_of_the_array() {
    let mut index = index("by_city", &["city"]);
    index.storing = self::index("", &["age"]).fields;
    let nested = json!({"op": "get", "args": [member("age")], "name": "years"});
    let asked = json!({
        "where": {"op": "eq", "args": [member("city"), lit("Oslo")]},
        "select": {"exprs": [nested]},
    });
    let element = |at: usize| json!({"op": "at", "args": [{"op": "value"}], "index": at});
    let over = covered(&spec(&asked), &index).unwrap();
    let years = json!({"op": "get", "args": [element(1)], "name": "years"});
    let expected = json!({
        "where": {"op": "eq", "args": [element(0), lit("Oslo")]},
        "select": {"exprs": [years]},
    });
    assert_eq!(over, spec(&expected));
    index.storing.clear();
    assert_eq!(covered(&spec(&asked), &index), None);
}
