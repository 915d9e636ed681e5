use super::build::{Unbuilt, chunk, find_unbuilt};
use super::build_at_start::build_now;
use super::state::{IndexState, IndexStatus, STATE_KEY};
use super::{Index, StoreIndexes, UniqueGuard, entry_key};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use stoatflow_core::{Datum, Epoch, Offset, Partition, Result, Serde, StoreId, Timestamp};
use stoatflow_operators::ForeignCode;
use stoatflow_operators::indexing::{IndexFields, RowReader, fingerprint};
use stoatflow_plan::{IndexSpec, SerdeSpec, Store, StoreKind};
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::rocksdb::RocksBackend;
use stoatflow_state::{
    Backend, Dirty, EpochBatch, KeyRange, KeyValueStore, RestoreRun, Sealed, StoreLayout, Stored,
    WriteGuard,
};

const ROWS: StoreId = StoreId(0);

fn member(name: &str) -> Value {
    json!({"expr": {"op": "get", "args": [{"op": "value"}], "name": name}})
}

/// A store of JSON.
fn docs() -> Store {
    let serde = |name: &str| SerdeSpec::Builtin(name.into());
    let kind = StoreKind::TimestampedKeyValue;
    Store::new("docs", kind, serde("string"), serde("json"))
}

fn indexes(specs: &[Value]) -> Arc<StoreIndexes> {
    let mut store = docs();
    let decoded = specs.iter().cloned().map(serde_json::from_value);
    store.indexes = decoded.collect::<Result<_, _>>().unwrap();
    let numbered = (1..).zip(specs);
    let made = numbered.map(|(id, spec)| {
        let spec: IndexSpec = serde_json::from_value(spec.clone()).unwrap();
        Index {
            id: StoreId(id),
            status: Arc::new(IndexStatus::new("docs", &spec.name)),
            fields: IndexFields::new(&spec).unwrap(),
            fingerprint: fingerprint(&spec, &store),
            spec,
        }
    });
    Arc::new(StoreIndexes {
        store: ROWS,
        indexes: made.collect(),
        name: "docs".into(),
        rows: RowReader::new(&store, &ForeignCode::default()).unwrap(),
        emptied: false.into(),
    })
}

fn three() -> Arc<StoreIndexes> {
    indexes(&[
        json!({"name": "by_a", "fields": [member("a")]}),
        json!({"name": "by_tag", "fields": [member("tags")], "each": true}),
        json!({"name": "by_b_a", "fields": [member("b"), member("a")], "storing": [member("tags")]}),
    ])
}

fn memory() -> Arc<dyn Backend> {
    Arc::new(MemoryBackend::new(true))
}

fn rocks(dir: &std::path::Path, of: &StoreIndexes) -> Arc<dyn Backend> {
    let names = of.indexes.iter().map(|i| format!("docs/{}", i.spec.name));
    let names = std::iter::once("docs".to_owned()).chain(names);
    let layouts: Vec<StoreLayout> = (0..)
        .zip(names)
        .map(|(id, name)| StoreLayout {
            id: StoreId(id),
            name,
            format: "test".into(),
            rocksdb: stoatflow_core::RocksDbOptions::default(),
        })
        .collect();
    Arc::new(RocksBackend::open(dir, &layouts, 8 << 20).unwrap())
}

fn store(backend: &Arc<dyn Backend>) -> KeyValueStore {
    KeyValueStore::new(ROWS, "docs".into(), Serde::Json, Arc::clone(backend), 4096)
}

fn value(json: &str) -> Option<Stored> {
    Some(Stored {
        value: Datum::Json(Bytes::copy_from_slice(json.as_bytes())),
        timestamp: Timestamp(7),
    })
}

/// Applies the writes of an epoch, of rows and indexes.
fn apply(backend: &Arc<dyn Backend>, epoch: Epoch, all: &[(StoreId, Vec<Sealed>)]) {
    let writes = all
        .iter()
        .map(|(id, all)| (*id, all.iter().map(KeyValueStore::stored_bytes).collect()));
    let batch = EpochBatch {
        epoch,
        writes: writes.collect(),
        ..EpochBatch::default()
    };
    backend.apply(batch).unwrap();
}

/// Compares an index with its rows up to its cursor.
fn compare(backend: &Arc<dyn Backend>, of: &StoreIndexes) -> Result<()> {
    let all = KeyRange::default();
    let rows = backend.scan(ROWS, &all, usize::MAX)?;
    // Without indexes it reads whole values.
    let reader = RowReader::new(&docs(), &ForeignCode::default())?;
    for index in &of.indexes {
        let state = IndexState::of(backend.as_ref(), index.id, index.fingerprint)?;
        let mut expected = BTreeSet::new();
        for (key, stored) in &rows {
            let row = reader.record(key, stored.slice(8..), Timestamp(7));
            for (entry, kept) in index.entries(Some(&row), false) {
                expected.insert((entry_key(&entry, key), kept));
            }
        }
        let found = backend.scan(index.id, &all, usize::MAX)?;
        let found = found.into_iter().filter(|(key, _)| key != STATE_KEY);
        let found: BTreeSet<(Bytes, Bytes)> =
            found.map(|(key, value)| (key, value.slice(8..))).collect();
        let name = &index.spec.name;
        match state {
            Some(IndexState::Building(cursor)) => {
                let wrong: Vec<_> = found.difference(&expected).collect();
                assert!(wrong.is_empty(), "{name}: {wrong:?}");
                let reached = |(entry, _): &&(Bytes, Bytes)| {
                    let width = index.fields.width();
                    let split = stoatflow_operators::indexing::split_entry(entry, width);
                    let (_, key) = split.unwrap();
                    cursor.as_ref().is_some_and(|cursor| key <= &cursor[..])
                };
                let missing: Vec<_> = expected.difference(&found).filter(reached).collect();
                assert!(missing.is_empty(), "{name}: {missing:?}");
            }
            _ => assert_eq!(found, expected, "{name}"),
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    /// In the open epoch, or in the next one.
    Write {
        next: bool,
        key: u8,
        value: Option<String>,
    },
    Seal,
    Apply,
    /// Builds this many rows.
    Build(usize),
    /// Loses what isn't applied.
    Crash,
    /// A crash, and a changelog record that the store lacks.
    Restore {
        key: u8,
        value: Option<String>,
    },
}

fn document() -> impl Strategy<Value = Option<String>> {
    let part = prop_oneof![
        Just("null".to_owned()),
        (0..3i64).prop_map(|n| n.to_string()),
        "[xy]{0,1}".prop_map(|t| format!("{t:?}")),
        Just("{}".to_owned()),
    ];
    let tags = proptest::collection::vec(part.clone(), 0..3);
    // Members that no index reads, in front of others, and text that ends too early.
    let (note, cut) = (
        prop_oneof![Just(0), Just(300)],
        prop_oneof![9 => Just(0), 1 => 1..40usize],
    );
    prop_oneof![
        1 => Just(None),
        5 => (part.clone(), part, tags, note, cut).prop_map(|(a, b, tags, note, cut)| {
            let (tags, note) = (tags.join(","), "n".repeat(note));
            let mut text = format!(r#"{{"a": {a}, "note": "{note}", "b": {b}, "tags": [{tags}]}}"#);
            text.truncate(text.len() - cut.min(text.len()));
            Some(text)
        }),
        1 => Just(Some("5".to_owned())),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any::<bool>(), 0..6u8, document())
            .prop_map(|(next, key, value)| Step::Write { next, key, value }),
        2 => Just(Step::Seal),
        2 => Just(Step::Apply),
        2 => (1..4usize).prop_map(Step::Build),
        1 => Just(Step::Crash),
        1 => (0..6u8, document()).prop_map(|(key, value)| Step::Restore { key, value }),
    ]
}

/// A run: the open epoch, its writes, and what is sealed.
struct Run {
    store: KeyValueStore,
    open: Epoch,
    dirty: [Dirty; 2],
    sealed: Option<Vec<(StoreId, Vec<Sealed>)>>,
    unbuilt: Option<Unbuilt>,
}

fn begin(backend: &Arc<dyn Backend>, of: &Arc<StoreIndexes>) -> Run {
    Run {
        store: store(backend),
        open: Epoch(1),
        dirty: Default::default(),
        sealed: None,
        unbuilt: find_unbuilt(backend.as_ref(), of).unwrap(),
    }
}

fn play(backend: &Arc<dyn Backend>, of: &Arc<StoreIndexes>, steps: Vec<Step>) {
    let mut run = begin(backend, of);
    for step in steps {
        match step {
            Step::Write {
                next,
                key,
                value: json,
            } => {
                let epoch = if next { run.open.next() } else { run.open };
                let dirty = &mut run.dirty[usize::from(next)];
                let key = Bytes::from(vec![b'a' + key]);
                let stored = json.as_deref().and_then(value);
                run.store.put(epoch, dirty, &key, stored).unwrap();
            }
            Step::Seal if run.sealed.is_none() => {
                let [dirty, next] = std::mem::take(&mut run.dirty);
                let sealed = run.store.seal(run.open, dirty).unwrap();
                let mut all = of.changes(&run.store, run.open, &sealed).unwrap();
                all.push((ROWS, sealed));
                run.sealed = Some(all);
                run.dirty = [next, Dirty::default()];
                run.open = run.open.next();
            }
            Step::Apply => {
                let Some(sealed) = run.sealed.take() else {
                    continue;
                };
                let epoch = Epoch(run.open.0 - 1);
                apply(backend, epoch, &sealed);
                run.store.committed(epoch);
            }
            Step::Build(rows) => {
                if let Some(unbuilt) = &mut run.unbuilt
                    && chunk(backend.as_ref(), unbuilt, rows).unwrap()
                {
                    run.unbuilt = None;
                }
            }
            Step::Crash => run = begin(backend, of),
            Step::Restore { key, value } => {
                let mut records = RestoreRun::default();
                let parts = value.as_ref().map(|v| [&[0u8; 8][..], v.as_bytes()]);
                records.push(&[&[b'a' + key]], parts.as_ref().map(|p| &p[..]));
                let positions = [(Partition(0), Offset(9))];
                if of.restoring(backend.as_ref(), 1, false).unwrap() {
                    of.load(backend.as_ref(), &records, &positions).unwrap();
                } else {
                    backend.bulk_load(ROWS, records, &positions).unwrap();
                }
                run = begin(backend, of);
            }
            Step::Seal => {}
        }
        compare(backend, of).unwrap();
    }
    if let Some(unbuilt) = &run.unbuilt {
        assert!(build_now(backend.as_ref(), unbuilt, || false).unwrap());
    }
    compare(backend, of).unwrap();
    for index in &of.indexes {
        let state = IndexState::of(backend.as_ref(), index.id, index.fingerprint).unwrap();
        assert_eq!(state, Some(IndexState::Readable));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_index_equals_its_store_in_memory(steps in proptest::collection::vec(step(), 0..40)) {
        play(&memory(), &three(), steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn an_index_equals_its_store_on_disk(steps in proptest::collection::vec(step(), 20..60)) {
        let dir = tempfile::tempdir().unwrap();
        let of = three();
        play(&rocks(dir.path(), &of), &of, steps);
    }
}

#[test]
fn another_declaration_is_built_anew() {
    let backend = memory();
    let build = |of: &Arc<StoreIndexes>| {
        let unbuilt = find_unbuilt(backend.as_ref(), of).unwrap().unwrap();
        assert!(build_now(backend.as_ref(), &unbuilt, || false).unwrap());
    };
    let put = KeyValueStore::stored_bytes(&Sealed {
        key: Bytes::from_static(b"k"),
        value: Some(Bytes::from_static(br#"{"a": 1, "b": 2}"#)),
        timestamp: Timestamp(1),
        changelog: true,
    });
    backend.restore(ROWS, vec![put], &[]).unwrap();
    let first = indexes(&[json!({"name": "by", "fields": [member("a")]})]);
    build(&first);
    assert!(find_unbuilt(backend.as_ref(), &first).unwrap().is_none());
    let second = indexes(&[json!({"name": "by", "fields": [member("b")]})]);
    build(&second);
    compare(&backend, &second).unwrap();
}

fn unique() -> Arc<StoreIndexes> {
    indexes(&[json!({"name": "by_mail", "fields": [member("mail")], "unique": true})])
}

fn mail(text: &str) -> Option<Stored> {
    value(&format!(r#"{{"mail": {text}}}"#))
}

#[test]
fn a_value_of_a_unique_index_has_one_row() {
    let (backend, of) = (memory(), unique());
    let guard = UniqueGuard::new(&of, &backend).unwrap();
    let store = store(&backend);
    let mut dirty = Dirty::default();
    let mut put = |epoch: u64, key: &'static str, value: Option<Stored>| {
        let (epoch, key) = (Epoch(epoch), Bytes::from_static(key.as_bytes()));
        guard.admit(&store, epoch, &key, value.as_ref())?;
        store.put(epoch, &mut dirty, &key, value)
    };
    put(1, "ann", mail("\"x\"")).unwrap();
    put(1, "ann", mail("\"x\"")).unwrap();
    let error = put(1, "bob", mail("\"x\"")).unwrap_err().to_string();
    assert!(
        error.contains("\"ann\"") && error.contains("\"bob\""),
        "{error}"
    );
    // Null and values without an order may occur any number of times.
    put(1, "cyd", mail("null")).unwrap();
    put(1, "dan", mail("null")).unwrap();
    put(1, "eve", mail("{}")).unwrap();
    put(1, "fay", mail("{}")).unwrap();
    // A row that changes its value releases the old one.
    put(1, "ann", mail("\"y\"")).unwrap();
    put(1, "bob", mail("\"x\"")).unwrap();
    // Released by the next epoch only: this epoch can't use it.
    put(2, "bob", None).unwrap();
    assert!(put(1, "gus", mail("\"x\"")).is_err());
    put(2, "gus", mail("\"x\"")).unwrap();
}

#[test]
fn a_committed_value_is_asked_of_the_index() {
    let (backend, of) = (memory(), unique());
    let guard = UniqueGuard::new(&of, &backend).unwrap();
    let store = store(&backend);
    let mut dirty = Dirty::default();
    let key = Bytes::from_static(b"ann");
    guard
        .admit(&store, Epoch(1), &key, mail("5").as_ref())
        .unwrap();
    store.put(Epoch(1), &mut dirty, &key, mail("5")).unwrap();
    let sealed = store.seal(Epoch(1), dirty).unwrap();
    let mut all = of.changes(&store, Epoch(1), &sealed).unwrap();
    all.push((ROWS, sealed));
    apply(&backend, Epoch(1), &all);
    store.committed(Epoch(1));
    guard.committed(Epoch(1));
    assert!(
        guard
            .admit(&store, Epoch(2), b"bob", mail("5.0").as_ref())
            .is_err()
    );
    guard
        .admit(&store, Epoch(2), b"bob", mail("6").as_ref())
        .unwrap();
    guard
        .admit(&store, Epoch(2), b"ann", mail("5").as_ref())
        .unwrap();
}

#[test]
fn rows_that_share_a_value_already_are_counted() {
    let (backend, of) = (memory(), unique());
    let row = |key: &'static str, text: &str| {
        KeyValueStore::stored_bytes(&Sealed {
            key: Bytes::from_static(key.as_bytes()),
            value: Some(Bytes::from(format!(r#"{{"mail": {text}}}"#))),
            timestamp: Timestamp(1),
            changelog: true,
        })
    };
    let rows = vec![
        row("a", "1"),
        row("b", "1"),
        row("c", "1"),
        row("d", "null"),
        row("e", "null"),
    ];
    backend.restore(ROWS, rows, &[]).unwrap();
    let unbuilt = find_unbuilt(backend.as_ref(), &of).unwrap().unwrap();
    assert!(build_now(backend.as_ref(), &unbuilt, || false).unwrap());
    let state = || {
        let index = &of.indexes[0];
        IndexState::of(backend.as_ref(), index.id, index.fingerprint).unwrap()
    };
    assert_eq!(state(), Some(IndexState::UniquePending(2)));
    assert_eq!(of.indexes[0].status.state(), "unique_pending");
    // Once the duplicates are gone, the next start makes it readable.
    let mut run = begin(&backend, &of);
    for key in [&b"b"[..], b"c"] {
        let key = Bytes::from_static(key);
        run.store
            .put(run.open, &mut run.dirty[0], &key, None)
            .unwrap();
    }
    let [dirty, _] = std::mem::take(&mut run.dirty);
    let sealed = run.store.seal(run.open, dirty).unwrap();
    let mut all = of.changes(&run.store, run.open, &sealed).unwrap();
    all.push((ROWS, sealed));
    apply(&backend, run.open, &all);
    assert!(find_unbuilt(backend.as_ref(), &of).unwrap().is_none());
    assert_eq!(state(), Some(IndexState::Readable));
}

/// More rows than one scan: each index is built on a thread of its own, and goes on after a stop.
#[test]
fn large_indexes_are_built_on_threads_and_go_on_after_a_stop() {
    let of = three();
    let dir = tempfile::tempdir().unwrap();
    for backend in [memory(), rocks(dir.path(), &of)] {
        let mut run = RestoreRun::default();
        for n in 0..9_001 {
            let json = format!(
                "{{\"a\": {}, \"b\": {n}, \"tags\": [{}, \"x\"]}}",
                n % 7,
                n % 5
            );
            let stored = [&7i64.to_be_bytes(), json.as_bytes()];
            run.push(&[format!("key{n}").as_bytes()], Some(&stored));
        }
        backend.bulk_load(ROWS, run, &[]).unwrap();
        let unbuilt = find_unbuilt(backend.as_ref(), &of).unwrap().unwrap();
        let asked = Cell::new(0);
        let is_stopping = || asked.replace(asked.get() + 1) == 2;
        assert!(!build_now(backend.as_ref(), &unbuilt, is_stopping).unwrap());
        compare(&backend, &of).unwrap();

        let unbuilt = find_unbuilt(backend.as_ref(), &of).unwrap().unwrap();
        assert!(unbuilt.cursor.is_some(), "it goes on where it was stopped");
        assert!(build_now(backend.as_ref(), &unbuilt, || false).unwrap());
        assert!(find_unbuilt(backend.as_ref(), &of).unwrap().is_none());
        compare(&backend, &of).unwrap();
    }
}
