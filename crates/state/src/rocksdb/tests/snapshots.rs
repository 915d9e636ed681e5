//! What snapshots keep open, and what they read without waiting.

use super::*;
use crate::CachedRead;

#[test]
fn a_read_that_must_not_wait_finds_only_what_is_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path()).unwrap();
    let mut run = RestoreRun::default();
    for n in 0..5_000 {
        run.push(&[format!("key{n}").as_bytes()], Some(&[b"on disk"]));
    }
    b.bulk_load(StoreId(0), run, &[]).unwrap();
    drop(b);
    let b = open(dir.path()).unwrap();
    put(&b, 0, "new", "in memory");
    let snapshot = b.snapshot(&[StoreId(0)]).unwrap();
    let cached = |key: &str| snapshot.get_cached(StoreId(0), key.as_bytes()).unwrap();
    let known = |text: &'static str| CachedRead::Known(Some(Bytes::from_static(text.as_bytes())));
    assert_eq!(cached("new"), known("in memory"));
    assert_eq!(cached("key7"), CachedRead::OnDisk);
    assert!(snapshot.get(StoreId(0), b"key7").unwrap().is_some());
    assert_eq!(cached("key7"), known("on disk"));
}

#[test]
fn a_snapshot_keeps_the_directory_until_it_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path()).unwrap();
    put(&b, 0, "k", "1");
    let snapshot = b.snapshot(&[StoreId(0)]).unwrap();
    assert!(b.snapshot(&[StoreId(9)]).is_err());
    drop(b);
    assert_eq!(
        open(dir.path()).unwrap_err().kind(),
        ErrorKind::StateLocked,
        "a snapshot is still open"
    );
    let found = snapshot.get(StoreId(0), b"k").unwrap();
    assert_eq!(found.as_deref(), Some(&b"1"[..]));
    drop(snapshot);
    open(dir.path()).unwrap();
}
