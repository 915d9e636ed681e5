//! The contract test suite of back ends, as functions that panic with the reason.
//!
//! For our back ends and for authors of others; takes an empty back end with the stores of
//! [`layouts`]. [`run`] checks behaviour in one process, [`reopen`] what a durable back end must
//! know after reopening.

#![allow(clippy::missing_panics_doc)] // panicking is how a suite speaks

use crate::{Backend, EpochBatch, KeyRange, Page, StoreLayout, Write};
use bytes::Bytes;
use stoatflow_core::{Epoch, Offset, Partition, Result, RocksDbOptions, StoreId, Timestamp};

const A: StoreId = StoreId(0);
const B: StoreId = StoreId(1);

/// The stores that a back end under test must know.
#[must_use]
pub fn layouts() -> Vec<StoreLayout> {
    let layout = |id, name: &str| StoreLayout {
        id,
        name: name.to_owned(),
        format: "kv-timestamped:string:int64".to_owned(),
        rocksdb: RocksDbOptions::default(),
    };
    // One name is a prefix of the other: their offsets must not mix.
    vec![layout(A, "orders"), layout(B, "orders-by-day")]
}

/// All checks but [`reopen`], each on an empty back end.
pub fn run(open: &mut dyn FnMut() -> Box<dyn Backend>) {
    for check in [
        round_trip,
        epochs_are_atomic,
        stores_are_apart,
        a_store_knows_when_it_was_current,
        scans_are_ordered_and_bounded,
        later_restored_records_win,
        large_restores,
        ranges_are_dropped_before_the_writes,
        wiping,
        snapshots_stand_still,
    ] {
        check(open().as_ref());
    }
}

fn ok<T>(result: Result<T>) -> T {
    result.expect("the back end must not fail here")
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn write(key: &str, value: Option<&str>) -> Write {
    Write {
        key: bytes(key),
        value: value.map(bytes),
    }
}

fn epoch(
    number: u64,
    writes: Vec<(StoreId, Vec<Write>)>,
    positions: Vec<(StoreId, Partition, Offset)>,
) -> EpochBatch {
    EpochBatch {
        epoch: Epoch(number),
        writes,
        positions,
        ..EpochBatch::default()
    }
}

fn value(b: &dyn Backend, store: StoreId, key: &str) -> Option<Bytes> {
    ok(b.get(store, key.as_bytes()))
}

fn keys(b: &dyn Backend, range: &KeyRange, limit: usize) -> Vec<String> {
    ok(b.scan(A, range, limit))
        .into_iter()
        .map(|(k, _)| String::from_utf8_lossy(&k).into_owned())
        .collect()
}

fn positions(b: &dyn Backend, store: StoreId) -> Vec<(i32, i64)> {
    let mut found: Vec<_> = ok(b.positions(store))
        .into_iter()
        .map(|(p, o)| (p.0, o.0))
        .collect();
    found.sort_unstable();
    found
}

/// What is written is read; the last write counts; a delete deletes; empty and zero bytes are bytes.
pub fn round_trip(b: &dyn Backend) {
    assert_eq!(value(b, A, "k"), None);
    ok(b.apply(epoch(
        1,
        vec![(
            A,
            vec![
                write("k", Some("1")),
                write("", Some("")),
                write("\0\u{7f}", Some("\0")),
            ],
        )],
        vec![],
    )));
    assert_eq!(value(b, A, "k"), Some(bytes("1")));
    assert_eq!(
        value(b, A, ""),
        Some(bytes("")),
        "an empty key and an empty value are not nothing"
    );
    assert_eq!(value(b, A, "\0\u{7f}"), Some(bytes("\0")));
    ok(b.apply(epoch(
        2,
        vec![(
            A,
            vec![write("k", Some("2")), write("", None), write("never", None)],
        )],
        vec![],
    )));
    assert_eq!(value(b, A, "k"), Some(bytes("2")));
    assert_eq!(value(b, A, ""), None);
    ok(b.apply(epoch(3, vec![], vec![])));
    assert_eq!(value(b, A, "k"), Some(bytes("2")));
}

/// Readers that read while an epoch is applied never see a position without its data.
pub fn epochs_are_atomic(b: &dyn Backend) {
    const EPOCHS: i64 = 300;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = 0;
            while seen < EPOCHS {
                let position = positions(b, A).first().map_or(0, |p| p.1);
                assert!(position >= seen, "a position went back");
                seen = position;
                if seen > 0 {
                    for (store, key) in [(A, "x"), (A, "y"), (B, "z")] {
                        let found = value(b, store, key)
                            .map_or(0, |v| String::from_utf8_lossy(&v).parse().unwrap_or(0));
                        assert!(
                            found >= seen,
                            "position {seen} without the data of {key}: {found}"
                        );
                    }
                }
            }
        });
        for n in 1..=EPOCHS {
            let text = n.to_string();
            let writes = vec![
                (A, vec![write("x", Some(&text)), write("y", Some(&text))]),
                (B, vec![write("z", Some(&text))]),
            ];
            ok(b.apply(epoch(
                u64::try_from(n).unwrap_or(0),
                writes,
                vec![
                    (A, Partition(0), Offset(n)),
                    (B, Partition(7), Offset(n * 2)),
                ],
            )));
        }
        reader.join().expect("the reader found an epoch in parts");
    });
    assert_eq!(positions(b, A), [(0, EPOCHS)]);
    assert_eq!(positions(b, B), [(7, EPOCHS * 2)]);
}

/// Stores share nothing.
pub fn stores_are_apart(b: &dyn Backend) {
    let at = |store, p, o| (store, Partition(p), Offset(o));
    ok(b.apply(epoch(
        1,
        vec![
            (A, vec![write("k", Some("a"))]),
            (B, vec![write("k", Some("b")), write("l", Some("b"))]),
        ],
        vec![at(A, 0, 1), at(B, 0, 2), at(A, 1, 3)],
    )));
    assert_eq!(
        (value(b, A, "k"), value(b, B, "k"), value(b, A, "l")),
        (Some(bytes("a")), Some(bytes("b")), None)
    );
    assert_eq!(positions(b, A), [(0, 1), (1, 3)]);
    assert_eq!(positions(b, B), [(0, 2)]);
    assert_eq!(keys(b, &KeyRange::default(), 9), ["k"]);
    assert!(b.approximate_len(B) >= 1);
}

/// When a store was current is its own, and is gone with its data.
pub fn a_store_knows_when_it_was_current(b: &dyn Backend) {
    let at = |store| ok(b.current_at(store));
    assert_eq!((at(A), at(B)), (None, None));
    ok(b.note_current(&[A, B], Timestamp(7)));
    ok(b.note_current(&[B], Timestamp(9)));
    ok(b.note_current(&[], Timestamp(11)));
    assert_eq!((at(A), at(B)), (Some(Timestamp(7)), Some(Timestamp(9))));
    assert!(positions(b, A).is_empty() && keys(b, &KeyRange::default(), 9).is_empty());
    ok(b.wipe(B));
    assert_eq!((at(A), at(B)), (Some(Timestamp(7)), None));
}

/// `from` is in, `to` is out, order is that of the bytes, in both directions.
pub fn scans_are_ordered_and_bounded(b: &dyn Backend) {
    let writes = ["b", "a", "ab", "d", "c", "\u{ff}", ""]
        .map(|k| write(k, Some("v")))
        .to_vec();
    ok(b.apply(epoch(1, vec![(A, writes)], vec![])));
    let range = |from: Option<&str>, to: Option<&str>, reverse| KeyRange {
        from: from.map(bytes),
        to: to.map(bytes),
        reverse,
    };
    assert_eq!(
        keys(b, &range(None, None, false), 99),
        ["", "a", "ab", "b", "c", "d", "\u{ff}"]
    );
    assert_eq!(
        keys(b, &range(None, None, true), 99),
        ["\u{ff}", "d", "c", "b", "ab", "a", ""]
    );
    assert_eq!(
        keys(b, &range(Some("a"), Some("c"), false), 99),
        ["a", "ab", "b"]
    );
    assert_eq!(
        keys(b, &range(Some("a"), Some("c"), true), 99),
        ["b", "ab", "a"]
    );
    assert_eq!(keys(b, &range(Some("aa"), None, false), 2), ["ab", "b"]);
    assert_eq!(keys(b, &range(None, Some("b"), true), 2), ["ab", "a"]);
    for (from, to) in [("c", "c"), ("d", "a"), ("e", "f")] {
        assert!(
            keys(b, &range(Some(from), Some(to), false), 9).is_empty(),
            "{from}..{to}"
        );
        assert!(
            keys(b, &range(Some(from), Some(to), true), 9).is_empty(),
            "{from}..{to} reverse"
        );
    }
    assert!(keys(b, &KeyRange::default(), 0).is_empty());
}

/// Restored records may repeat a key; the last one counts, also over what was there.
pub fn later_restored_records_win(b: &dyn Backend) {
    let writes = vec![
        write("a", Some("1")),
        write("b", Some("1")),
        write("a", Some("2")),
        write("b", None),
        write("c", None),
        write("c", Some("3")),
    ];
    ok(b.restore(A, writes, &[(Partition(0), Offset(6))]));
    assert_eq!(
        (value(b, A, "a"), value(b, A, "b"), value(b, A, "c")),
        (Some(bytes("2")), None, Some(bytes("3")))
    );
    ok(b.restore(
        A,
        vec![write("a", None), write("b", Some("9"))],
        &[(Partition(0), Offset(8)), (Partition(1), Offset(4))],
    ));
    assert_eq!(
        (value(b, A, "a"), value(b, A, "b")),
        (None, Some(bytes("9")))
    );
    assert_eq!(positions(b, A), [(0, 8), (1, 4)]);
}

/// The same, in amounts for which a back end may have a faster way; and writing goes on afterwards.
pub fn large_restores(b: &dyn Backend) {
    const N: usize = 12_000;
    let key = |i: usize| format!("key-{:05}", i * 7_919 % N);
    let writes = |round: usize| {
        (0..N)
            .map(|i| {
                write(
                    &key(i),
                    (i % 10 != round).then_some(if round == 0 { "first" } else { "second" }),
                )
            })
            .collect::<Vec<_>>()
    };
    let mut first = writes(0);
    first.splice(0..0, (0..N).map(|i| write(&key(i), Some("overwritten"))));
    ok(b.restore(A, first, &[(Partition(0), Offset(1))]));
    assert_eq!(
        ok(b.scan(A, &KeyRange::default(), usize::MAX)).len(),
        N - N / 10
    );
    assert_eq!(value(b, A, &key(10)), None);
    assert_eq!(value(b, A, &key(11)), Some(bytes("first")));
    ok(b.apply(epoch(
        1,
        vec![(
            A,
            vec![
                write(&key(12), Some("epoch")),
                write(&key(21), Some("epoch")),
            ],
        )],
        vec![],
    )));
    ok(b.restore(A, writes(1), &[(Partition(0), Offset(2))]));
    assert_eq!(value(b, A, &key(10)), Some(bytes("second")));
    assert_eq!(
        value(b, A, &key(12)),
        Some(bytes("second")),
        "restored later than the epoch"
    );
    assert_eq!(value(b, A, &key(21)), None, "deleted later than the epoch");
    ok(b.apply(epoch(
        2,
        vec![(A, vec![write(&key(11), Some("again"))])],
        vec![(A, Partition(0), Offset(3))],
    )));
    assert_eq!(value(b, A, &key(11)), Some(bytes("again")));
    let all = ok(b.scan(A, &KeyRange::default(), usize::MAX));
    assert_eq!(all.len(), N - N / 10 + 1);
    assert!(all.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(positions(b, A), [(0, 3)]);
}

/// A dropped range is empty, but for what the same epoch wrote; its ends are where they are for scans.
pub fn ranges_are_dropped_before_the_writes(b: &dyn Backend) {
    let range = |from: Option<&str>, to: Option<&str>| KeyRange {
        from: from.map(bytes),
        to: to.map(bytes),
        reverse: false,
    };
    let all = || {
        ["", "a", "ab", "b", "c", "\u{ff}"]
            .map(|k| write(k, Some("1")))
            .to_vec()
    };
    let drops = |b: &dyn Backend, range: KeyRange, writes: Vec<Write>| {
        ok(b.apply(epoch(1, vec![(A, all()), (B, all())], vec![])));
        ok(b.apply(EpochBatch {
            epoch: Epoch(2),
            drops: vec![(A, range)],
            writes: vec![(A, writes)],
            ..EpochBatch::default()
        }));
        let left = keys(b, &KeyRange::default(), 99);
        assert_eq!(ok(b.scan(B, &KeyRange::default(), 99)).len(), 6);
        left
    };
    let none = Vec::new;
    assert_eq!(
        drops(b, range(Some("a"), Some("b")), none()),
        ["", "b", "c", "\u{ff}"]
    );
    assert_eq!(
        value(b, A, "ab"),
        None,
        "a dropped key is not found by itself either"
    );
    assert_eq!(drops(b, range(None, Some("c")), none()), ["c", "\u{ff}"]);
    assert_eq!(
        drops(b, range(Some("ab"), None), vec![write("b", Some("2"))]),
        ["", "a", "b"]
    );
    assert_eq!(
        value(b, A, "b"),
        Some(bytes("2")),
        "the writes of an epoch come after its drops"
    );
    assert_eq!(drops(b, range(Some("b"), Some("b")), none()).len(), 6);
    assert_eq!(drops(b, range(Some("c"), Some("a")), none()).len(), 6);
    assert!(drops(b, range(None, None), none()).is_empty());
    ok(b.apply(EpochBatch {
        epoch: Epoch(3),
        drops: vec![(A, range(None, None)), (A, range(Some("x"), None))],
        ..EpochBatch::default()
    }));
    assert!(
        keys(b, &KeyRange::default(), 9).is_empty(),
        "dropping from an empty store"
    );
}

/// A wiped store is as if new, and the others don't notice.
pub fn wiping(b: &dyn Backend) {
    ok(b.wipe(A));
    let data = || {
        vec![
            write("a", Some("1")),
            write("\u{10ffff}", Some("2")),
            write("", Some("3")),
        ]
    };
    ok(b.apply(epoch(
        1,
        vec![(A, data()), (B, data())],
        vec![(A, Partition(0), Offset(5)), (B, Partition(0), Offset(6))],
    )));
    ok(b.wipe(A));
    assert!(keys(b, &KeyRange::default(), 9).is_empty());
    assert_eq!(value(b, A, "a"), None);
    assert!(positions(b, A).is_empty());
    assert_eq!(
        (value(b, B, "a"), positions(b, B)),
        (Some(bytes("1")), vec![(0, 6)])
    );
    ok(b.apply(epoch(
        2,
        vec![(A, vec![write("a", Some("new"))])],
        vec![(A, Partition(0), Offset(7))],
    )));
    assert_eq!(
        (value(b, A, "a"), positions(b, A)),
        (Some(bytes("new")), vec![(0, 7)])
    );
}

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

/// What a durable back end still knows when it is opened again. `open` must drop nothing by itself;
/// the one from before is gone when it is called.
pub fn reopen(open: &mut dyn FnMut() -> Box<dyn Backend>) {
    let b = open();
    assert!(b.is_durable(), "only durable back ends are reopened");
    ok(b.apply(epoch(
        1,
        vec![(A, vec![write("a", Some("1"))])],
        vec![(A, Partition(0), Offset(5))],
    )));
    let many = (0..10_000)
        .map(|i| write(&format!("many-{i:05}"), Some("m")))
        .collect();
    ok(b.restore(B, many, &[(Partition(3), Offset(6))]));
    drop(b);
    let b = open();
    assert_eq!(
        (value(b.as_ref(), A, "a"), positions(b.as_ref(), A)),
        (Some(bytes("1")), vec![(0, 5)])
    );
    assert_eq!(
        (value(b.as_ref(), B, "many-09999"), positions(b.as_ref(), B)),
        (Some(bytes("m")), vec![(3, 6)])
    );
    ok(b.wipe(B));
    drop(b);
    let b = open();
    assert_eq!(
        (value(b.as_ref(), B, "many-00000"), positions(b.as_ref(), B)),
        (None, vec![])
    );
    assert_eq!(value(b.as_ref(), A, "a"), Some(bytes("1")));
}
