//! RocksDB's options: one memory budget for all stores, tuned for point lookups, and the options that a
//! store sets for itself.
//!
//! A store's own block cache is taken out of the budget. The shared block cache is a hyper clock cache:
//! the default LRU cache has 64 shards, and if a shard is smaller than one filter block, every lookup
//! reads the filter from disk (140 µs instead of 3). Write buffers are charged to the cache, so that
//! both together stay within the budget.

use crate::{DatabaseFigures, StoreLayout};
use ::rocksdb::statistics::{StatsLevel, Ticker};
use ::rocksdb::{
    BlockBasedOptions, Cache, DBCompactionStyle, DBCompressionType, LogLevel, Options,
    WriteBufferManager,
};
use std::collections::BTreeMap;
use stoatflow_core::{BlockCompression, CompactionStyle, RocksDbOptions};

const MIB: usize = 1 << 20;

/// An epoch's rows are written in key order, so the search for a row's place in the write buffer can
/// start at the row before. A prefix of zero bytes makes one hint for all keys. The crate has no
/// function for it.
pub(super) const HINTS: &str = "memtable_insert_with_hint_prefix_extractor=rocksdb.CappedPrefix.0";

/// The options of one store, and its own block cache if it has one.
struct RequestedOptions {
    options: RocksDbOptions,
    cache: Option<Cache>,
}

/// The memory that all stores share.
pub(super) struct Budget {
    cache: Cache,
    /// Options by store name; a missing store has the defaults.
    stores: BTreeMap<String, RequestedOptions>,
    buffers: WriteBufferManager,
    buffer_bytes: usize,
    /// All options of the database are copies of these and share their counters.
    counted: Options,
}

impl Budget {
    pub fn new(memory_max_bytes: usize, layouts: &[StoreLayout]) -> Self {
        let own = |layout: &StoreLayout| usize::try_from(layout.rocksdb.cache_size?).ok();
        let shared = layouts.iter().filter_map(own);
        let shared = shared.fold(memory_max_bytes, usize::saturating_sub);
        let cache = Cache::new_hyper_clock_cache(shared, 0);
        let asked = |layout: &StoreLayout| RequestedOptions {
            options: layout.rocksdb,
            cache: own(layout).map(|bytes| Cache::new_hyper_clock_cache(bytes, 0)),
        };
        let stores = layouts
            .iter()
            .map(|layout| (layout.name.clone(), asked(layout)));
        let buffer_bytes = (memory_max_bytes / 8).max(2 * MIB);
        // No stall: a commit must not wait for a flush.
        let buffers = WriteBufferManager::new_write_buffer_manager_with_cache(
            buffer_bytes,
            false,
            cache.clone(),
        );
        let mut counted = Options::default();
        counted.enable_statistics();
        counted.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
        Self {
            cache,
            stores: stores.collect(),
            buffers,
            buffer_bytes,
            counted,
        }
    }

    /// Bytes in use, including write buffers.
    pub fn used(&self) -> u64 {
        let own = self
            .stores
            .values()
            .filter_map(|asked| asked.cache.as_ref());
        let all = std::iter::once(&self.cache).chain(own);
        all.map(|cache| cache.get_usage() as u64).sum()
    }

    /// RocksDB's counters since the database was opened.
    pub fn counters(&self) -> DatabaseFigures {
        let count = |ticker| self.counted.get_ticker_count(ticker);
        DatabaseFigures {
            cache_bytes: self.used(),
            cache_hits: count(Ticker::BlockCacheHit),
            cache_misses: count(Ticker::BlockCacheMiss),
            bloom_filter_useful: count(Ticker::BloomFilterUseful),
            flushed_bytes: count(Ticker::FlushWriteBytes),
            compaction_read_bytes: count(Ticker::CompactReadBytes),
            compaction_written_bytes: count(Ticker::CompactWriteBytes),
            stalled_us: count(Ticker::StallMicros),
            ..DatabaseFigures::default()
        }
    }

    /// Options of the database.
    pub fn database(&self) -> Options {
        let mut o = self.counted.clone();
        o.create_if_missing(true);
        o.set_write_buffer_manager(&self.buffers);
        // All stores are flushed together: after a power loss none is ahead of another.
        o.set_atomic_flush(true);
        o.set_max_total_wal_size((self.buffer_bytes as u64 * 2).max(64 << 20));
        o.set_max_background_jobs(2);
        // A process is often limited to 1,024 files, and sockets need theirs.
        o.set_max_open_files(512);
        o.set_keep_log_file_num(2);
        o.set_max_log_file_size(MIB);
        o.set_log_level(LogLevel::Warn);
        o
    }

    /// Options of a store.
    pub fn store(&self, name: &str) -> Options {
        let asked = self.stores.get(name);
        let options = asked.map(|asked| asked.options).unwrap_or_default();
        let own = asked.and_then(|asked| asked.cache.as_ref());
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(own.unwrap_or(&self.cache));
        table.set_block_size(usize::try_from(options.block_size).unwrap_or(usize::MAX));
        if options.bloom_bits > 0 {
            table.set_bloom_filter(f64::from(options.bloom_bits), false);
        }
        // Inside the budget, but not evicted by data blocks.
        table.set_cache_index_and_filter_blocks(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        table.set_optimize_filters_for_memory(true);
        // If RocksDB doesn't know the option, the default applies: search from the start.
        let mut o = Options::default()
            .get_options_from_string(HINTS)
            .unwrap_or_default();
        o.set_block_based_table_factory(&table);
        // Fresh files are soon merged into the next level, which compresses them once.
        let mut packing = [compression(options.compression); 7];
        packing[0] = DBCompressionType::None;
        o.set_compression_per_level(&packing);
        let buffer = (self.buffer_bytes / 2).clamp(MIB, 64 * MIB);
        o.set_write_buffer_size(buffer);
        // Equal to what is compacted at once: four files of fresh writes.
        o.set_max_bytes_for_level_base(4 * buffer as u64);
        match options.compaction {
            CompactionStyle::Level => o.set_level_compaction_dynamic_level_bytes(true),
            CompactionStyle::Universal => o.set_compaction_style(DBCompactionStyle::Universal),
        }
        o
    }
}

const fn compression(of: BlockCompression) -> DBCompressionType {
    match of {
        BlockCompression::None => DBCompressionType::None,
        BlockCompression::Lz4 => DBCompressionType::Lz4,
        BlockCompression::Zstd => DBCompressionType::Zstd,
    }
}
