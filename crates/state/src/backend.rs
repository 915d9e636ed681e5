//! The contract of a back end: it holds committed data only, applied one epoch at a time.

use crate::{KeyRange, RestoreRun, Snapshot};
use bytes::Bytes;
use std::fmt::Debug;
use stoatflow_core::{Epoch, Offset, Partition, Result, RocksDbOptions, StoreId, Timestamp};

/// One key of a store after an epoch; `None` deletes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key's bytes.
    pub key: Bytes,
    /// The value's bytes.
    pub value: Option<Bytes>,
}

/// Everything an epoch changed, with the changelog positions that it reaches.
#[derive(Clone, Debug, Default)]
pub struct EpochBatch {
    /// The epoch's number.
    pub epoch: Epoch,
    /// Ranges to delete, before the writes of this batch are applied (`reverse` is ignored).
    pub drops: Vec<(StoreId, KeyRange)>,
    /// Writes per store; a key occurs at most once per store.
    pub writes: Vec<(StoreId, Vec<Write>)>,
    /// Per store and changelog partition: the next changelog offset to read on restore.
    pub positions: Vec<(StoreId, Partition, Offset)>,
}

/// A store that a back end must keep.
#[derive(Clone, Debug)]
pub struct StoreLayout {
    /// Its id in this run.
    pub id: StoreId,
    /// Its name, which identifies it on disk.
    pub name: String,
    /// The format of keys and values (`"kv-timestamped:string:int64"`); a store on disk with
    /// another format is refused.
    pub format: String,
    /// RocksDB options of this store; back ends in memory ignore them.
    pub rocksdb: RocksDbOptions,
}

/// Approximate size of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// Number of keys. On disk an estimate: overwritten keys count again until compaction merges files.
    pub keys: u64,
    /// Bytes of its files.
    pub disk_bytes: u64,
    /// Bytes in memory: the whole store if it is kept in memory, its write buffers if it is on disk.
    pub memory_bytes: u64,
}

/// Figures of a database on disk. Counts start when it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatabaseFigures {
    /// Bytes of the block cache in use.
    pub cache_bytes: u64,
    /// Blocks that reads found in the cache.
    pub cache_hits: u64,
    /// Blocks that reads didn't find in the cache.
    pub cache_misses: u64,
    /// File reads that Bloom filters avoided.
    pub bloom_filter_useful: u64,
    /// Bytes flushed from write buffers to new files.
    pub flushed_bytes: u64,
    /// Bytes that compactions have read.
    pub compaction_read_bytes: u64,
    /// Bytes that compactions have written.
    pub compaction_written_bytes: u64,
    /// About how many bytes compactions still have to rewrite.
    pub pending_compaction_bytes: u64,
    /// Compactions under way.
    pub running_compactions: u64,
    /// Flushes under way.
    pub running_flushes: u64,
    /// How long writes were stalled by compactions or flushes, in microseconds.
    pub stalled_us: u64,
}

/// Keeps committed data of all stores of an application.
pub trait Backend: Send + Sync + Debug {
    /// The committed value.
    ///
    /// # Errors
    /// `StateCorrupt`, `DiskFull`, `Internal`.
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>>;
    /// Committed entries in byte order of keys, at most `limit`.
    ///
    /// # Errors
    /// As `get`.
    fn scan(&self, store: StoreId, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Bytes)>>;
    /// Passes committed entries in byte order of keys to `take`, until it returns false. An entry is copied
    /// only if the back end can't lend it.
    ///
    /// # Errors
    /// As `get`.
    fn visit(
        &self,
        store: StoreId,
        range: &KeyRange,
        take: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let rows = self.scan(store, range, usize::MAX)?;
        let _stopped = rows.iter().all(|(key, value)| take(key, value));
        Ok(())
    }
    /// A snapshot of these stores, for long reads.
    ///
    /// # Errors
    /// As `get`.
    fn snapshot(&self, stores: &[StoreId]) -> Result<Box<dyn Snapshot>>;
    /// Whether applying an epoch copies one of these stores while a snapshot of it is held.
    fn snapshot_forces_copy(&self, _stores: &[StoreId]) -> bool {
        false
    }
    /// Applies an epoch: all of it or nothing, data and positions together.
    ///
    /// # Errors
    /// As `get`.
    fn apply(&self, batch: EpochBatch) -> Result<()>;
    /// Applies restored changelog records (possibly many, in changelog order; later wins) with the
    /// position reached. Faster than `apply` for a cold store.
    ///
    /// # Errors
    /// As `get`.
    fn restore(
        &self,
        store: StoreId,
        writes: Vec<Write>,
        positions: &[(Partition, Offset)],
    ) -> Result<()>;
    /// As `restore`, for a whole run, which some back ends load faster. Runs of one store arrive in
    /// order; different stores may be loaded in parallel.
    ///
    /// # Errors
    /// As `get`.
    fn bulk_load(
        &self,
        store: StoreId,
        run: RestoreRun,
        positions: &[(Partition, Offset)],
    ) -> Result<()> {
        self.restore(store, run.into_writes(), positions)
    }
    /// Called when the store has caught up with its changelog, and the indexes that must be built from it
    /// are built: postponed work can be done now.
    ///
    /// # Errors
    /// As `get`.
    fn loaded(&self, store: StoreId) -> Result<()> {
        let _ = store;
        Ok(())
    }
    /// The changelog offsets up to which this store's data is complete.
    ///
    /// # Errors
    /// As `get`.
    fn positions(&self, store: StoreId) -> Result<Vec<(Partition, Offset)>>;
    /// When this store was last known to have its whole changelog, by the broker's clock.
    ///
    /// # Errors
    /// As `get`.
    fn current_at(&self, store: StoreId) -> Result<Option<Timestamp>>;
    /// Records that time for these stores.
    ///
    /// # Errors
    /// As `get`.
    fn note_current(&self, stores: &[StoreId], at: Timestamp) -> Result<()>;
    /// The topic that the positions refer to; `None` if it is the store's own changelog.
    ///
    /// # Errors
    /// As `get`.
    fn source_topic(&self, store: StoreId) -> Result<Option<String>>;
    /// Records that topic; `None` for the store's own changelog.
    ///
    /// # Errors
    /// As `get`.
    fn note_source_topic(&self, store: StoreId, topic: Option<&str>) -> Result<()>;
    /// Deletes all data of the store, its positions, and what `current_at` and `source_topic` return.
    ///
    /// # Errors
    /// As `get`.
    fn wipe(&self, store: StoreId) -> Result<()>;
    /// About how many keys the store has.
    fn approximate_len(&self, store: StoreId) -> u64;
    /// The approximate size of a store. May wait for locks of the database.
    fn size(&self, store: StoreId) -> StoreSize {
        StoreSize {
            keys: self.approximate_len(store),
            ..StoreSize::default()
        }
    }
    /// Figures of the database on disk, if there is one. May wait for its locks.
    fn database(&self) -> Option<DatabaseFigures> {
        None
    }
    /// Bytes of memory in use (caches, write buffers, or the data itself).
    fn memory_bytes(&self) -> u64;
    /// Whether data survives the end of the process.
    fn is_durable(&self) -> bool;
}
