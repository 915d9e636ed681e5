//! Checks of scans and of dropped ranges.
//!
//! Bounds, the order of keys, and that an epoch's writes follow its drops.

use super::{A, B, bytes, epoch, keys, ok, value, write};
use crate::{Backend, EpochBatch, KeyRange, Write};
use ::bytes::Bytes;
use stoatflow_core::Epoch;

/// `from` is inclusive, `to` is exclusive, keys are in byte order, in both directions.
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
    for (from, to) in [(None, None), (Some("a"), Some("c")), (Some("d"), Some("a"))] {
        for range in [range(from, to, false), range(from, to, true)] {
            let visited = |most| {
                let mut seen = Vec::new();
                ok(b.visit(A, &range, &mut |key, value| {
                    seen.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
                    seen.len() < most
                }));
                seen
            };
            assert_eq!(visited(99), ok(b.scan(A, &range, 99)));
            assert_eq!(visited(2), ok(b.scan(A, &range, 2)));
        }
    }
}

/// A dropped range is empty except for what the same epoch wrote; its bounds are those of scans.
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
