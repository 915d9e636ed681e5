//! RocksDB's settings, and why.

use rocksdb::{BlockBasedOptions, Cache, DBCompressionType, Options, WriteBufferManager};

/// The share of the budget that write buffers may take; the rest is block cache.
const WRITE_SHARE: usize = 4;
/// Below this RocksDB flushes all the time.
const MIN_WRITE_BUFFER: usize = 4 << 20;

/// The memory that all stores of an application share.
#[derive(Clone)]
pub(super) struct Budget {
    cache: Cache,
    buffers: WriteBufferManager,
}

impl Budget {
    /// Divides a budget.
    pub(super) fn new(bytes: usize) -> Self {
        let write = (bytes / WRITE_SHARE).max(MIN_WRITE_BUFFER);
        // A hyper clock cache: the default LRU splits into 64 shards, each smaller than one filter
        // block of a large store, which then is read from disk for every get (measured: 140 µs).
        let cache = Cache::new_hyper_clock_cache(bytes.saturating_sub(write).max(MIN_WRITE_BUFFER), 0);
        Self { buffers: WriteBufferManager::new_write_buffer_manager(write, false), cache }
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> u64 {
        (self.cache.get_usage() + self.buffers.get_usage()) as u64
    }

    /// Settings of the database.
    pub(super) fn database(&self) -> Options {
        let mut options = self.family();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_write_buffer_manager(&self.buffers);
        options.set_max_background_jobs(2);
        options.set_max_open_files(512);
        options.set_keep_log_file_num(2);
        options.set_max_total_wal_size(64 << 20);
        options
    }

    /// Settings of a store.
    pub(super) fn family(&self) -> Options {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&self.cache);
        table.set_cache_index_and_filter_blocks(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        // Ten bits: one absent key in a hundred goes to disk.
        table.set_bloom_filter(10.0, false);
        table.set_block_size(16 << 10);
        let mut options = Options::default();
        options.set_block_based_table_factory(&table);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_write_buffer_size(16 << 20);
        options
    }
}
