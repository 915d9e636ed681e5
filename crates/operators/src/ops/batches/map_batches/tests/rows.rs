//! Which record a row comes from, and what happens to records when a call fails.

use super::*;
use stoatflow_core::CustomSerde;

/// Returns these rows of its input, with a row-number column.
fn taking(rows: &'static [i64]) -> Arc<Batches> {
    batches(move |batch| {
        let a = column_of(batch, "a");
        let a = a.as_primitive::<Int64Type>();
        let taken = rows
            .iter()
            .map(|row| a.value(usize::try_from(*row).unwrap_or(0).min(2)) * 10);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(Int64Array::from_iter_values(taken))),
            (
                "_row",
                Arc::new(Int64Array::from_iter_values(rows.iter().copied())),
            ),
        ];
        Ok(vec![RecordBatch::try_from_iter(columns).unwrap()])
    })
}

const THREE: [&str; 3] = [r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":3}"#];

#[test]
fn rows_may_be_dropped_and_repeated() {
    let mut dropping = rig(op(None, 3), &taking(&[0, 2, 2]));
    dropping.push(all(&THREE)).unwrap();
    assert_eq!(
        dropping.outputs(),
        [
            r#"2:k={"a":10}@0"#,
            r#"2:k={"a":30}@2"#,
            r#"2:k={"a":30}@2"#
        ]
    );
    let mut none = rig(op(None, 3), &taking(&[]));
    none.push(all(&THREE)).unwrap();
    assert!(none.outputs().is_empty());
    let mut last = rig(op(None, 3), &taking(&[2]));
    last.push(all(&THREE)).unwrap();
    assert_eq!(last.outputs(), [r#"2:k={"a":30}@2"#]);
}

#[test]
fn rows_must_not_change_places_nor_come_from_nowhere() {
    for (rows, said) in [
        (&[1, 0][..], "row 0 of the input behind row 1"),
        (&[3], "holds 3, but the batch had 3 rows"),
        (&[-1], "holds -1"),
    ] {
        let mut rig = rig(op(None, 3), &taking(rows));
        let error = rig.push(all(&THREE)).unwrap_err();
        assert!(error.message().contains(said), "{error}");
        assert_eq!(
            error.coordinates().function.as_deref(),
            Some("app.py:9 score")
        );
    }
}

#[test]
fn rows_without_a_column_that_says_where_from_must_be_as_many() {
    let two = batches(|batch| {
        let a: ArrayRef = Arc::new(StringArray::from(vec!["x"; batch.num_rows() - 1]));
        Ok(vec![RecordBatch::try_from_iter([("a", a)]).unwrap()])
    });
    let mut rig = rig(op(None, 3), &two);
    let error = rig.push(all(&THREE)).unwrap_err();
    assert!(
        error
            .message()
            .contains("gave 2 rows for 3, and no column '_row'"),
        "{error}"
    );
}

#[test]
fn a_result_may_come_in_parts() {
    let parts = batches(|batch| Ok(vec![batch.slice(0, 1), batch.slice(1, 2)]));
    let mut rig = rig(op(None, 3), &parts);
    rig.push(all(&THREE)).unwrap();
    assert_eq!(rig.outputs().len(), 3);
    let bare = batches(|batch| {
        let batch = batch.project(&[0]).unwrap();
        Ok(vec![batch.slice(0, 2), batch.slice(2, 1)])
    });
    let mut rig = super::rig(op(None, 3), &bare);
    rig.push(all(&THREE)).unwrap();
    assert_eq!(rig.outputs().last().unwrap(), r#"2:k={"a":3}@2"#);
}

#[test]
fn without_a_handler_a_batch_fails_at_its_first_record() {
    let boom = batches(|_| Err(whole("boom")));
    let mut rig = rig(op(None, 3), &boom);
    let error = rig.push(all(&THREE)).unwrap_err();
    assert_eq!(error.message(), "boom");
    assert_eq!(error.coordinates().offset.map(|o| o.0), Some(0));
    assert_eq!(
        error.coordinates().function.as_deref(),
        Some("app.py:9 score")
    );
}

#[test]
fn a_batch_that_fails_is_left_out_as_a_whole_and_called_once() {
    let boom = batches(|_| Err(whole("boom")));
    let letters = Some(Handler::Dlq("letters".into()));
    let mut rig = rig_with(op(None, 3), &boom, letters);
    rig.push(all(&THREE)).unwrap();
    assert!(rig.outputs().is_empty());
    assert_eq!(boom.sizes(), [3]);
    let handled = rig.handled();
    assert_eq!(handled.len(), 3, "each record gets its letter: {handled:?}");
    assert!(
        handled
            .iter()
            .zip(0..)
            .all(|(h, at)| h.ends_with(&format!("letters@{at}")))
    );
}

#[test]
fn a_batch_is_called_again_if_the_handler_says_so() {
    let calls = Arc::new(Mutex::new(0));
    let third = Arc::clone(&calls);
    let udf = batches(move |batch| {
        *third.lock() += 1;
        if *third.lock() < 3 {
            return Err(whole("not yet"));
        }
        Ok(vec![batch.clone()])
    });
    let retry = |times| {
        Some(Handler::Retry(Box::new(RetryHandler {
            times,
            backoff_ms: 0,
            then: Handler::Continue,
        })))
    };
    let mut rig = rig_with(op(None, 3), &udf, retry(2));
    rig.push(all(&THREE)).unwrap();
    assert_eq!(rig.outputs().len(), 3);
    assert_eq!(*calls.lock(), 3);
    *calls.lock() = 0;
    let mut rig = rig_with(op(None, 3), &udf, retry(1));
    rig.push(all(&THREE)).unwrap();
    assert!(rig.outputs().is_empty(), "twice were not enough");
    assert_eq!(*calls.lock(), 2);
}

#[test]
fn a_row_that_is_at_fault_goes_alone() {
    let udf = batches(|batch| {
        let a = column_of(batch, "a");
        let a = a.as_primitive::<Int64Type>();
        match a.values().iter().position(|a| *a == 2) {
            Some(row) => Err(FailedBatch {
                row: Some(row),
                error: Error::user("two is one too many"),
            }),
            None => Ok(vec![batch.clone()]),
        }
    });
    let mut strict = rig(op(None, 3), &udf);
    let error = strict.push(all(&THREE)).unwrap_err();
    assert_eq!(error.coordinates().offset.map(|o| o.0), Some(1));
    let mut lenient = rig_with(op(None, 3), &udf, Some(Handler::Continue));
    lenient.push(all(&THREE)).unwrap();
    assert_eq!(lenient.outputs(), [r#"2:k={"a":1}@0"#, r#"2:k={"a":3}@2"#]);
    assert_eq!(lenient.handled().len(), 1);
}

#[test]
fn many_records_that_do_not_fit_go_at_once() {
    let udf = same();
    let mut rig = rig_with(op(None, 5), &udf, Some(Handler::Continue));
    let values = [r#"{"a":1}"#, "[]", r#"{"a":"x"}"#, r#"{"a":2}"#, "{"];
    rig.push(all(&values)).unwrap();
    assert_eq!(rig.outputs(), [r#"2:k={"a":1}@0"#, r#"2:k={"a":2}@3"#]);
    assert_eq!(rig.handled().len(), 3);
    assert_eq!(udf.sizes(), [2], "called for those that fit");
}

/// An object of the foreign language, and its JSON form, if it has one.
#[derive(Debug)]
struct Object(Option<&'static str>);

impl stoatflow_core::Opaque for Object {
    fn to_json(&self) -> Result<bytes::Bytes> {
        let json = self.0.map(Into::into);
        json.ok_or_else(|| Error::serde("a Socket has no JSON form"))
    }
    fn type_name(&self) -> String {
        "Socket".into()
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn objects_become_json_with_one_attach_for_all_of_them() {
    let object = |json, at| {
        let mut record = of("~", at);
        record.value = Datum::Opaque(Arc::new(Object(json)));
        record
    };
    // Without the first, whose key no sink here can serialize.
    let udf = batches(|batch| Ok(vec![batch.slice(1, batch.num_rows() - 1)]));
    let mut rig = rig_with(op(None, 4), &udf, Some(Handler::Continue));
    let values = [Some(r#"{"a":1}"#), None, Some(r#"{"a":2}"#)];
    let mut records: Vec<_> = values
        .into_iter()
        .zip(0..)
        .map(|(v, t)| object(v, t))
        .collect();
    records[0].key = Datum::List(Arc::new([Datum::Opaque(Arc::new(Object(Some("5"))))]));
    records.push(of(r#"{"a":3}"#, 3));
    rig.push(records).unwrap();
    assert_eq!(rig.outputs(), [r#"2:k={"a":2}@2"#, r#"2:k={"a":3}@3"#]);
    assert_eq!(rig.handled().len(), 1);
    let keys = column_of(&udf.seen.lock()[0], "_key");
    assert_eq!(keys.as_string::<i32>().value(0), "[5]");
    // Once for all four, once more for the remaining ones.
    assert_eq!(udf.scopes.load(Ordering::Relaxed), 2);
    rig.push(all(&[r#"{"a":1}"#; 4])).unwrap();
    assert_eq!(
        udf.scopes.load(Ordering::Relaxed),
        2,
        "JSON needs no interpreter"
    );
}

/// An Avro value, and its bytes.
fn avro(schema_id: Option<u32>) -> (Datum, Vec<u8>) {
    let schema = r#"{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}"#;
    let spec = stoatflow_formats::avro::Spec::new(schema.into(), schema_id, [].into());
    let format = spec.format().unwrap();
    let header: &[u8] = if schema_id.is_some() {
        &[0, 0, 0, 0, 7]
    } else {
        &[]
    };
    let bytes = [header, &[10]].concat();
    (format.decode(&bytes.into()).unwrap(), vec![10])
}

#[test]
fn a_column_of_bytes_holds_what_values_are_written_as() {
    let schema = vec![column("value", ColumnType::Binary)];
    let same = same();
    let mut rig = rig(op(Some(schema), 3), &same);
    let ((plain, bytes), (framed, _)) = (avro(None), avro(Some(7)));
    let records = [plain, framed, Datum::Null].map(|value| {
        let mut record = record("k", "", 0);
        record.value = value;
        record
    });
    // The sink writes JSON, which has no bytes: its error reveals the value.
    let error = rig.push(records.to_vec()).unwrap_err();
    assert!(error.message().contains("a value of type bytes"), "{error}");
    let seen = same.seen.lock();
    let column = seen[0].column_by_name("value").unwrap().as_binary::<i32>();
    assert_eq!(column.value(0), bytes);
    assert_eq!(column.value(1), bytes, "without its header");
    assert!(column.is_null(2));
}

#[test]
fn values_without_bytes_do_not_fit_a_column_of_bytes() {
    let schema = vec![column("value", ColumnType::Binary)];
    let mut rig = rig(op(Some(schema), 1), &same());
    let error = rig.push(vec![of(r#"{"value": "x"}"#, 0)]).unwrap_err();
    assert!(
        error.message().contains("the column 'value' holds bytes"),
        "{error}"
    );
}

/// Avro: bytes in a record, in a list of records and in a union.
fn with_bytes(raw: &[u8], inner: &[u8]) -> Datum {
    let schema = r#"{"type": "record", "name": "R", "fields": [
        {"name": "raw", "type": ["null", "bytes"]},
        {"name": "skipped", "type": "string"},
        {"name": "all", "type": {"type": "array", "items": {"type": "record", "name": "I", "fields": [
            {"name": "id", "type": {"type": "fixed", "name": "F", "size": 2}}]}}}]}"#;
    let spec = stoatflow_formats::avro::Spec::new(schema.into(), None, [].into());
    let mut bytes = vec![2, u8::try_from(raw.len() * 2).unwrap()];
    bytes.extend(raw);
    bytes.extend(b"\x02s\x02");
    bytes.extend(inner);
    bytes.push(0);
    spec.format().unwrap().decode(&bytes.into()).unwrap()
}

#[test]
fn bytes_in_values_are_columns_of_bytes() {
    let id = vec![column("id", ColumnType::Binary)];
    let items = ColumnType::List(Box::new(ColumnType::Struct(id)));
    let given = vec![column("raw", ColumnType::Binary), column("all", items)];
    for schema in [None, Some(given)] {
        let same = same();
        let mut rig = rig(op(schema, 2), &same);
        let mut records = all(&["~", "~"]);
        records[1].value = with_bytes(b"\xff\x01", b"\0\xfe");
        let error = rig.push(records).unwrap_err();
        assert!(error.message().contains("in the member 'raw'"), "{error}");
        let batch = &same.seen.lock()[0];
        let raw = column_of(batch, "raw");
        assert!(raw.is_null(0));
        assert_eq!(raw.as_binary::<i32>().value(1), b"\xff\x01");
        let all = column_of(batch, "all").as_list::<i32>().value(1);
        let ids = all.as_struct().column(0);
        assert_eq!(ids.as_binary::<i32>().value(0), b"\0\xfe");
    }
}

#[test]
fn bytes_are_text_where_a_text_is_asked_for_and_nothing_else() {
    let of = |kind| {
        let same = same();
        let mut rig = rig(op(Some(vec![column("raw", kind)]), 1), &same);
        let mut record = of("~", 0);
        record.value = with_bytes(b"\xff", b"xy");
        let done = rig.push(vec![record]).map(|()| rig.outputs());
        done.map_err(|e| e.message().to_owned())
    };
    assert_eq!(of(ColumnType::String).unwrap(), ["2:k={\"raw\":\"ÿ\"}@0"]);
    let said = of(ColumnType::Int64).unwrap_err();
    let wanted = "the field 'raw' holds bytes where int64 is expected";
    assert!(said.contains(wanted), "{said}");
}
