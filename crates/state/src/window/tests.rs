//! Windows against the rules of retention and the recorded run of a window store.

use super::*;
use crate::memory::MemoryBackend;
use std::sync::Arc;
use stoatflow_core::{Datum, ErrorKind, Serde, StoreId, Timestamp};

fn store(layout: Layout) -> KeyValueStore {
    let backend = Arc::new(MemoryBackend::new(false));
    KeyValueStore::with_layout(
        StoreId(0),
        "w".into(),
        Serde::Int64,
        backend,
        1 << 20,
        layout,
    )
}

fn int(n: i64) -> Stored {
    Stored {
        value: Datum::Int(n),
        timestamp: Timestamp(n),
    }
}

fn number(stored: &Stored) -> i64 {
    match stored.value {
        Datum::Int(n) => n,
        ref other => panic!("{other:?} is not an int"),
    }
}

/// processor/proc_window_store: put, then the sum of the windows of the last 20 ms.
#[test]
fn a_window_store_gives_the_recorded_sums() {
    let store = store(Layout::window(100));
    let (mut dirty, mut observed, mut sums) = (Dirty::default(), -1, Vec::new());
    for (key, value, ts) in [
        ("a", Some(1), 10),
        ("a", Some(2), 30),
        ("a", Some(4), 31),
        ("a", Some(8), 20),
        ("a", Some(16), 20),
        ("a", None, 30),
        ("b", Some(1), 200),
        ("a", Some(32), 50),
        ("a", Some(64), 101),
        ("a", Some(64), 100),
    ] {
        let mut view = WindowView::new(&store, Epoch(1), observed).unwrap();
        if let Some(value) = value {
            view.put(&mut dirty, key.as_bytes(), ts, Some(int(value)))
                .unwrap();
        }
        let found = view
            .fetch_range(key.as_bytes(), (ts - 20).max(0), ts, false, usize::MAX)
            .unwrap();
        sums.push(found.iter().map(|(_, v)| number(v)).sum::<i64>());
        observed = view.observed();
    }
    assert_eq!(sums, [1, 3, 6, 9, 17, 19, 1, 0, 64, 0]);
    let view = WindowView::new(&store, Epoch(1), observed).unwrap();
    let left = view.all(false).unwrap();
    let left: Vec<_> = left
        .iter()
        .map(|(k, s, v)| (k.as_ref(), *s, number(v)))
        .collect();
    assert_eq!(left, [(b"a".as_slice(), 101, 64), (b"b", 200, 1)]);
}

/// window/tumbling_retention: what the store returns at the end.
#[test]
fn a_window_is_shown_while_its_start_is_within_the_retention() {
    let store = store(Layout::window(50));
    let mut dirty = Dirty::default();
    let mut view = WindowView::new(&store, Epoch(1), -1).unwrap();
    for (key, start) in [
        ("a", 0),
        ("a", 20),
        ("a", 40),
        ("a", 50),
        ("b", 50),
        ("b", 60),
    ] {
        assert!(
            view.put(&mut dirty, key.as_bytes(), start, Some(int(1)))
                .unwrap()
        );
    }
    assert_eq!(view.observed(), 60);
    let starts: Vec<_> = view.all(false).unwrap().iter().map(|w| w.1).collect();
    assert_eq!(starts, [20, 40, 50, 50, 60]);
    assert_eq!(view.fetch(b"a", 0).unwrap(), None);
    assert!(
        !view.put(&mut dirty, b"a", 10, Some(int(1))).unwrap(),
        "expired"
    );
    assert!(view.put(&mut dirty, b"a", 11, Some(int(1))).unwrap());
}

#[test]
fn duplicates_stand_side_by_side() {
    let store = store(Layout::window(1_000));
    let mut dirty = Dirty::default();
    let mut view = WindowView::new(&store, Epoch(1), -1).unwrap();
    for (start, n) in [(5, 1), (5, 2), (7, 3), (5, 4)] {
        view.put_duplicate(&mut dirty, b"k", start, int(n)).unwrap();
    }
    let null = Stored {
        value: Datum::Null,
        timestamp: Timestamp(1),
    };
    view.put_duplicate(&mut dirty, b"k", 5, null).unwrap();
    let read = |reverse, limit| -> Vec<_> {
        view.fetch_range(b"k", 0, 7, reverse, limit)
            .unwrap()
            .iter()
            .map(|(s, v)| (*s, number(v)))
            .collect()
    };
    assert_eq!(read(false, 9), [(5, 1), (5, 2), (5, 4), (7, 3)]);
    assert_eq!(read(true, 2), [(7, 3), (5, 4)]);
    assert_eq!(read(true, 0), []);
}

#[test]
fn keys_that_look_like_another_key_s_windows_are_not_mixed_up() {
    let store = store(Layout::window(1_000));
    let mut dirty = Dirty::default();
    let mut view = WindowView::new(&store, Epoch(1), -1).unwrap();
    let long = b"k\0\0\0\0\0\0\0\x05\0\0\0\0";
    view.put(&mut dirty, b"k", 5, Some(int(1))).unwrap();
    view.put(&mut dirty, long, 6, Some(int(2))).unwrap();
    let found = view.fetch_range(b"k", 0, 9, false, 9).unwrap();
    assert_eq!(found, [(5, int(1))]);
    assert_eq!(
        view.fetch_range(long, 0, 9, false, 9).unwrap(),
        [(6, int(2))]
    );
    let found = view
        .fetch_keys(Some(b"k"), Some(b"k"), 0, 9, false)
        .unwrap();
    assert_eq!(found.len(), 1);
}

#[test]
fn far_apart_segments_are_found_without_trying_each() {
    let day = 86_400_000i64;
    let store = store(Layout::Window {
        segment_ms: 1,
        retention_ms: i64::MAX / 2,
    });
    let mut dirty = Dirty::default();
    let mut view = WindowView::new(&store, Epoch(1), -1).unwrap();
    for start in [0, day, 20_000 * day] {
        view.put(&mut dirty, b"k", start, Some(int(start))).unwrap();
    }
    let starts: Vec<_> = view
        .fetch_range(b"k", 0, i64::MAX, true, 9)
        .unwrap()
        .iter()
        .map(|w| w.0)
        .collect();
    assert_eq!(starts, [20_000 * day, day, 0]);
}

#[test]
fn another_layout_is_refused() {
    let error = WindowView::new(&store(Layout::TimeKey), Epoch(1), 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.to_string().contains("time-key-1"), "{error}");
}
