//! The hot path: one update of a cached counter.

use bytes::Bytes;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Datum, Epoch, Serde, StoreId, Timestamp};
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::{Dirty, KeyValueStore, Stored};

fn store() -> KeyValueStore {
    KeyValueStore::new(
        StoreId(0),
        "counts".into(),
        Serde::Int64,
        Arc::new(MemoryBackend::new(false)),
        64 << 20,
    )
}

fn keys(n: usize) -> Vec<Bytes> {
    (0..n)
        .map(|i| Bytes::from(format!("user-{i:08}")))
        .collect()
}

fn count(store: &KeyValueStore, epoch: Epoch, dirty: &mut Dirty, key: &Bytes) {
    store
        .update(epoch, dirty, key, |old| {
            let n = match old.map(|s| &s.value) {
                Some(Datum::Int(n)) => *n,
                _ => 0,
            };
            Ok((
                Some(Stored {
                    value: Datum::Int(n + 1),
                    timestamp: Timestamp(1),
                }),
                (),
            ))
        })
        .expect("an update of an open epoch");
}

fn update(c: &mut Criterion) {
    let mut group = c.benchmark_group("key_value");
    group
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20);
    for n in [1_000usize, 100_000] {
        let (store, keys, mut dirty) = (store(), keys(n), Dirty::default());
        keys.iter()
            .for_each(|k| count(&store, Epoch(1), &mut dirty, k));
        let mut i = 0usize;
        group.bench_function(format!("update_cached_int/{n}_keys"), |b| {
            b.iter(|| {
                i = (i + 7919) % n;
                count(&store, Epoch(1), &mut dirty, black_box(&keys[i]));
            });
        });
        group.bench_function(format!("get_cached_int/{n}_keys"), |b| {
            b.iter(|| {
                i = (i + 7919) % n;
                store.get(Epoch(1), black_box(&keys[i]))
            });
        });
    }
    // A whole epoch of 10,000 distinct keys: first writes, seal, commit; divide by 10,000 for the time
    // per key.
    let (store, keys) = (store(), keys(10_000));
    let mut epoch = Epoch(1);
    group.bench_function("epoch_of_10000_keys", |b| {
        b.iter_batched(
            Dirty::default,
            |mut dirty| {
                keys.iter()
                    .for_each(|k| count(&store, epoch, &mut dirty, k));
                let sealed = store.seal(epoch, dirty).expect("seal");
                store.committed(epoch);
                epoch = epoch.next();
                sealed
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, update);
criterion_main!(benches);
