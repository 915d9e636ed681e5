//! Sizes of stores, and figures of RocksDB. Looked up at each scrape.

use super::cached_probe::CachedProbe;
use super::families::{Families, Labels, one, seconds};
use crate::admin::target::AdminTarget;
use std::fmt;
use std::sync::Arc;
use stoatflow_state::{DatabaseFigures, StoreSize};

#[derive(Clone, Debug)]
struct Found {
    sizes: Vec<(String, StoreSize)>,
    database: Option<DatabaseFigures>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct StoreFigures(Arc<CachedProbe<Found>>);

impl StoreFigures {
    /// Looks them up again.
    pub(super) async fn refresh(&self, target: &Arc<dyn AdminTarget>) {
        let target = Arc::clone(target);
        let find = move || {
            let sizes = target.store_sizes().ok()?;
            let database = target.database().ok()?;
            Some(Found { sizes, database })
        };
        self.0.refresh(find).await;
    }

    /// The stores on disk; empty if all are in memory.
    pub(super) fn on_disk(&self) -> Vec<(String, StoreSize)> {
        let found = self.0.last().filter(|found| found.database.is_some());
        found.map(|found| found.sizes).unwrap_or_default()
    }

    /// Writes nothing before the first values are known.
    pub(super) fn encode(&self, families: &mut Families<'_>) -> fmt::Result {
        let found = self.0.last();
        let sizes = found.iter().flat_map(|found| &found.sizes);
        let each = |of: fn(&StoreSize) -> u64| {
            let rows = sizes.clone();
            rows.map(move |(name, size)| -> (Labels, u64) {
                (vec![("store", name.clone())], of(size))
            })
        };
        families.gauge(
            "store_keys",
            "Keys of a store; on disk an estimate, in which what was written again counts again until it is merged",
            each(|size| size.keys),
        )?;
        families.gauge(
            "store_disk_bytes",
            "Bytes of a store's files",
            each(|size| size.disk_bytes),
        )?;
        families.gauge(
            "store_memory_bytes",
            "Bytes of a store in memory: all of one in memory; of one on disk, what was written last",
            each(|size| size.memory_bytes),
        )?;
        match found.and_then(|found| found.database) {
            Some(database) => encode_database(&database, families),
            None => Ok(()),
        }
    }
}

fn encode_database(database: &DatabaseFigures, families: &mut Families<'_>) -> fmt::Result {
    let cached =
        |found: &str, count| -> (Labels, u64) { (vec![("result", found.to_owned())], count) };
    families.counter(
        "rocksdb_block_reads",
        "Blocks that reads looked for in RocksDB's cache, by result",
        [
            cached("hit", database.cache_hits),
            cached("miss", database.cache_misses),
        ],
    )?;
    families.gauge(
        "rocksdb_block_cache_bytes",
        "Bytes in use of RocksDB's cache, write buffers included",
        one(database.cache_bytes),
    )?;
    families.counter(
        "rocksdb_bloom_filter_useful",
        "Files that a Bloom filter spared a read",
        one(database.bloom_filter_useful),
    )?;
    families.counter(
        "rocksdb_flushed_bytes",
        "Bytes that RocksDB wrote from memory to new files",
        one(database.flushed_bytes),
    )?;
    families.counter(
        "rocksdb_compaction_read_bytes",
        "Bytes that RocksDB's compactions have read",
        one(database.compaction_read_bytes),
    )?;
    families.counter(
        "rocksdb_compaction_written_bytes",
        "Bytes that RocksDB's compactions have written",
        one(database.compaction_written_bytes),
    )?;
    families.gauge(
        "rocksdb_pending_compaction_bytes",
        "Bytes that RocksDB's compactions have yet to rewrite, estimated",
        one(database.pending_compaction_bytes),
    )?;
    families.gauge(
        "rocksdb_running_compactions",
        "RocksDB's compactions under way",
        one(database.running_compactions),
    )?;
    families.gauge(
        "rocksdb_running_flushes",
        "RocksDB's flushes under way",
        one(database.running_flushes),
    )?;
    families.counter(
        "rocksdb_write_stall_seconds",
        "For how long commits waited for RocksDB's flushes or compactions",
        one(seconds(database.stalled_us, 1e6)),
    )
}
