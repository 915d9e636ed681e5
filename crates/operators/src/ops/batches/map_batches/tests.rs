//! Batches: when they are emitted, their columns, and how values that don't fit are handled.

mod iso8601;
mod results;
mod rows;
mod sinks;

use super::layout::Shared;
use crate::testing::*;
use crate::{Args, Failed, FailedBatch, Udf};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use stoatflow_core::{Datum, Error, ErrorKind, Handler, Record, Result, RetryHandler, Timestamp};
use stoatflow_plan::{Column, ColumnType, Function, Op};

type Body = Box<dyn Fn(&RecordBatch) -> Result<Vec<RecordBatch>, FailedBatch> + Send + Sync>;

/// A function of batches that is a closure, and the batches that it was called with.
struct Batches {
    body: Body,
    seen: Mutex<Vec<RecordBatch>>,
    scopes: AtomicUsize,
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Batches")
    }
}

impl Udf for Batches {
    fn name(&self) -> &str {
        "app.py:9 score"
    }
    fn one(&self, _: Args, _: &[Record], _: &mut Vec<Datum>) -> Result<(), Failed> {
        panic!("it takes batches")
    }
    fn columns(&self, batch: RecordBatch) -> Result<Vec<RecordBatch>, FailedBatch> {
        let made = (self.body)(&batch);
        self.seen.lock().push(batch);
        made
    }
    fn columns_effect(&self, batch: RecordBatch) -> Result<(), FailedBatch> {
        self.columns(batch).map(drop)
    }
    fn scope(&self, body: &mut dyn FnMut()) {
        self.scopes.fetch_add(1, Ordering::Relaxed);
        body();
    }
}

impl Batches {
    fn sizes(&self) -> Vec<usize> {
        self.seen.lock().iter().map(RecordBatch::num_rows).collect()
    }
}

fn batches(
    body: impl Fn(&RecordBatch) -> Result<Vec<RecordBatch>, FailedBatch> + Send + Sync + 'static,
) -> Arc<Batches> {
    Arc::new(Batches {
        body: Box::new(body),
        seen: Mutex::default(),
        scopes: AtomicUsize::default(),
    })
}

/// Returns its input.
fn same() -> Arc<Batches> {
    batches(|batch| Ok(vec![batch.clone()]))
}

fn whole(message: &str) -> FailedBatch {
    FailedBatch {
        row: None,
        error: Error::user(message),
    }
}

fn op(schema: Option<Vec<Column>>, max_rows: u32) -> Op {
    Op::MapBatches {
        function: Function::Udf(0),
        schema,
        max_rows,
        max_wait_ms: 50,
        by_row: "_row".into(),
    }
}

fn column(name: &str, kind: ColumnType) -> Column {
    Column {
        name: name.into(),
        kind,
    }
}

/// A chain that ends in a sink of JSON.
fn rig(op: Op, udf: &Arc<Batches>) -> Rig {
    rig_with(op, udf, None)
}

fn rig_with(op: Op, udf: &Arc<Batches>, handler: Option<Handler>) -> Rig {
    let change = |plan: &mut stoatflow_plan::PhysicalPlan| plan.nodes[0].on_error = handler;
    Rig::changed(into_sink(op, 2), vec![Arc::clone(udf) as _], change).expect("a chain")
}

fn of(value: &str, timestamp: i64) -> Record {
    let mut record = record("k", "", timestamp);
    record.value = match value {
        "~" => Datum::Null,
        value => json(value),
    };
    record
}

/// Records of these values, at 0, 1, 2...
fn all(values: &[&str]) -> Vec<Record> {
    values.iter().zip(0..).map(|(v, at)| of(v, at)).collect()
}

fn column_of(batch: &RecordBatch, name: &str) -> ArrayRef {
    let found = batch.column_by_name(name);
    Arc::clone(found.unwrap_or_else(|| panic!("no column {name} in {:?}", batch.schema())))
}

#[test]
fn collects_over_calls_and_gives_when_full() {
    let udf = same();
    let mut rig = rig(op(None, 3), &udf);
    rig.push(all(&[r#"{"a":1}"#, r#"{"a":2}"#])).unwrap();
    assert!(rig.outputs().is_empty(), "two of three rows wait");
    rig.push(all(&[r#"{"a":3}"#, r#"{"a":4}"#])).unwrap();
    assert_eq!(
        rig.outputs(),
        [r#"2:k={"a":1}@0"#, r#"2:k={"a":2}@1"#, r#"2:k={"a":3}@0"#]
    );
    assert_eq!(udf.sizes(), [3]);
}

#[test]
fn one_push_may_make_many_batches() {
    let udf = same();
    let mut rig = rig(op(None, 2), &udf);
    rig.push(all(&[r#"{"a":1}"#; 5])).unwrap();
    assert_eq!(udf.sizes(), [2, 2]);
    assert_eq!(rig.outputs().len(), 4);
}

#[test]
fn nothing_outlives_the_barrier_and_an_empty_batch_is_not_called_for() {
    let udf = same();
    let mut rig = rig(op(None, 100), &udf);
    rig.push(all(&[r#"{"a":1}"#])).unwrap();
    rig.barrier();
    assert_eq!(rig.outputs(), [r#"2:k={"a":1}@0"#]);
    rig.barrier();
    assert_eq!(udf.sizes(), [1]);
}

#[test]
fn rows_that_wait_too_long_are_passed_on_and_the_engine_knows_when() {
    let udf = same();
    let mut rig = rig(op(None, 100), &udf);
    let next = |rig: &Rig| rig.run.next_batch();
    assert_eq!(next(&rig), i64::MAX, "nobody waits");
    rig.clocks.wall = Timestamp(1000);
    rig.push(all(&[r#"{"a":1}"#])).unwrap();
    assert_eq!(next(&rig), 1050);
    rig.clocks.wall = Timestamp(1049);
    rig.push(all(&[r#"{"a":2}"#])).unwrap();
    assert_eq!(next(&rig), 1050, "the first one's time counts");
    assert!(rig.outputs().is_empty());
    rig.clocks.wall = Timestamp(1050);
    rig.push(all(&[r#"{"a":3}"#])).unwrap();
    assert_eq!(rig.outputs().len(), 3);
    assert_eq!(next(&rig), i64::MAX);
    rig.push(all(&[r#"{"a":4}"#])).unwrap();
    assert_eq!(next(&rig), 1100);
    rig.barrier();
    assert_eq!(next(&rig), i64::MAX);
}

#[test]
fn long_values_do_not_gather_beyond_a_bound_of_bytes() {
    let udf = same();
    let mut rig = rig(op(None, 100_000), &udf);
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(1 << 20));
    rig.push(all(&[long.as_str(); 5])).unwrap();
    assert_eq!(udf.sizes(), [4], "four values of a megabyte are enough");
}

#[test]
fn a_batch_has_columns_for_members_key_time_and_row() {
    let udf = same();
    let mut rig = rig(op(None, 3), &udf);
    rig.push(all(&[
        r#"{"n":1,"t":"x","l":[1,2],"o":{"b":true}}"#,
        r#"{"t":null,"o":{"b":false,"c":0.5}}"#,
        "~",
    ]))
    .unwrap();
    let seen = udf.seen.lock();
    let fields: Vec<_> = seen[0]
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    assert_eq!(fields, ["n", "t", "l", "o", "_key", "_timestamp", "_row"]);
    let n = column_of(&seen[0], "n");
    let n = n.as_primitive::<Int64Type>();
    assert_eq!(n.iter().collect::<Vec<_>>(), [Some(1), None, None]);
    assert_eq!(column_of(&seen[0], "o").as_struct().num_columns(), 2);
    let rows = column_of(&seen[0], "_row");
    assert_eq!(rows.as_primitive::<Int64Type>().values(), &[0, 1, 2]);
    let times = column_of(&seen[0], "_timestamp");
    let times = times.as_primitive::<TimestampMillisecondType>();
    assert_eq!(times.values(), &[0, 1, 2]);
    assert_eq!(times.timezone(), Some("UTC"));
    assert_eq!(column_of(&seen[0], "_key").as_string::<i32>().value(0), "k");
    assert_eq!(
        rig.outputs(),
        [
            r#"2:k={"n":1,"t":"x","l":[1,2],"o":{"b":true,"c":null}}@0"#,
            r#"2:k={"n":null,"t":null,"l":null,"o":{"b":false,"c":0.5}}@1"#,
            r#"2:k={"n":null,"t":null,"l":null,"o":null}@2"#,
        ]
    );
}

#[test]
fn plain_values_are_one_column_and_stay_plain() {
    let udf = same();
    let mut rig = rig(op(None, 2), &udf);
    let mut records = all(&["~", "~"]);
    records[0].value = Datum::Int(7);
    records[1].key = Datum::Null;
    rig.push(records).unwrap();
    let outputs = std::mem::take(&mut rig.effects.outputs);
    assert_eq!(outputs[0].value.as_deref(), Some(&b"7"[..]));
    assert_eq!(outputs[1].value, None, "null stays null");
    let seen = udf.seen.lock();
    assert_eq!(seen[0].schema().field(0).name(), "value");
    let keys = column_of(&seen[0], "_key");
    assert_eq!(keys.as_string::<i32>().value(0), "k");
    assert!(keys.is_null(1));
}

#[test]
fn keys_are_what_they_are_and_json_keys_their_text() {
    let seen = |key: Datum| {
        let udf = same();
        let mut rig = rig(op(None, 1), &udf);
        let mut record = of(r#"{"a":1}"#, 5);
        record.key = key;
        // The sink of the rig can't serialize such keys: only the call matters.
        let _ = rig.push(vec![record]);
        column_of(&udf.seen.lock()[0], "_key")
    };
    let number = seen(Datum::Int(3));
    assert_eq!(number.as_primitive::<Int64Type>().value(0), 3);
    let bytes = seen(Datum::Bytes(b"x"[..].into()));
    assert_eq!(bytes.as_binary::<i32>().value(0), b"x");
    assert_eq!(
        seen(json(r#"{"b":1}"#)).as_string::<i32>().value(0),
        r#"{"b":1}"#
    );
    assert_eq!(seen(json("[1,2]")).as_string::<i32>().value(0), "[1,2]");
    assert_eq!(seen(json("\"x\"")).as_string::<i32>().value(0), "x");
}

#[test]
fn a_windowed_key_brings_its_window_along() {
    let udf = same();
    let mut rig = rig(op(None, 1), &udf);
    let mut record = of(r#"{"a":1}"#, 5);
    record.key = Datum::windowed(text("k"), 0, 10);
    // The sink of the rig can't serialize windows: only the call matters.
    let _ = rig.push(vec![record]);
    let seen = udf.seen.lock();
    assert_eq!(column_of(&seen[0], "_key").as_string::<i32>().value(0), "k");
    let end = column_of(&seen[0], "_window_end");
    assert_eq!(end.as_primitive::<TimestampMillisecondType>().value(0), 10);
}

fn refused(schema: Option<Vec<Column>>, values: &[&str]) -> Error {
    let udf = same();
    let mut rig = rig(op(schema, u32::try_from(values.len()).unwrap()), &udf);
    let error = rig.push(all(values)).expect_err("one doesn't fit");
    assert!(udf.sizes().is_empty(), "nothing was called");
    error
}

#[test]
fn a_type_conflict_names_record_and_field() {
    let error = refused(None, &[r#"{"a":{"b":1}}"#, r#"{"a":{"b":"x"}}"#]);
    assert_eq!(error.kind(), ErrorKind::User);
    assert!(
        error
            .message()
            .contains("the field 'a.b' holds the text \"x\" where int64"),
        "{error}"
    );
    assert!(error.next_step().contains("schema="), "{error}");
    let at = error.coordinates();
    assert_eq!(at.offset.map(|o| o.0), Some(1));
    assert_eq!(at.node.as_deref(), Some("map_batches-0"));
    let schema = || Some(vec![column("a", ColumnType::Int8)]);
    for (value, found) in [
        (r#"{"a":300}"#, "the number 300"),
        (r#"{"a":1.5}"#, "the number 1.5"),
        (r#"{"a":"1"}"#, "the text \"1\""),
        (r#"{"a":true}"#, "true"),
        (r#"{"a":[1]}"#, "a list"),
        (r#"{"a":{}}"#, "an object"),
    ] {
        let error = refused(schema(), &[value]);
        let wanted = format!("holds {found} where int8 is expected");
        assert!(error.message().contains(&wanted), "{error}");
    }
    let broken = refused(schema(), &[r#"{"a":1"#]);
    assert_eq!(broken.kind(), ErrorKind::Serde);
    let list = refused(schema(), &["[1]"]);
    assert!(list.message().contains("no JSON object but [1]"), "{list}");
}

#[test]
fn inferred_types_stay_and_only_nulls_get_a_type_later() {
    let udf = same();
    let mut rig = rig(op(None, 1), &udf);
    rig.push(all(&[r#"{"a":1,"b":null}"#])).unwrap();
    rig.push(all(&[r#"{"a":2,"b":"x"}"#])).unwrap();
    rig.push(all(&[r#"{"b":"y","a":null}"#])).unwrap();
    assert_eq!(rig.outputs().last().unwrap(), r#"2:k={"a":null,"b":"y"}@0"#);
    let new = rig.push(all(&[r#"{"a":1,"c":1}"#])).unwrap_err();
    assert!(
        new.message()
            .contains("the field 'c' is new: the first batch had a: Int64, b: Utf8"),
        "{new}"
    );
    let mut rig = rig_with(op(None, 1), &udf, Some(Handler::Continue));
    rig.push(all(&[r#"{"a":1}"#, r#"{"a":1.5}"#, r#"{"a":2}"#]))
        .unwrap();
    assert_eq!(rig.outputs(), [r#"2:k={"a":1}@0"#, r#"2:k={"a":2}@2"#]);
    assert_eq!(rig.handled().len(), 1);
}

#[test]
fn columns_that_are_given_are_the_ones_that_are_read() {
    let udf = same();
    let schema = vec![
        column("b", ColumnType::Float32),
        column("z", ColumnType::String),
    ];
    let mut rig = rig(op(Some(schema), 1), &udf);
    rig.push(all(&[r#"{"a":1,"b":1,"more":{"x":[{}]}}"#]))
        .unwrap();
    assert_eq!(rig.outputs(), [r#"2:k={"b":1.0,"z":null}@0"#]);
}

#[test]
fn lanes_share_what_they_know() {
    let shared = Arc::new(Shared::new(super::Layout::new(None)));
    let mut lanes =
        [0, 1].map(|_| super::batch::Reader::new(Arc::clone(&shared), "_row", 8, &super::OPERATOR));
    let read =
        |lane: &mut super::batch::Reader, value: &str| lane.read(&all(&[value]), None).unwrap();
    let first = read(&mut lanes[0], r#"{"a":1.5}"#).unwrap();
    let second = read(&mut lanes[1], r#"{"a":1}"#).unwrap();
    assert_eq!(first.schema(), second.schema());
}

#[test]
fn a_member_that_stands_twice_counts_once() {
    let udf = same();
    let mut rig = rig(op(None, 2), &udf);
    rig.push(all(&[
        r#"{"a":1,"b":[1,2],"a":2,"b":[3]}"#,
        r#"{"b":[4],"a":5}"#,
    ]))
    .unwrap();
    assert_eq!(
        rig.outputs(),
        [r#"2:k={"a":2,"b":[3]}@0"#, r#"2:k={"a":5,"b":[4]}@1"#]
    );
}

#[test]
fn a_name_that_each_batch_has_is_refused_as_a_member() {
    let error = refused(None, &[r#"{"a":1,"_row":2}"#]);
    assert!(error.message().contains("has a member '_row'"), "{error}");
}
