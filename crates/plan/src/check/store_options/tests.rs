//! RocksDB options of a store reach the plan, or are refused with the store's name.

use crate::testing::{compiled, refused, stream};
use serde_json::{Value, json};
use stoatflow_core::{BlockCompression, RocksDbConfig};

fn table(materialized: &Value) -> Value {
    json!({"op": "table", "topic": "t", "key": "string", "value": "string", "materialized": materialized})
}

fn state_store(in_memory: bool, rocksdb: &Value) -> Value {
    json!({"op": "state_store", "store": "seen", "kind": {"type": "key_value"}, "key": "string", "value": "string",
           "in_memory": in_memory, "rocksdb": rocksdb})
}

#[test]
fn store_options_reach_the_plan_and_side_stores() {
    let zstd = json!({"compression": "zstd", "cache_size": 1 << 20});
    let expiry = json!({"ttl": {"fixed": 1000}, "clock": "event", "forward": false});
    let plan = compiled(&json!([
        table(&json!({"store": "orders", "rocksdb": zstd, "expiry": expiry})),
        state_store(false, &zstd),
        {"op": "table", "topic": "u", "key": "string", "value": "string", "materialized": {"store": "plain"}},
        stream(),
        {"op": "process", "from": [3], "processor": 0, "stores": ["seen"]},
    ]));
    let beside = RocksDbConfig {
        compression: Some(BlockCompression::Zstd),
        ..RocksDbConfig::default()
    };
    let said = RocksDbConfig {
        cache_size: Some(1 << 20),
        ..beside
    };
    let of = |name: &str| plan.store_named(name).unwrap().rocksdb;
    assert_eq!(
        [of("orders"), of("orders-expiry"), of("seen"), of("plain")],
        [Some(said), Some(beside), Some(said), None],
        "a cache is of one store"
    );
}

#[test]
fn the_windows_of_a_count_and_their_positions_are_kept_alike() {
    let plan = compiled(&json!([
        stream(),
        {"op": "group_by_key", "from": 0},
        {"op": "windowed_by", "from": 1, "window": {"type": "count", "records": 3}},
        {"op": "count", "from": 2, "materialized": {"store": "counts", "rocksdb": {"bloom_bits": 0}}},
    ]));
    assert_eq!(plan.stores.len(), 2);
    for store in &plan.stores {
        assert_eq!(
            store.rocksdb.and_then(|said| said.bloom_bits),
            Some(0),
            "{}",
            store.name
        );
    }
}

#[test]
fn impossible_options_name_the_store() {
    for (node, words) in [
        (
            table(&json!({"store": "orders", "rocksdb": {"block_size": 8}})),
            "table(): the store 'orders': RocksDBConfig(block_size=8) must be between 1024 and 1048576",
        ),
        (
            table(&json!({"store": "orders", "in_memory": true, "rocksdb": {}})),
            "the store 'orders' is in memory, where RocksDB keeps nothing: leave rocksdb= out",
        ),
        (
            state_store(true, &json!({})),
            "the store 'seen' is in memory",
        ),
        (table(&json!({"rocksdb": {}})), "needs a name"),
    ] {
        let message = refused(&json!([node, stream()]));
        assert!(message.contains(words), "{message}");
    }
}
