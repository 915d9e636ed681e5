//! Versions against the recorded run of a versioned store, and single rules.

use super::*;
use crate::memory::MemoryBackend;
use crate::{Backend, EpochBatch, Sealed};
use std::sync::Arc;
use stoatflow_core::{Serde, StoreId};

fn store(history_ms: i64) -> (KeyValueStore, Arc<MemoryBackend>) {
    let backend = Arc::new(MemoryBackend::new(true));
    let store = KeyValueStore::with_layout(
        StoreId(0),
        "v".into(),
        Serde::String,
        Arc::clone(&backend) as _,
        1 << 20,
        Layout::Versioned { history_ms },
    );
    (store, backend)
}

fn text(t: &str) -> Datum {
    Datum::Str(t.into())
}

fn show(record: Option<VersionedRecord>) -> String {
    record.map_or("none".to_owned(), |r| match r.value {
        Datum::Str(t) => format!("{}@{}", t.as_str(), r.timestamp),
        other => panic!("{other:?} is not text"),
    })
}

/// processor/proc_versioned_store: put, get, get as of 10 ms before, and what put returned.
#[test]
fn a_versioned_store_gives_the_recorded_answers() {
    let (store, _) = store(50);
    let (mut dirty, mut said) = (Dirty::default(), Vec::new());
    let mut view = VersionedView::new(&store, Epoch(1), -1).unwrap();
    for (key, value, ts) in [
        ("a", Some("p"), 10),
        ("a", Some("q"), 20),
        ("a", Some("r"), 15),
        ("a", None, 17),
        ("a", Some("s"), 20),
        ("a", Some("t"), 100),
        ("a", Some("u"), 49),
        ("a", Some("v"), 50),
        ("a", None, 101),
        ("b", None, 101),
    ] {
        let key = key.as_bytes();
        let code = match view.put(&mut dirty, key, value.map(text), ts).unwrap() {
            PutResult::Undefined => "open".to_owned(),
            PutResult::NotPut => "rejected".to_owned(),
            PutResult::ValidTo(ts) => ts.to_string(),
        };
        let latest = show(view.get(key).unwrap());
        let before = show(view.get_as_of(key, ts - 10).unwrap());
        said.push(format!("{latest}|{before}|{code}"));
    }
    assert_eq!(
        said,
        [
            "p@10|none|open",
            "q@20|p@10|open",
            "q@20|none|20",
            "q@20|none|20",
            "s@20|p@10|open",
            "t@100|s@20|open",
            "t@100|none|rejected",
            "t@100|none|100",
            "none|v@50|open",
            "none|none|open",
        ]
    );
    for (ts, expected) in [(49, "none"), (50, "none"), (100, "t@100"), (101, "none")] {
        assert_eq!(
            show(view.get_as_of(b"a", ts).unwrap()),
            expected,
            "as of {ts}"
        );
        assert_eq!(show(view.get_as_of(b"b", ts).unwrap()), "none");
    }
    let record = view.get_as_of(b"a", 100).unwrap().unwrap();
    assert_eq!(record.valid_to, Some(101));
    assert_eq!(
        (PutResult::NotPut.code(), PutResult::Undefined.code()),
        (i64::MIN, -1)
    );
}

#[test]
fn every_version_of_an_epoch_reaches_the_changelog_in_order_and_pruned_ones_leave_no_trace_there() {
    let (store, backend) = store(10);
    let mut dirty = Dirty::default();
    let mut view = VersionedView::new(&store, Epoch(1), -1).unwrap();
    for (value, ts) in [(Some("c"), 3), (Some("a"), 1), (None, 2), (Some("a2"), 1)] {
        view.put(&mut dirty, b"k", value.map(text), ts).unwrap();
    }
    let sealed = store.seal(Epoch(1), std::mem::take(&mut dirty)).unwrap();
    let logged: Vec<_> = sealed
        .iter()
        .filter_map(|s| store.layout().to_changelog(s))
        .map(|r| (r.key, r.value, r.timestamp.0))
        .collect();
    let record = |v: Option<&'static str>, ts| (Bytes::from("k"), v.map(Bytes::from), ts);
    assert_eq!(
        logged,
        [record(Some("a2"), 1), record(None, 2), record(Some("c"), 3)]
    );
    commit(&store, backend.as_ref(), Epoch(1), &sealed);
    assert_eq!(backend.approximate_len(StoreId(0)), 3);

    let mut view = VersionedView::new(&store, Epoch(2), 3).unwrap();
    view.put(&mut dirty, b"k", Some(text("z")), 20).unwrap();
    let sealed = store.seal(Epoch(2), dirty).unwrap();
    let logged: Vec<_> = sealed
        .iter()
        .filter_map(|s| store.layout().to_changelog(s))
        .collect();
    assert_eq!(logged.len(), 1, "deletions that tidy up stay here");
    commit(&store, backend.as_ref(), Epoch(2), &sealed);
    assert_eq!(
        backend.approximate_len(StoreId(0)),
        2,
        "c@3 still holds at 10"
    );
    assert_eq!(show(view.get_as_of(b"k", 10).unwrap()), "c@3");
    assert_eq!(show(view.get_as_of(b"k", 9).unwrap()), "none");
}

fn commit(store: &KeyValueStore, backend: &dyn Backend, epoch: Epoch, sealed: &[Sealed]) {
    backend
        .apply(EpochBatch {
            epoch,
            writes: vec![(
                store.id(),
                sealed.iter().map(KeyValueStore::stored_bytes).collect(),
            )],
            ..EpochBatch::default()
        })
        .unwrap();
    store.committed(epoch);
}

#[test]
fn a_version_that_comes_late_is_not_the_last_word_of_the_changelog() {
    let (store, backend) = store(100);
    let mut dirty = Dirty::default();
    let mut view = VersionedView::new(&store, Epoch(1), -1).unwrap();
    view.put(&mut dirty, b"k", None, 20).unwrap();
    let sealed = store.seal(Epoch(1), std::mem::take(&mut dirty)).unwrap();
    commit(&store, backend.as_ref(), Epoch(1), &sealed);
    let mut view = VersionedView::new(&store, Epoch(2), 20).unwrap();
    view.put(&mut dirty, b"k", Some(text("late")), 10).unwrap();
    let sealed = store.seal(Epoch(2), dirty).unwrap();
    let last = store.layout().to_changelog(sealed.last().unwrap()).unwrap();
    assert_eq!((last.value, last.timestamp), (None, Timestamp(20)));
}

#[test]
fn a_deletion_stays_while_it_hides_a_version() {
    let (store, backend) = store(10);
    let mut dirty = Dirty::default();
    let mut view = VersionedView::new(&store, Epoch(1), -1).unwrap();
    view.put(&mut dirty, b"k", None, 20).unwrap();
    let sealed = store.seal(Epoch(1), std::mem::take(&mut dirty)).unwrap();
    commit(&store, backend.as_ref(), Epoch(1), &sealed);
    let mut view = VersionedView::new(&store, Epoch(2), 20).unwrap();
    // Written by the epoch that would prune it, so it stays for the changelog.
    view.put(&mut dirty, b"k", Some(text("hidden")), 10)
        .unwrap();
    view.put(&mut dirty, b"other", Some(text("x")), 99).unwrap();
    view.put(&mut dirty, b"k", Some(text("new")), 95).unwrap();
    assert_eq!(show(view.get_as_of(b"k", 94).unwrap()), "none");
    assert_eq!(show(view.get(b"k").unwrap()), "new@95");
}

/// A late lane can't see the version that the next epoch has put after the deletion.
#[test]
fn a_deletion_stays_while_it_hides_a_version_of_the_next_epoch() {
    let (store, backend) = store(10);
    let (mut dirty, mut ahead) = (Dirty::default(), Dirty::default());
    let mut view = VersionedView::new(&store, Epoch(1), -1).unwrap();
    view.put(&mut dirty, b"k", None, 20).unwrap();
    view.put(&mut dirty, b"k", Some(text("old")), 28).unwrap();
    let sealed = store.seal(Epoch(1), std::mem::take(&mut dirty)).unwrap();
    commit(&store, backend.as_ref(), Epoch(1), &sealed);
    let mut next = VersionedView::new(&store, Epoch(3), 28).unwrap();
    next.put(&mut ahead, b"k", Some(text("hidden")), 19)
        .unwrap();
    let mut late = VersionedView::new(&store, Epoch(2), 28).unwrap();
    late.put(&mut dirty, b"k", Some(text("new")), 37).unwrap();
    let next = VersionedView::new(&store, Epoch(3), 37).unwrap();
    assert_eq!(show(next.get_as_of(b"k", 27).unwrap()), "none");
    assert_eq!(show(next.get_as_of(b"k", 28).unwrap()), "old@28");
}

/// A lane of the previous epoch may still write a value at the oldest time that writes may refer to.
#[test]
fn a_deletion_stays_while_a_late_lane_may_replace_it() {
    let (store, _) = store(10);
    let (mut late, mut ahead) = (Dirty::default(), Dirty::default());
    let mut view = VersionedView::new(&store, Epoch(1), -1).unwrap();
    view.put(&mut late, b"k", None, 20).unwrap();
    let mut next = VersionedView::new(&store, Epoch(2), 20).unwrap();
    next.put(&mut ahead, b"k", Some(text("new")), 30).unwrap();
    let mut view = VersionedView::new(&store, Epoch(1), 30).unwrap();
    view.put(&mut late, b"k", Some(text("in time")), 20)
        .unwrap();
    assert_eq!(show(next.get_as_of(b"k", 29).unwrap()), "in time@20");
}

#[test]
fn a_delete_gives_what_held_before() {
    let (store, _) = store(100);
    let mut dirty = Dirty::default();
    let mut view = VersionedView::new(&store, Epoch(1), -1).unwrap();
    view.put(&mut dirty, b"k", Some(text("a")), 1).unwrap();
    view.put(&mut dirty, b"k", Some(text("b")), 9).unwrap();
    assert_eq!(show(view.delete(&mut dirty, b"k", 5).unwrap()), "a@1");
    assert_eq!(show(view.get_as_of(b"k", 8).unwrap()), "none");
    assert_eq!(show(view.get(b"k").unwrap()), "b@9");
    let held = view.history(b"k", 0, 99).unwrap();
    let held: Vec<_> = held.iter().map(|r| (r.timestamp, r.valid_to)).collect();
    assert_eq!(held, [(1, Some(5)), (9, None)]);
    assert_eq!(view.history(b"k", 5, 8).unwrap(), []);
}

#[test]
fn the_latest_version_never_expires() {
    let (store, _) = store(10);
    let mut dirty = Dirty::default();
    let mut view = VersionedView::new(&store, Epoch(1), -1).unwrap();
    view.put(&mut dirty, b"k", Some(text("old")), 5).unwrap();
    view.put(&mut dirty, b"other", Some(text("new")), 1_000)
        .unwrap();
    assert_eq!(show(view.get(b"k").unwrap()), "old@5");
    assert_eq!(show(view.get_as_of(b"k", 5).unwrap()), "old@5");
    assert_eq!(show(view.get_as_of(b"k", 4).unwrap()), "none");
    view.put(&mut dirty, b"k", Some(text("next")), 2_000)
        .unwrap();
    assert_eq!(show(view.get_as_of(b"k", 1_999).unwrap()), "old@5");
    assert_eq!(show(view.get_as_of(b"k", 1_989).unwrap()), "none");
}
