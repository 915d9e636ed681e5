//! Small ranges, with few and with many staged rows: their cost must not grow with the store.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Datum, Epoch, Serde, StoreId, Timestamp};
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::rocksdb::RocksBackend;
use stoatflow_state::{
    Backend, Dirty, KeyRange, KeyValueStore, Layout, StoreLayout, Stored, VersionedView,
    WindowView, time_key,
};

fn store(layout: Layout, backend: Arc<dyn Backend>) -> KeyValueStore {
    KeyValueStore::with_layout(
        StoreId(0),
        "s".into(),
        Serde::Int64,
        backend,
        64 << 20,
        layout,
    )
}

fn int(n: i64) -> Stored {
    Stored {
        value: Datum::Int(n),
        timestamp: Timestamp(n),
    }
}

fn key(i: usize) -> [u8; 13] {
    let mut key = *b"user-00000000";
    for (at, digit) in (5..13).rev().zip(i.to_string().bytes().rev()) {
        key[at] = digit;
    }
    key
}

fn ranges(c: &mut Criterion) {
    let mut group = c.benchmark_group("ranges");
    group
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20);
    let dir = tempfile::tempdir().expect("a directory");
    for n in [1_000usize, 100_000] {
        let layout = Layout::window(3_600_000);
        let declared = StoreLayout {
            id: StoreId(0),
            name: "s".to_owned(),
            format: layout.format(),
            rocksdb: stoatflow_core::RocksDbOptions::default(),
        };
        let rocks = RocksBackend::open(dir.path().join(n.to_string()), &[declared], 64 << 20)
            .expect("a fresh directory opens");
        let backends: [(&str, Arc<dyn Backend>); 2] = [
            ("memory", Arc::new(MemoryBackend::new(false))),
            ("rocksdb", Arc::new(rocks)),
        ];
        for (name, backend) in backends {
            let (windows, mut dirty) = (store(layout, backend), Dirty::default());
            let mut view = WindowView::new(&windows, Epoch(1), -1).expect("windows");
            for i in 0..n {
                // Five windows per key.
                let start = (i % 5) as i64 * 10;
                view.put(&mut dirty, &key(i / 5), start, Some(int(start)))
                    .expect("an open epoch");
            }
            let mut i = 0;
            group.bench_function(
                format!("window_fetch_range_of_a_known_row/{name}/{n}"),
                |b| {
                    b.iter(|| {
                        i = (i + 7_919) % (n / 5).min(200);
                        view.fetch_range(black_box(&key(i)), 10, 30, false, 99)
                    });
                },
            );
            let mut fresh = n;
            group.bench_function(format!("window_fetch_range_of_a_new_row/{name}/{n}"), |b| {
                b.iter(|| {
                    fresh += 1;
                    view.fetch_range(black_box(&key(fresh)), 10, 30, false, 99)
                });
            });
        }
        let backend = Arc::new(MemoryBackend::new(false));
        let (versions, mut dirty) = (
            store(
                Layout::Versioned {
                    history_ms: i64::MAX,
                },
                backend.clone(),
            ),
            Dirty::default(),
        );
        let mut view = VersionedView::new(&versions, Epoch(1), -1).expect("versions");
        for i in 0..n {
            view.put(&mut dirty, &key(i / 5), Some(Datum::Int(1)), (i % 5) as i64)
                .expect("an open epoch");
        }
        let mut i = 0;
        group.bench_function(format!("versioned_get_as_of/{n}"), |b| {
            b.iter(|| {
                i = (i + 7_919) % (n / 5);
                view.get_as_of(black_box(&key(i)), 3)
            });
        });
        for (name, timed) in [
            ("ordered", store(Layout::TimeKey, backend.clone())),
            ("unordered", store(Layout::KeyValue, backend.clone())),
        ] {
            let mut dirty = Dirty::default();
            for i in 0..n {
                let key = time_key(i as i64, &key(i));
                timed
                    .put(Epoch(1), &mut dirty, &key, Some(int(1)))
                    .expect("an open epoch");
            }
            let first = KeyRange::default();
            group.bench_function(format!("first_by_time/{name}/{n}"), |b| {
                b.iter(|| timed.scan(Epoch(1), black_box(&first), 1));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, ranges);
criterion_main!(benches);
