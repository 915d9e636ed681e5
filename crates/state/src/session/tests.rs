//! Sessions against the rules of retention and the recorded run of a session store.

use super::*;
use crate::memory::MemoryBackend;
use std::sync::Arc;
use stoatflow_core::{Datum, Serde, StoreId, Timestamp};

fn store(retention_ms: i64) -> KeyValueStore {
    KeyValueStore::with_layout(
        StoreId(0),
        "s".into(),
        Serde::String,
        Arc::new(MemoryBackend::new(false)),
        1 << 20,
        Layout::session(retention_ms),
    )
}

fn text(t: &str) -> Stored {
    Stored {
        value: Datum::Str(t.into()),
        timestamp: Timestamp(0),
    }
}

/// processor/proc_session_store: put a session, then count those around it.
#[test]
fn a_session_store_gives_the_recorded_counts() {
    let store = store(1_000);
    let (mut dirty, mut counts) = (Dirty::default(), Vec::new());
    let mut view = SessionView::new(&store, Epoch(1), -1).unwrap();
    for (key, value, ts) in [
        ("a", Some("p"), 10),
        ("a", Some("q"), 24),
        ("a", Some("r"), 25),
        ("a", None, 10),
        ("a", Some("s"), 0),
        ("b", Some("t"), 10),
    ] {
        let key = key.as_bytes();
        view.put(&mut dirty, key, ts, ts + 5, value.map(text))
            .unwrap();
        let found = view
            .find_sessions(key, (ts - 10).max(0), ts + 10, false)
            .unwrap();
        counts.push(found.len());
    }
    assert_eq!(counts, [1, 2, 3, 0, 1, 1]);
    let left: Vec<_> = view
        .all(false)
        .unwrap()
        .into_iter()
        .map(|e| (e.key, e.start, e.end, e.value))
        .collect();
    let entry = |k: &'static str, start, end, v| (Bytes::from(k), start, end, text(v));
    assert_eq!(
        left,
        [
            entry("a", 0, 5, "s"),
            entry("a", 24, 29, "q"),
            entry("a", 25, 30, "r"),
            entry("b", 10, 15, "t")
        ]
    );
}

#[test]
fn sessions_come_by_end_then_by_start() {
    let store = store(1 << 40);
    let mut dirty = Dirty::default();
    let mut view = SessionView::new(&store, Epoch(1), -1).unwrap();
    for (start, end) in [(5, 700_000), (1, 9), (3, 9), (8, 8), (0, 700_000)] {
        view.put(&mut dirty, b"k", start, end, Some(text("v")))
            .unwrap();
    }
    let read = |reverse| -> Vec<_> {
        view.find_sessions(b"k", 9, 5, reverse)
            .unwrap()
            .iter()
            .map(|e| (e.start, e.end))
            .collect()
    };
    assert_eq!(read(false), [(1, 9), (3, 9), (0, 700_000), (5, 700_000)]);
    assert_eq!(read(true), [(5, 700_000), (0, 700_000), (3, 9), (1, 9)]);
}

#[test]
fn a_session_lives_by_its_end() {
    let store = store(100);
    let mut dirty = Dirty::default();
    let mut view = SessionView::new(&store, Epoch(1), -1).unwrap();
    view.put(&mut dirty, b"k", 0, 50, Some(text("v"))).unwrap();
    view.put(&mut dirty, b"k", 0, 51, Some(text("w"))).unwrap();
    view.put(&mut dirty, b"l", 150, 150, Some(text("x")))
        .unwrap();
    assert_eq!(view.observed(), 150);
    assert_eq!(view.fetch_session(b"k", 0, 50).unwrap(), None);
    assert_eq!(view.fetch_session(b"k", 0, 51).unwrap(), Some(text("w")));
    assert_eq!(
        view.find_sessions(b"k", 0, i64::MAX, false).unwrap().len(),
        1
    );
    assert!(
        !view
            .put(&mut dirty, b"k", 1, 50, Some(text("late")))
            .unwrap()
    );
    assert!(view.remove(&mut dirty, b"k", 0, 51).unwrap());
    assert_eq!(view.all(true).unwrap().len(), 1);
}
