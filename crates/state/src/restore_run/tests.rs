//! Order and repeated keys, compared with a simple implementation.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn write(key: &[u8], value: Option<&[u8]>) -> Write {
    Write {
        key: Bytes::copy_from_slice(key),
        value: value.map(Bytes::copy_from_slice),
    }
}

#[test]
fn the_last_record_of_a_key_counts() {
    let run: RestoreRun = [
        write(b"b", Some(b"1")),
        write(b"a", Some(b"1")),
        write(b"b", None),
        write(b"a", Some(b"")),
        write(b"", Some(b"empty")),
    ]
    .into_iter()
    .collect();
    assert_eq!(run.len(), 5);
    let sorted: Vec<_> = run.sorted().collect();
    assert_eq!(
        sorted,
        [
            (b"".as_slice(), Some(b"empty".as_slice())),
            (b"a", Some(b"")),
            (b"b", None)
        ]
    );
}

#[test]
fn zeros_at_the_end_of_a_key_are_part_of_it() {
    let keys: [&[u8]; 4] = [
        b"k",
        b"k\0",
        b"k\0\0",
        b"k\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ];
    let run: RestoreRun = keys.iter().rev().map(|k| write(k, Some(k))).collect();
    let sorted: Vec<_> = run.sorted().collect();
    assert_eq!(sorted, keys.map(|k| (k, Some(k))));
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    // Long shared prefixes, few letters, all lengths around the 16 bytes that are compared first.
    (0usize..24, proptest::collection::vec(0u8..3, 0..6))
        .prop_map(|(shared, rest)| [vec![7; shared], rest].concat())
}

proptest! {
    #[test]
    fn sorted_is_what_a_tree_holds(
        writes in proptest::collection::vec((keys(), proptest::option::of(0u8..9)), 0..200),
    ) {
        let writes: Vec<Write> = writes
            .into_iter()
            .map(|(key, value)| write(&key, value.map(|v| vec![v; usize::from(v)]).as_deref()))
            .collect();
        let run: RestoreRun = writes.iter().cloned().collect();
        let tree: BTreeMap<Bytes, Option<Bytes>> =
            writes.iter().map(|w| (w.key.clone(), w.value.clone())).collect();
        let sorted: Vec<_> = run.sorted().map(|(k, v)| write(k, v)).collect();
        let wanted: Vec<_> =
            tree.into_iter().map(|(key, value)| Write { key, value }).collect();
        prop_assert_eq!(sorted, wanted);
        let in_order: Vec<_> = run.iter().map(|(k, v)| write(k, v)).collect();
        prop_assert_eq!(&in_order, &writes);
        let copied: Vec<_> = run.copied().map(|(key, value)| Write { key, value }).collect();
        prop_assert_eq!(&copied, &writes);
        prop_assert_eq!(run.into_writes(), writes);
    }
}
