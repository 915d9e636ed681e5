//! Costs of the machine and of RocksDB alone, next to those of a store: copying memory, an epoch of
//! writes, a read.

use ::rocksdb::{DB, Options, WriteBatch, WriteOptions};
use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Datum, Epoch, Serde, StoreId, Timestamp};
use stoatflow_state::rocksdb::RocksBackend;
use stoatflow_state::{Backend, Dirty, EpochBatch, KeyValueStore, StoreLayout, Stored};

/// Larger than the CPU caches.
const ARENA: usize = 256 << 20;
const RECORD: usize = 1 << 10;
const EPOCH: usize = 10_000;
const KEPT: usize = 200_000;
/// RocksDB's share of `state.memory.max.bytes`.
const MEMORY: usize = 192 << 20;
const STORE: StoreId = StoreId(0);

fn keys(n: usize) -> Vec<Bytes> {
    (0..n)
        .map(|i| Bytes::from(format!("user-{i:08}")))
        .collect()
}

/// A count with its timestamp, as a store keeps it.
fn bytes(n: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    bytes
}

fn copying(c: &mut Criterion) {
    let (from, mut to) = (vec![1u8; ARENA], vec![0u8; ARENA]);
    let mut group = c.benchmark_group("memcpy");
    group
        .measurement_time(Duration::from_secs(2))
        .sample_size(20);
    group.throughput(Throughput::Bytes(RECORD as u64));
    let mut at = 0;
    group.bench_function("1_KB_from_and_to_main_memory", |b| {
        b.iter(|| {
            // Large steps, so that the hardware doesn't prefetch; source and target move alike.
            at = (at + 7_919 * RECORD) % ARENA;
            to[at..at + RECORD].copy_from_slice(black_box(&from[at..at + RECORD]));
        });
    });
    black_box(&to);
    group.finish();
}

/// RocksDB with its own defaults; its log is written but not synced, as for stores.
fn raw(dir: &std::path::Path, keys: &[Bytes]) -> (DB, WriteOptions) {
    let mut options = Options::default();
    options.create_if_missing(true);
    let db = DB::open(&options, dir).expect("a new folder");
    let mut how = WriteOptions::default();
    how.set_sync(false);
    put(&db, &how, keys, 0);
    db.flush().expect("a flush");
    (db, how)
}

fn put(db: &DB, how: &WriteOptions, keys: &[Bytes], n: u64) {
    let mut batch = WriteBatch::default();
    keys.iter().for_each(|key| batch.put(key, bytes(n)));
    db.write_opt(batch, how).expect("a write");
}

fn store(backend: &Arc<dyn Backend>) -> KeyValueStore {
    let backend = Arc::clone(backend);
    KeyValueStore::new(STORE, "counts".into(), Serde::Int64, backend, 0)
}

/// A whole epoch: write each key, seal, apply to the back end, commit.
fn epoch(store: &KeyValueStore, backend: &dyn Backend, keys: &[Bytes], epoch: Epoch) {
    let mut dirty = Dirty::default();
    for key in keys {
        let value = Some(Stored {
            value: Datum::Int(i64::try_from(epoch.0).expect("few epochs")),
            timestamp: Timestamp(1),
        });
        store.put(epoch, &mut dirty, key, value).expect("open");
    }
    let sealed = store.seal(epoch, dirty).expect("values of the serde");
    let writes = sealed.iter().map(KeyValueStore::stored_bytes).collect();
    backend
        .apply(EpochBatch {
            epoch,
            writes: vec![(STORE, writes)],
            ..EpochBatch::default()
        })
        .expect("a write");
    store.committed(epoch);
}

fn disk(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = keys(KEPT);
    let (db, how) = raw(&folder.path().join("raw"), &keys);
    let layout = StoreLayout {
        id: STORE,
        name: "counts".to_owned(),
        format: "bench".to_owned(),
        rocksdb: stoatflow_core::RocksDbOptions::default(),
    };
    let opened = RocksBackend::open(folder.path().join("ours"), &[layout], MEMORY);
    let backend: Arc<dyn Backend> = Arc::new(opened.expect("a new folder"));
    let store = store(&backend);
    epoch(&store, backend.as_ref(), &keys, Epoch(1));

    let mut group = c.benchmark_group("disk");
    group
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .sample_size(20);
    let mut i = 0;
    let mut next = || {
        i = (i + 7_919) % KEPT;
        &keys[i]
    };
    group.bench_function("get/raw", |b| b.iter(|| db.get_pinned(next())));
    group.bench_function("get/store_that_has_not_cached_it", |b| {
        b.iter(|| store.get(Epoch(1), next()));
    });
    // Divide by 10,000 for the time per key. Keys are in no order, and spread over all keys of the
    // store.
    let scattered: Vec<Bytes> = (0..EPOCH).map(|i| keys[i * 7_919 % KEPT].clone()).collect();
    let mut n = 1;
    group.bench_function("epoch_of_10000_keys/raw", |b| {
        b.iter(|| {
            n += 1;
            put(&db, &how, &scattered, n);
        });
    });
    let mut at = Epoch(1);
    group.bench_function("epoch_of_10000_keys/store", |b| {
        b.iter(|| {
            at = at.next();
            epoch(&store, backend.as_ref(), &scattered, at);
        });
    });
    group.finish();
}

criterion_group!(benches, copying, disk);
criterion_main!(benches);
