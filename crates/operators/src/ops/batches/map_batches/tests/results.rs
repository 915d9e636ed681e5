//! Values made from the columns of a result.

use super::*;
use crate::ops::batches::map_batches::result::{ResultContext, values};
use arrow_array::builder::{BinaryBuilder, ListBuilder};
use arrow_array::types::{Int8Type, UInt64Type};
use arrow_array::{
    BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    FixedSizeBinaryArray, FixedSizeListArray, Float32Array, Float64Array, LargeBinaryArray,
    LargeStringArray, ListArray, NullArray, PrimitiveArray, StringViewArray, StructArray,
    Time32SecondArray, TimestampMicrosecondArray, TimestampMillisecondArray, UInt64Array,
};
use stoatflow_core::{Fields, Text};

fn made(columns: Vec<(&str, ArrayRef)>, objects: bool) -> Result<Vec<Datum>, String> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let context = ResultContext {
        rows: batch.num_rows(),
        by_row: "_row",
        objects,
        given: None,
    };
    match values(context, &[batch]) {
        Ok(Ok(values)) => Ok(values.into_iter().map(|(_, value)| value).collect()),
        Ok(Err(failed)) => Err(format!(
            "row {}: {}",
            failed[0].at,
            failed[0].error.message()
        )),
        Err(error) => Err(error.message().to_owned()),
    }
}

fn texts(array: ArrayRef) -> Vec<String> {
    let rows = made(vec![("a", array)], true).unwrap();
    rows.iter().map(word).collect()
}

#[test]
fn every_type_that_json_has_a_form_for() {
    let some = |array: ArrayRef, wanted: &[&str]| {
        let kind = array.data_type().clone();
        let wanted: Vec<_> = wanted.iter().map(|w| format!(r#"{{"a":{w}}}"#)).collect();
        assert_eq!(texts(array), wanted, "{kind}");
    };
    some(Arc::new(NullArray::new(1)), &["null"]);
    some(
        Arc::new(BooleanArray::from(vec![Some(true), None])),
        &["true", "null"],
    );
    some(
        Arc::new(PrimitiveArray::<Int8Type>::from(vec![Some(-1), None])),
        &["-1", "null"],
    );
    some(
        Arc::new(UInt64Array::from(vec![u64::MAX, 1])),
        &["18446744073709551615", "1"],
    );
    some(Arc::new(Float32Array::from(vec![0.1])), &["0.1"]);
    some(
        Arc::new(Float64Array::from(vec![0.1, 1.0])),
        &["0.1", "1.0"],
    );
    some(
        Arc::new(LargeStringArray::from(vec!["\"\u{1}é"])),
        &[r#""\"\u0001é""#],
    );
    some(
        Arc::new(StringViewArray::from(vec![
            "a view that is longer than twelve",
        ])),
        &[r#""a view that is longer than twelve""#],
    );
    let money = Decimal128Array::from(vec![-1205])
        .with_precision_and_scale(9, 2)
        .unwrap();
    some(Arc::new(money), &["-12.05"]);
    some(
        Arc::new(Date32Array::from(vec![0, -1])),
        &[r#""1970-01-01""#, r#""1969-12-31""#],
    );
    let times = TimestampMicrosecondArray::from(vec![1_500_000]);
    some(
        Arc::new(times.clone().with_timezone("Europe/Berlin")),
        &[r#""1970-01-01T00:00:01.5Z""#],
    );
    some(Arc::new(times), &[r#""1970-01-01T00:00:01.5""#]);
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
    ]);
    some(Arc::new(lists.slice(1, 2)), &["null", "[]"]);
    some(Arc::new(lists), &["[1,null]", "null", "[]"]);
    let pairs = FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(
        vec![Some(vec![Some(1), Some(2)]), Some(vec![Some(3), Some(4)])],
        2,
    );
    some(Arc::new(pairs.slice(1, 1)), &["[3,4]"]);
    let words: DictionaryArray<Int8Type> = vec![Some("x"), None, Some("x")].into_iter().collect();
    some(Arc::new(words), &[r#""x""#, "null", r#""x""#]);
    let inner: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let object = StructArray::try_from(vec![("b", inner)]).unwrap();
    some(Arc::new(object), &[r#"{"b":1}"#]);
}

#[test]
fn unsupported_types_are_refused_by_name() {
    let times: ArrayRef = Arc::new(Time32SecondArray::from(vec![1]));
    let said = made(vec![("t", times)], true).unwrap_err();
    assert!(
        said.contains("the column 't' of the result is Time32(s)"),
        "{said}"
    );
    let numbers: ArrayRef = Arc::new(Float64Array::from(vec![1.0, f64::NAN]));
    let said = made(vec![("n", numbers)], true).unwrap_err();
    assert!(
        said.contains("row 1: the column 'n' of the result holds the number NaN"),
        "{said}"
    );
}

/// Rows that have no JSON form, as they are passed to a format with a schema.
#[track_caller]
fn with_bytes(array: ArrayRef, wanted: &[Datum]) {
    let kind = array.data_type().clone();
    let other: ArrayRef = Arc::new(Int64Array::from(vec![7; array.len()]));
    let rows = made(vec![("a", array), ("n", other)], true).unwrap();
    for (row, wanted) in rows.iter().zip(wanted) {
        let Fields(members) = Fields::of(row).expect("no JSON text");
        let wanted = [
            (Text::from("a"), wanted.clone()),
            (Text::from("n"), Datum::Int(7)),
        ];
        assert_eq!(format!("{members:?}"), format!("{wanted:?}"), "{kind}");
    }
    assert_eq!(rows.len(), wanted.len());
}

#[test]
fn bytes_stay_bytes_wherever_they_are() {
    let x = || Datum::Bytes(b"\xff\0"[..].into());
    let some = || vec![Some(&b"\xff\0"[..]), None];
    with_bytes(Arc::new(BinaryArray::from(some())), &[x(), Datum::Null]);
    with_bytes(
        Arc::new(LargeBinaryArray::from(some())),
        &[x(), Datum::Null],
    );
    with_bytes(Arc::new(BinaryViewArray::from(some())), &[x(), Datum::Null]);
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(some().into_iter(), 2);
    with_bytes(Arc::new(fixed.unwrap()), &[x(), Datum::Null]);
    let mut list = ListBuilder::new(BinaryBuilder::new());
    list.append_value([Some(b"\xff\0"), None]);
    list.append_null();
    list.append_value([None::<&[u8]>; 0]);
    let wanted = [vec![x(), Datum::Null].into(), [].into()].map(Datum::List);
    let [items, none] = wanted;
    with_bytes(Arc::new(list.finish()), &[items, Datum::Null, none]);
    let inner: ArrayRef = Arc::new(BinaryArray::from(vec![&b"\xff\0"[..]]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["t"]));
    let object = StructArray::try_from(vec![("b", inner), ("t", texts)]).unwrap();
    let members = vec![(Text::from("b"), x()), (Text::from("t"), text("t"))];
    with_bytes(Arc::new(object), &[Fields(members).datum()]);
}

#[test]
fn a_sink_of_json_says_which_member_is_bytes() {
    let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![&b"x"[..]]));
    let row = made(vec![("b", bytes)], true).unwrap().remove(0);
    let said = stoatflow_core::serde::json_bytes(&row).unwrap_err();
    assert!(said.message().contains("in the member 'b'"), "{said}");
    assert!(said.message().contains("of type bytes"), "{said}");
}

#[test]
fn a_value_alone_is_itself_where_values_were_plain() {
    let one = |array: ArrayRef| made(vec![("value", array)], false).unwrap().remove(0);
    assert_eq!(one(Arc::new(Int64Array::from(vec![1]))), Datum::Int(1));
    assert_eq!(one(Arc::new(StringArray::from(vec!["x"]))), text("x"));
    assert_eq!(
        one(Arc::new(BinaryArray::from(vec![&b"x"[..]]))),
        Datum::Bytes(b"x"[..].into())
    );
    assert_eq!(one(Arc::new(Int64Array::from(vec![None]))), Datum::Null);
    let big: ArrayRef = Arc::new(PrimitiveArray::<UInt64Type>::from(vec![u64::MAX]));
    assert_eq!(word(&one(big)), u64::MAX.to_string());
    let array: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let object = made(vec![("value", Arc::clone(&array))], true)
        .unwrap()
        .remove(0);
    assert_eq!(word(&object), r#"{"value":1}"#, "objects stay objects");
    let two = made(vec![("value", Arc::clone(&array)), ("b", array)], false).unwrap();
    assert_eq!(word(&two[0]), r#"{"value":1,"b":1}"#);
}

#[test]
fn columns_of_every_batch_and_of_pandas_are_no_members() {
    let a = || -> ArrayRef { Arc::new(Int64Array::from(vec![0])) };
    let names = ["_key", "_timestamp", "_window_start", "_window_end", "_row"];
    let mut columns: Vec<_> = names.iter().map(|name| (*name, a())).collect();
    columns.push(("__index_level_0__", a()));
    columns.push(("_other", a()));
    assert_eq!(word(&made(columns, true).unwrap()[0]), r#"{"_other":0}"#);
    let twice = made(vec![("a", a()), ("a", a())], true).unwrap_err();
    assert!(twice.contains("the column 'a' twice"), "{twice}");
}

/// Checks a batch of three rows against a result with these columns; returns the error's message.
fn kept(columns: Vec<(&str, ArrayRef)>) -> Result<usize, String> {
    let times = |all: Vec<i64>| TimestampMillisecondArray::from(all).with_timezone("UTC");
    let keys: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("c")]));
    let given: [(&str, ArrayRef); 2] = [
        ("_key", keys),
        ("_timestamp", Arc::new(times(vec![1, 2, 3]))),
    ];
    let given = RecordBatch::try_from_iter_with_nullable(given.map(|(n, c)| (n, c, true))).unwrap();
    let made = columns
        .into_iter()
        .map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(made).unwrap();
    let context = ResultContext {
        rows: 3,
        by_row: "_row",
        objects: true,
        given: Some(&given),
    };
    match values(context, &[batch]) {
        Ok(made) => Ok(made.expect("values").len()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn another_key_or_time_is_refused() {
    let keys = |all: &[Option<&str>]| -> ArrayRef { Arc::new(StringArray::from(all.to_vec())) };
    let large =
        |all: &[Option<&str>]| -> ArrayRef { Arc::new(LargeStringArray::from(all.to_vec())) };
    let views =
        |all: &[Option<&str>]| -> ArrayRef { Arc::new(StringViewArray::from(all.to_vec())) };
    let times = |all: &[i64]| -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from(all.to_vec()).with_timezone("UTC"))
    };
    let rows = |all: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(all.to_vec())) };
    let (a, c) = (Some("a"), Some("c"));
    for column in [
        keys(&[a, None, c]),
        large(&[a, None, c]),
        views(&[a, None, c]),
    ] {
        assert_eq!(kept(vec![("_key", column)]), Ok(3));
    }
    assert_eq!(
        kept(vec![("_key", keys(&[c, c])), ("_row", rows(&[2, 2]))]),
        Ok(2)
    );
    assert_eq!(
        kept(vec![
            ("_timestamp", times(&[1, 2, 3])),
            ("n", rows(&[7, 8, 9]))
        ]),
        Ok(3)
    );
    assert_eq!(
        kept(vec![("_timestamp", times(&[2])), ("_row", rows(&[1]))]),
        Ok(1)
    );
    // Converted to another type: not checked.
    assert_eq!(kept(vec![("_key", rows(&[1, 2, 3]))]), Ok(3));

    for column in [
        keys(&[a, None, a]),
        large(&[a, None, a]),
        views(&[a, None, a]),
        keys(&[a, None, None]),
    ] {
        let said = kept(vec![("_key", column)]).unwrap_err();
        assert!(
            said.contains("another '_key' in its row 2 than the row 2"),
            "{said}"
        );
        assert!(said.contains("select_key"), "{said}");
    }
    let said = kept(vec![("_key", keys(&[a, a, c]))]).unwrap_err();
    assert!(said.contains("in its row 1"), "{said}");
    let said = kept(vec![("_key", keys(&[c])), ("_row", rows(&[0]))]).unwrap_err();
    assert!(said.contains("in its row 0 than the row 0"), "{said}");
    let said = kept(vec![("_timestamp", times(&[1, 2, 4]))]).unwrap_err();
    assert!(said.contains("another '_timestamp' in its row 2"), "{said}");
    // The same number of rows in another order, without row numbers.
    let said = kept(vec![("_key", keys(&[c, None, a]))]).unwrap_err();
    assert!(
        said.contains("keep '_row' where rows change places"),
        "{said}"
    );
}
