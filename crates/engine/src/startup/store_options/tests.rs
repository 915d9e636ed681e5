use super::{least_memory, rocksdb_part};

#[test]
fn the_memory_that_is_asked_for_is_enough_and_hardly_more() {
    for caches in [1 << 20, (1 << 20) + 1, 100_000_000] {
        let least = usize::try_from(least_memory(caches)).unwrap();
        assert!((rocksdb_part(least) / 2) as u64 >= caches, "{caches}");
        assert!(((rocksdb_part(least - 8) / 2) as u64) < caches, "{caches}");
    }
}
