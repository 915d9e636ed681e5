//! Rows in memory, rows that are too large, and forgetting.

use super::*;
use crate::{WindowView, window_key};
use std::sync::atomic::AtomicUsize;

/// Counts reads of the back end.
#[derive(Debug)]
struct Counting {
    inner: MemoryBackend,
    scans: AtomicUsize,
    gets: AtomicUsize,
}

impl Backend for Counting {
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>> {
        self.gets.fetch_add(1, Relaxed);
        self.inner.get(store, key)
    }
    fn scan(&self, store: StoreId, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
        self.scans.fetch_add(1, Relaxed);
        self.inner.scan(store, range, limit)
    }
    fn snapshot(&self, stores: &[StoreId]) -> Result<Box<dyn crate::Snapshot>> {
        self.inner.snapshot(stores)
    }
    fn apply(&self, batch: EpochBatch) -> Result<()> {
        self.inner.apply(batch)
    }
    fn restore(
        &self,
        store: StoreId,
        writes: Vec<crate::Write>,
        positions: &[(stoatflow_core::Partition, stoatflow_core::Offset)],
    ) -> Result<()> {
        self.inner.restore(store, writes, positions)
    }
    fn positions(
        &self,
        store: StoreId,
    ) -> Result<Vec<(stoatflow_core::Partition, stoatflow_core::Offset)>> {
        self.inner.positions(store)
    }
    fn current_at(&self, store: StoreId) -> Result<Option<Timestamp>> {
        self.inner.current_at(store)
    }
    fn note_current(&self, stores: &[StoreId], at: Timestamp) -> Result<()> {
        self.inner.note_current(stores, at)
    }
    fn source_topic(&self, store: StoreId) -> Result<Option<String>> {
        self.inner.source_topic(store)
    }
    fn note_source_topic(&self, store: StoreId, topic: Option<&str>) -> Result<()> {
        self.inner.note_source_topic(store, topic)
    }
    fn wipe(&self, store: StoreId) -> Result<()> {
        self.inner.wipe(store)
    }
    fn approximate_len(&self, store: StoreId) -> u64 {
        self.inner.approximate_len(store)
    }
    fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes()
    }
    fn is_durable(&self) -> bool {
        true
    }
}

fn windows(cache: usize) -> (KeyValueStore, Arc<Counting>) {
    let backend = Arc::new(Counting {
        inner: MemoryBackend::new(true),
        scans: AtomicUsize::new(0),
        gets: AtomicUsize::new(0),
    });
    let store = KeyValueStore::with_layout(
        StoreId(3),
        "w".into(),
        Serde::Int64,
        Arc::clone(&backend) as Arc<dyn Backend>,
        cache,
        Layout::window(60_000),
    );
    (store, backend)
}

fn fill(store: &KeyValueStore, epoch: Epoch, k: &str, starts: std::ops::Range<i64>) -> Vec<Sealed> {
    let mut dirty = Dirty::default();
    let mut view = WindowView::new(store, epoch, -1).unwrap();
    for start in starts {
        view.put(&mut dirty, k.as_bytes(), start, Some(int(start, start)))
            .unwrap();
    }
    store.seal(epoch, dirty).unwrap()
}

fn count(store: &KeyValueStore, epoch: Epoch, k: &str) -> usize {
    let view = WindowView::new(store, epoch, -1).unwrap();
    view.fetch_range(k.as_bytes(), 0, 59_999, false, usize::MAX)
        .unwrap()
        .len()
}

#[test]
fn a_row_that_was_read_needs_the_back_end_no_more() {
    let (store, backend) = windows(1 << 24);
    assert_eq!(count(&store, Epoch(1), "a"), 0);
    let sealed = fill(&store, Epoch(1), "a", 0..50);
    assert_eq!(count(&store, Epoch(1), "a"), 50);
    apply(&store, backend.as_ref(), Epoch(1), &sealed);
    let before = backend.scans.load(Relaxed);
    for _ in 0..9 {
        assert_eq!(count(&store, Epoch(2), "a"), 50);
    }
    assert_eq!(backend.scans.load(Relaxed), before);
    // A lookup of an absent key in the row doesn't read it either.
    let absent = window_key(60_000, b"a", 77, 0);
    assert_eq!(store.get(Epoch(2), &absent).unwrap(), None);
    assert_eq!(backend.gets.load(Relaxed), 0);
}

/// A session is deleted by each record that extends it: slots of deleted ones would fill the memory.
#[test]
fn deleted_entries_of_a_known_row_take_no_memory() {
    let (store, backend) = windows(1 << 20);
    let (e, next) = (Epoch(1), Epoch(2));
    let sealed = fill(&store, e, "a", 0..10);
    assert_eq!(count(&store, e, "a"), 10, "from here on the row is known");
    apply(&store, backend.as_ref(), e, &sealed);
    let mut dirty = Dirty::default();
    let mut view = WindowView::new(&store, next, 9).unwrap();
    for start in 0..9 {
        view.put(&mut dirty, b"a", start, None).unwrap();
    }
    let sealed = store.seal(next, dirty).unwrap();
    assert_eq!(store.cached_entries(), 10);
    apply(&store, backend.as_ref(), next, &sealed);
    assert_eq!(store.cached_entries(), 1);
    let scans = backend.scans.load(Relaxed);
    assert_eq!(count(&store, Epoch(3), "a"), 1);
    assert_eq!(backend.scans.load(Relaxed), scans, "and it is still known");
}

#[test]
fn an_evicted_row_is_read_again() {
    let (store, backend) = windows(0);
    let sealed = fill(&store, Epoch(1), "a", 0..50);
    apply(&store, backend.as_ref(), Epoch(1), &sealed);
    for _ in 0..3 {
        assert_eq!(count(&store, Epoch(2), "a"), 50);
        for i in 0..500 {
            assert_eq!(count(&store, Epoch(2), &format!("other-{i}")), 0);
        }
    }
}

#[test]
fn a_large_row_is_right_without_being_kept() {
    let (store, backend) = windows(1 << 26);
    let sealed = fill(&store, Epoch(1), "a", 0..9_000);
    apply(&store, backend.as_ref(), Epoch(1), &sealed);
    store.forget(&KeyRange::default());
    assert_eq!(store.cached_entries(), 0);
    assert_eq!(count(&store, Epoch(2), "a"), 9_000);
    assert_eq!(store.cached_entries(), 0, "it would fill the cache");
    // Now the row's shard has a slot, so the scan searches the shard as well.
    let one = window_key(60_000, b"a", 5, 0);
    assert_eq!(store.get(Epoch(2), &one).unwrap(), Some(int(5, 5)));
    assert_eq!(count(&store, Epoch(2), "a"), 9_000);
    let view = WindowView::new(&store, Epoch(2), -1).unwrap();
    let last = view.fetch_range(b"a", 0, 59_999, true, 2).unwrap();
    assert_eq!(
        last,
        [(8_999, int(8_999, 8_999)), (8_998, int(8_998, 8_998))]
    );
}

#[test]
fn forgetting_keeps_what_is_not_committed() {
    let (store, backend) = windows(1 << 24);
    let sealed = fill(&store, Epoch(1), "a", 0..5);
    apply(&store, backend.as_ref(), Epoch(1), &sealed);
    let mut dirty = Dirty::default();
    let changed = window_key(60_000, b"a", 2, 0);
    store
        .put(Epoch(2), &mut dirty, &changed, Some(int(9, 9)))
        .unwrap();
    backend
        .apply(EpochBatch {
            drops: vec![(store.id(), KeyRange::default())],
            ..EpochBatch::default()
        })
        .unwrap();
    store.forget(&KeyRange::default());
    let view = WindowView::new(&store, Epoch(2), -1).unwrap();
    assert_eq!(view.all(false).unwrap(), [(key("a"), 2, int(9, 9))]);
    assert_eq!(store.seal(Epoch(2), dirty).unwrap().len(), 1);
}

#[test]
fn forgetting_reaches_unordered_stores_and_slots_in_use() {
    let (store, backend) = store(1 << 20);
    let mut dirty = Dirty::default();
    for k in ["a", "b", "c"] {
        store
            .put(Epoch(1), &mut dirty, &key(k), Some(int(1, 1)))
            .unwrap();
    }
    let sealed = store.seal(Epoch(1), std::mem::take(&mut dirty)).unwrap();
    apply(&store, &backend, Epoch(1), &sealed);
    let range = KeyRange {
        to: Some(key("c")),
        ..KeyRange::default()
    };
    let mut runs = 0;
    store
        .update_unlocked(Epoch(2), &mut dirty, &key("b"), |old| {
            runs += 1;
            if runs == 1 {
                assert!(old.is_some());
                backend
                    .apply(EpochBatch {
                        drops: vec![(store.id(), range.clone())],
                        ..EpochBatch::default()
                    })
                    .unwrap();
                store.forget(&range);
            } else {
                assert!(old.is_none(), "the value that was dropped");
            }
            Ok((Some(int(2, 2)), ()))
        })
        .unwrap();
    assert_eq!(runs, 2);
    assert_eq!(store.get(Epoch(2), b"a").unwrap(), None);
    assert_eq!(store.get(Epoch(2), b"b").unwrap(), Some(int(2, 2)));
    assert_eq!(store.get(Epoch(2), b"c").unwrap(), Some(int(1, 1)));
}

#[test]
fn rewritten_pruned_rows_reach_the_changelog() {
    let (store, _) = store(1 << 20);
    let mut dirty = Dirty::default();
    assert!(store.prune(Epoch(1), &mut dirty, &key("gone")).unwrap());
    assert!(store.prune(Epoch(1), &mut dirty, &key("back")).unwrap());
    store
        .put(Epoch(1), &mut dirty, &key("back"), Some(int(1, 1)))
        .unwrap();
    assert!(
        !store.prune(Epoch(1), &mut dirty, &key("back")).unwrap(),
        "a write must not be taken from the changelog"
    );
    let sealed = store.seal(Epoch(1), dirty).unwrap();
    let said: Vec<_> = sealed
        .iter()
        .map(|s| (s.key.clone(), s.value.is_some(), s.changelog))
        .collect();
    assert_eq!(
        said,
        [(key("gone"), false, false), (key("back"), true, true)]
    );
}
