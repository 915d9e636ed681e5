//! The contract test suite of back ends, as functions that panic with the reason.
//!
//! For our back ends and for authors of others. Each check takes an empty back end with the stores of
//! [`layouts`]. [`run`] checks behaviour in one process, [`reopen`] what a durable back end must still
//! know after it is opened again.

#![allow(clippy::missing_panics_doc)] // a suite reports by panicking

mod ranges;
mod snapshots;

use crate::{Backend, EpochBatch, KeyRange, StoreLayout, Write};
use bytes::Bytes;
pub use ranges::{ranges_are_dropped_before_the_writes, scans_are_ordered_and_bounded};
pub use snapshots::snapshots_stand_still;
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
    // One name is a prefix of the other: their positions must not mix.
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

/// Reads return what was written; the last write counts; a delete deletes; empty keys and values and
/// zero bytes are valid.
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

/// Concurrent readers never see a position without its data while an epoch is applied.
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

/// Stores share neither data nor positions.
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

/// Each store has its own `current_at` time, which is deleted with its data.
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

/// Restored records may repeat a key; the last one counts and replaces older data.
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

/// As `later_restored_records_win`, with enough records for a back end's bulk path, and writes
/// afterwards.
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

/// A wiped store is like a new one, and other stores are unaffected.
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

/// What a durable back end still knows after it is opened again. `open` must not delete anything by
/// itself; the previous back end is dropped before it is called.
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
