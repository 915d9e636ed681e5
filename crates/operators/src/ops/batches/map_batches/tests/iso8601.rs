//! Values of every type, including times, that are put into columns and read back unchanged.

use super::*;
use crate::ops::batches::map_batches::iso8601;
use proptest::prelude::*;
use stoatflow_plan::TimeUnit;

/// A value after a round trip through a column of this type.
fn through(kind: ColumnType, value: &str) -> String {
    let udf = same();
    let mut rig = rig(op(Some(vec![column("a", kind)]), 1), &udf);
    match rig.push(all(&[&format!(r#"{{"a":{value}}}"#)])) {
        Ok(()) => {
            let out = rig.outputs().remove(0);
            let out = out.strip_prefix(r#"2:k={"a":"#).unwrap();
            out.strip_suffix("}@0").unwrap().to_owned()
        }
        Err(error) => format!("refused: {}", error.message()),
    }
}

#[test]
fn numbers_keep_their_digits_or_are_refused() {
    use ColumnType::{Float32, Float64, Int64, Uint8, Uint64};
    assert_eq!(
        through(Int64, "-9223372036854775808"),
        "-9223372036854775808"
    );
    assert_eq!(
        through(Uint64, "18446744073709551615"),
        "18446744073709551615"
    );
    assert!(through(Int64, "9223372036854775808").starts_with("refused"));
    assert!(through(Uint8, "-1").starts_with("refused"));
    assert_eq!(
        through(Float64, "9007199254740993").split(':').next(),
        Some("refused")
    );
    assert_eq!(through(Float64, "9007199254740992"), "9007199254740992.0");
    assert_eq!(through(Float64, "-3"), "-3.0");
    assert_eq!(through(Float64, "0.1"), "0.1");
    assert_eq!(
        through(Float32, "16777217").split(':').next(),
        Some("refused")
    );
    assert_eq!(through(Float32, "0.25"), "0.25");
}

#[test]
fn times_are_texts_or_whole_numbers() {
    let at = |unit, tz: Option<&str>| ColumnType::Timestamp {
        unit,
        tz: tz.map(str::to_owned),
    };
    let ms = || at(TimeUnit::Millisecond, Some("UTC"));
    assert_eq!(
        through(ms(), r#""2026-01-31T12:00:00.5+01:00""#),
        r#""2026-01-31T11:00:00.5Z""#
    );
    assert_eq!(through(ms(), "1500"), r#""1970-01-01T00:00:01.5Z""#);
    assert!(
        through(ms(), r#""2026-01-31T12:00:00""#)
            .contains("where a time of whole milliseconds (YYYY-MM-DDThh:mm:ssZ")
    );
    let wall = || at(TimeUnit::Nanosecond, None);
    assert_eq!(
        through(wall(), r#""2026-01-31T12:00:00""#),
        r#""2026-01-31T12:00:00""#
    );
    assert!(through(wall(), r#""2026-01-31T12:00:00Z""#).starts_with("refused"));
    assert_eq!(
        through(ColumnType::Date32, r#""1969-12-31""#),
        r#""1969-12-31""#
    );
    assert!(through(ColumnType::Date32, r#""2026-01-31T12:00:00""#).starts_with("refused"));
    assert!(through(ColumnType::Date32, "19000").contains("where a date (YYYY-MM-DD)"));
    // A time that is finer than the unit is rejected.
    let finer = "1969-12-31T23:59:59.9995Z";
    assert_eq!(iso8601::time(finer, TimeUnit::Millisecond, true), None);
    assert_eq!(
        iso8601::time(finer, TimeUnit::Microsecond, true),
        Some(-500)
    );
    let seconds = at(TimeUnit::Second, Some("UTC"));
    assert!(
        through(seconds, r#""2026-01-31T12:00:00.5Z""#).contains("where a time of whole seconds (")
    );
    assert_eq!(
        through(at(TimeUnit::Second, None), r#""2026-01-31T12:00:00.000""#),
        r#""2026-01-31T12:00:00""#
    );
    assert_eq!(iso8601::shown(i64::MAX, TimeUnit::Second, true), None);
    assert_eq!(iso8601::shown_day(i64::MAX), None);
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i64>().prop_map(Into::into),
        any::<bool>().prop_map(Into::into),
        (-1e12..1e12).prop_map(|x: f64| x.into()),
        ".{0,6}".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            // Copies of one value: elements of different types don't fit one column.
            (inner.clone(), 0usize..3).prop_map(|(v, n)| vec![v; n].into()),
            proptest::collection::btree_map("[a-c]{1,2}", inner, 0..3)
                .prop_map(|m| m.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any object: its columns are inferred, and it is read back unchanged.
    #[test]
    fn any_object_comes_back(members in proptest::collection::btree_map("[a-d]{1,2}", value(), 1..4)) {
        let object: serde_json::Map<_, _> = members.into_iter().collect();
        let text = serde_json::Value::Object(object).to_string();
        let udf = same();
        let mut rig = rig(op(None, 2), &udf);
        rig.push(all(&[&text, &text])).unwrap();
        let outputs = rig.outputs();
        prop_assert_eq!(&outputs[0], &format!("2:k={text}@0"));
        prop_assert_eq!(&outputs[1], &format!("2:k={text}@1"));
    }
}
