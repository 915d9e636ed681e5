//! Sizes of stores, and what RocksDB counts.

use super::*;

#[test]
fn a_store_says_what_it_takes_up_and_reads_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path()).unwrap();
    let value = "v".repeat(1_000);
    for n in 0..200 {
        put(&b, 0, &format!("k{n:03}"), &value);
    }
    let written = b.size(StoreId(0));
    assert_eq!(written.keys, 200);
    assert!(written.memory_bytes > 200_000, "{written:?}");
    assert_eq!(b.size(StoreId(1)).keys, 0);
    drop(b);

    // Opening the database writes what was in memory to files, which RocksDB counts as a compaction.
    let b = open(dir.path()).unwrap();
    let found = b.size(StoreId(0));
    assert_eq!(found.keys, 200);
    assert!((200_000..300_000).contains(&found.disk_bytes), "{found:?}");
    let before = b.database().unwrap();
    assert!(before.compaction_written_bytes > 200_000, "{before:?}");
    assert!(b.get(StoreId(0), b"k007").unwrap().is_some());
    let read = b.database().unwrap();
    let blocks = |f: DatabaseFigures| f.cache_hits + f.cache_misses;
    assert!(blocks(read) > blocks(before), "{read:?}");
    // Within the key range of the file, so only its filter can rule the key out.
    assert!(b.get(StoreId(0), b"k0071").unwrap().is_none());
    assert!(b.database().unwrap().bloom_filter_useful > read.bloom_filter_useful);
}
