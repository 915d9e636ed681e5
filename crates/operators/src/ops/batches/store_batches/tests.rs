//! What reads of stores in memory return, and what they hide.

use super::*;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMillisecondType};
use stoatflow_core::{Bytes, Epoch, ErrorKind, StoreId};
use stoatflow_plan::{ColumnType, SerdeSpec};
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::{Backend, EpochBatch, Write, session_key, versioned_key, window_key};

const ID: StoreId = StoreId(0);

fn spec(kind: StoreKind) -> Store {
    let builtin = |name: &str| SerdeSpec::Builtin(name.into());
    Store {
        id: ID,
        ordered: false,
        ..Store::new("kept", kind, builtin("string"), builtin("json"))
    }
}

fn query(kind: StoreKind, value: Serde) -> StoreQuery {
    StoreQuery {
        store: spec(kind),
        key: Serde::String,
        value,
        schema: None,
        max_rows: 2,
    }
}

fn stored(time: i64, value: &[u8]) -> Bytes {
    [&time.to_be_bytes()[..], value].concat().into()
}

fn row(key: impl Into<Bytes>, time: i64, value: impl AsRef<[u8]>) -> (Bytes, Bytes) {
    (key.into(), stored(time, value.as_ref()))
}

fn open(rows: Vec<(Bytes, Bytes)>) -> Arc<OpenSnapshot> {
    let backend = MemoryBackend::new(true);
    let writes = rows.into_iter().map(|(key, value)| Write {
        key,
        value: Some(value),
    });
    backend
        .apply(EpochBatch {
            epoch: Epoch(1),
            writes: vec![(ID, writes.collect())],
            ..EpochBatch::default()
        })
        .unwrap();
    OpenSnapshot::new(backend.snapshot(&[ID]).unwrap())
}

fn read(mut batches: StoreBatches) -> Vec<RecordBatch> {
    let schema = batches.schema();
    let mut all = Vec::new();
    while let Some(batch) = batches.next_batch().unwrap() {
        assert_eq!(batch.schema(), schema, "all batches look the same");
        all.push(batch);
    }
    assert!(batches.next_batch().unwrap().is_none(), "over is over");
    all
}

fn names(batches: &StoreBatches) -> Vec<String> {
    let schema = batches.schema();
    let names = schema.fields().iter().map(|field| field.name().clone());
    names.collect()
}

fn texts(batches: &[RecordBatch], column: &str) -> Vec<String> {
    let columns = batches.iter().map(|batch| &batch[column]);
    let texts = columns.flat_map(|column| column.as_string::<i32>().iter());
    texts.map(|text| text.unwrap_or("~").to_owned()).collect()
}

fn numbers(batches: &[RecordBatch], column: &str) -> Vec<i64> {
    let columns = batches.iter().map(|batch| &batch[column]);
    columns
        .flat_map(|column| column.as_primitive::<Int64Type>().values().to_vec())
        .collect()
}

fn times(batches: &[RecordBatch], column: &str) -> Vec<i64> {
    let columns = batches.iter().map(|batch| &batch[column]);
    columns
        .flat_map(|column| {
            let column = column.as_primitive::<TimestampMillisecondType>();
            column.values().to_vec()
        })
        .collect()
}

#[test]
fn a_count_page_by_page() {
    let rows = ["a", "b", "c", "d", "e"].into_iter().zip(1_i64..);
    let rows = rows.map(|(key, n)| row(key, 10 * n, n.to_be_bytes()));
    let asked = query(StoreKind::TimestampedKeyValue, Serde::Int64);
    let batches = asked.ask(open(rows.collect()), Vec::new()).unwrap();
    assert_eq!(names(&batches), ["_key", "value", "_timestamp"]);
    let batches = read(batches);
    let sizes: Vec<_> = batches.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(sizes, [2, 2, 1]);
    assert_eq!(texts(&batches, "_key"), ["a", "b", "c", "d", "e"]);
    assert_eq!(numbers(&batches, "value"), [1, 2, 3, 4, 5]);
    assert_eq!(times(&batches, "_timestamp"), [10, 20, 30, 40, 50]);
}

#[test]
fn an_empty_store_has_the_columns_that_are_known() {
    let asked = query(StoreKind::TimestampedKeyValue, Serde::Int64);
    let batches = asked.ask(open(Vec::new()), Vec::new()).unwrap();
    assert_eq!(names(&batches), ["_key", "value", "_timestamp"]);
    assert!(read(batches).is_empty());
    let asked = query(StoreKind::TimestampedKeyValue, Serde::Json);
    let batches = asked.ask(open(Vec::new()), Vec::new()).unwrap();
    assert_eq!(names(&batches), ["_key", "_timestamp"]);
}

#[test]
fn all_values_tell_the_columns() {
    let rows = vec![
        row("a", 1, r#"{"n":1}"#),
        row("b", 1, r#"{"n":2,"s":null}"#),
        row("c", 1, r#"{"n":2.5}"#),
        row("d", 1, "null"),
        row("e", 1, r#"{"s":"late","key":7}"#),
    ];
    let asked = query(StoreKind::TimestampedKeyValue, Serde::Json);
    let batches = asked.ask(open(rows), Vec::new()).unwrap();
    assert_eq!(names(&batches), ["_key", "n", "s", "key", "_timestamp"]);
    let batches = read(batches);
    let n: Vec<_> = batches
        .iter()
        .flat_map(|b| b["n"].as_primitive::<Float64Type>().iter())
        .collect();
    assert_eq!(n, [Some(1.0), Some(2.0), Some(2.5), None, None]);
    assert_eq!(texts(&batches, "s"), ["~", "~", "~", "~", "late"]);
    assert_eq!(batches[2]["key"].null_count(), 0);
}

#[test]
fn a_schema_says_what_is_read() {
    let mut asked = query(StoreKind::TimestampedKeyValue, Serde::Json);
    asked.schema = Some(vec![Column {
        name: "n".into(),
        kind: ColumnType::Int32,
    }]);
    let rows = vec![
        row("a", 1, r#"{"n":1,"m":[{}]}"#),
        row("b", 1, r#"{"n":2.5}"#),
    ];
    let mut batches = asked.ask(open(rows), Vec::new()).unwrap();
    assert_eq!(names(&batches), ["_key", "n", "_timestamp"]);
    let error = batches.next_batch().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Serde);
    assert!(error.message().contains("'kept'"), "{error}");
    assert!(error.message().contains("the key 'b'"), "{error}");
    assert!(error.next_step().contains("schema="), "{error}");
}

#[test]
fn values_of_two_kinds_have_no_columns() {
    let rows = vec![row("a", 1, r#"{"n":1}"#), row("b", 1, "7")];
    let asked = query(StoreKind::TimestampedKeyValue, Serde::Json);
    let mut batches = asked.ask(open(rows), Vec::new()).unwrap();
    let error = batches.next_batch().unwrap_err();
    assert!(error.message().contains("the key 'b'"), "{error}");
    assert!(error.message().contains("no JSON object"), "{error}");
}

#[test]
fn expired_windows_are_hidden() {
    let kind = StoreKind::Window {
        retention_ms: 100,
        size_ms: 10,
        duplicates: false,
        timestamped: true,
    };
    let rows = || {
        [0_i64, 50, 51, 90]
            .map(|start| {
                row(
                    window_key(60_000, b"k", start, 0),
                    start + 3,
                    start.to_be_bytes(),
                )
            })
            .to_vec()
    };
    let batches = query(kind, Serde::Int64)
        .ask(open(rows()), vec![150])
        .unwrap();
    assert_eq!(
        names(&batches),
        [
            "_key",
            "_window_start",
            "_window_end",
            "value",
            "_timestamp"
        ]
    );
    let shown = read(batches);
    assert_eq!(times(&shown, "_window_start"), [51, 90]);
    assert_eq!(times(&shown, "_window_end"), [61, 100]);
    assert_eq!(texts(&shown, "_key"), ["k", "k"]);
    let all = read(
        query(kind, Serde::Int64)
            .ask(open(rows()), Vec::new())
            .unwrap(),
    );
    assert_eq!(numbers(&all, "value"), [0, 50, 51, 90]);
}

#[test]
fn sessions_are_hidden_by_their_end() {
    let kind = StoreKind::Session { retention_ms: 100 };
    let rows = vec![
        row(session_key(60_000, b"k", 0, 50), 50, 1_i64.to_be_bytes()),
        row(session_key(60_000, b"k", 40, 51), 51, 2_i64.to_be_bytes()),
    ];
    let shown = read(
        query(kind, Serde::Int64)
            .ask(open(rows), vec![150])
            .unwrap(),
    );
    assert_eq!(numbers(&shown, "value"), [2]);
    assert_eq!(times(&shown, "_window_start"), [40]);
    assert_eq!(times(&shown, "_window_end"), [51]);
}

#[test]
fn of_versions_the_latest_is_shown() {
    let version = |key: &[u8], since: i64, value: Option<i64>| {
        let time = value.map_or(i64::MIN, |_| since);
        let value = value.map(|v| v.to_be_bytes().to_vec()).unwrap_or_default();
        row(versioned_key(key, since), time, value)
    };
    let rows = vec![
        version(b"a", 1, Some(1)),
        version(b"a", 2, Some(2)),
        version(b"a", 3, Some(3)),
        version(b"b", 1, Some(4)),
        version(b"b", 2, None),
        version(b"c", 7, Some(5)),
    ];
    let asked = query(StoreKind::Versioned { history_ms: 9 }, Serde::Int64);
    let shown = read(asked.ask(open(rows), Vec::new()).unwrap());
    assert_eq!(texts(&shown, "_key"), ["a", "c"]);
    assert_eq!(numbers(&shown, "value"), [3, 5]);
    assert_eq!(times(&shown, "_timestamp"), [3, 7]);
}

#[test]
fn keys_of_several_types_are_their_text() {
    let mut asked = query(StoreKind::TimestampedKeyValue, Serde::Int64);
    asked.key = Serde::Json;
    let one = || 1_i64.to_be_bytes();
    let rows = vec![row(r#""x""#, 1, one()), row("7", 1, one())];
    let shown = read(asked.ask(open(rows), Vec::new()).unwrap());
    assert_eq!(texts(&shown, "_key"), ["x", "7"]);
}

#[test]
fn a_reader_ends_with_what_it_reads() {
    let snapshot = open(
        (0..9_i64)
            .map(|n| row(vec![b'a'], n, n.to_be_bytes()))
            .collect(),
    );
    let asked = query(StoreKind::TimestampedKeyValue, Serde::Int64);
    let mut batches = asked.ask(Arc::clone(&snapshot), Vec::new()).unwrap();
    snapshot.close();
    let error = batches.next_batch().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.next_step().contains("RUNNING"), "{error}");
}

#[test]
fn stores_of_waiting_rows_have_no_columns() {
    let mut plan = crate::testing::plan(Vec::new());
    plan.stores = vec![spec(StoreKind::TimeOrdered)];
    let ask = |name: &str, rows| StoreQuery::new(&plan, &ForeignCode::default(), name, None, rows);
    let error = ask("kept", 1).unwrap_err();
    assert!(error.message().contains("waits for a time"), "{error}");
    let error = ask("kepd", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error.next_step().contains("did you mean 'kept'?"),
        "{error}"
    );
}
