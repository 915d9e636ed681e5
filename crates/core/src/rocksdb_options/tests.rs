use super::{BlockCompression, CompactionStyle, RocksDbConfig, RocksDbOptions};

#[test]
fn store_options_override_only_those_set() {
    let said = RocksDbConfig {
        compression: Some(BlockCompression::Zstd),
        bloom_bits: Some(0),
        ..RocksDbConfig::default()
    };
    let held = RocksDbOptions::default().with(&said);
    let expected = RocksDbOptions {
        compression: BlockCompression::Zstd,
        bloom_bits: 0,
        ..RocksDbOptions::default()
    };
    assert_eq!(held, expected);
    assert_eq!(held.with(&RocksDbConfig::default()), expected);
}

#[test]
fn numbers_have_bounds() {
    let problem = |block_size, bloom_bits| {
        let config = RocksDbConfig {
            block_size: Some(block_size),
            bloom_bits: Some(bloom_bits),
            ..RocksDbConfig::default()
        };
        config.problem()
    };
    assert_eq!(problem(1_024, 32), None);
    assert_eq!(
        problem(1_023, 10).as_deref(),
        Some("RocksDBConfig(block_size=1023) must be between 1024 and 1048576")
    );
    assert_eq!(
        problem(4_096, 33).as_deref(),
        Some("RocksDBConfig(bloom_bits=33) must be between 0 and 32")
    );
    let cache = RocksDbConfig {
        cache_size: Some(1_000),
        ..RocksDbConfig::default()
    };
    assert!(
        cache
            .problem()
            .is_some_and(|what| what.contains("cache_size=1000"))
    );
}

#[test]
fn the_words_of_settings_are_those_of_the_plan() {
    for word in ["none", "lz4", "zstd"] {
        let named = serde_json::to_value(BlockCompression::named(word)).unwrap();
        assert_eq!(named, word);
    }
    for word in ["level", "universal"] {
        assert_eq!(
            serde_json::to_value(CompactionStyle::named(word)).unwrap(),
            word
        );
    }
    assert_eq!(BlockCompression::named("snappy"), None);
    assert_eq!(CompactionStyle::named("fifo"), None);
}
