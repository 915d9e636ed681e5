//! Checks of snapshots.
//!
//! A snapshot shows one moment, page by page and in both directions, whatever the back end does
//! meanwhile.

use super::{A, B, bytes, epoch, ok, write};
use crate::{Backend, CachedRead, EpochBatch, KeyRange, Page};
use bytes::Bytes;
use stoatflow_core::Epoch;

/// A snapshot shows one moment, page by page, whatever is applied, dropped or wiped meanwhile.
pub fn snapshots_stand_still(b: &dyn Backend) {
    let all = || {
        ["", "a", "b", "c", "d"]
            .map(|k| write(k, Some("old")))
            .to_vec()
    };
    ok(b.apply(epoch(1, vec![(A, all()), (B, all())], vec![])));
    let none = ok(b.snapshot(&[]));
    let before = ok(b.snapshot(&[A, B]));
    let page = |rows, bytes| Page { rows, bytes };
    let first = ok(before.page(A, None, page(2, 1_000)));
    assert_eq!(
        first,
        [("", "old"), ("a", "old")].map(|(k, v)| (bytes(k), bytes(v)))
    );
    let gone = KeyRange {
        from: None,
        to: Some(bytes("b")),
        reverse: false,
    };
    ok(b.apply(EpochBatch {
        epoch: Epoch(2),
        drops: vec![(A, gone)],
        writes: vec![(
            A,
            vec![
                write("b", None),
                write("bb", Some("new")),
                write("c", Some("new")),
            ],
        )],
        ..EpochBatch::default()
    }));
    ok(b.wipe(B));
    let keys = |entries: Vec<(Bytes, Bytes)>| -> Vec<String> {
        let text = |(k, _): (Bytes, Bytes)| String::from_utf8_lossy(&k).into_owned();
        entries.into_iter().map(text).collect()
    };
    let rest = ok(before.page(A, Some(&bytes("b")), page(99, 1_000)));
    assert!(rest.iter().all(|(_, value)| *value == bytes("old")));
    assert_eq!(keys(rest), ["b", "c", "d"]);
    assert_eq!(keys(ok(before.page(B, None, page(99, 1_000)))).len(), 5);
    assert_eq!(ok(before.get(A, b"b")), Some(bytes("old")));
    assert_eq!(ok(before.get(A, b"bb")), None);
    // Once it was read, it is in memory.
    let cached = ok(before.get_cached(A, b"b"));
    assert_eq!(cached, CachedRead::Known(Some(bytes("old"))));
    let cached = ok(before.get_cached(A, b"bb"));
    assert!(matches!(
        cached,
        CachedRead::Known(None) | CachedRead::OnDisk
    ));
    assert_eq!(
        keys(ok(before.page(A, Some(&bytes("bb")), page(1, 1_000)))),
        ["c"]
    );
    let range = |from: Option<&str>, to: Option<&str>, reverse| KeyRange {
        from: from.map(bytes),
        to: to.map(bytes),
        reverse,
    };
    let scan = |range: KeyRange, rows| keys(ok(before.scan(A, &range, page(rows, 1_000))));
    assert_eq!(scan(range(Some("b"), Some("d"), false), 9), ["b", "c"]);
    assert_eq!(scan(range(Some("b"), Some("d"), true), 9), ["c", "b"]);
    assert_eq!(scan(range(None, None, true), 2), ["d", "c"]);
    assert!(scan(range(Some("c"), Some("c"), false), 9).is_empty());
    assert!(scan(range(Some("d"), Some("b"), true), 9).is_empty());
    assert!(ok(before.page(A, Some(&bytes("d\0")), page(9, 1_000))).is_empty());
    assert_eq!(
        keys(ok(before.page(A, None, page(99, 8)))),
        ["", "a", "b"],
        "3, 7, 11 bytes: the page ends with the entry that reaches 8"
    );
    assert_eq!(
        keys(ok(before.page(A, None, page(99, 0)))),
        [""],
        "one at least"
    );
    drop(none);
    let after = ok(b.snapshot(&[A]));
    assert_eq!(
        keys(ok(after.page(A, None, page(99, 1_000)))),
        ["bb", "c", "d"]
    );
    drop(before);
    assert_eq!(ok(after.get(A, b"c")), Some(bytes("new")));
}
