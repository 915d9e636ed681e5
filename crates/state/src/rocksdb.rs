//! A back end on disk: one RocksDB per application, one column family per store.
//!
//! Block cache and write buffers share one memory budget. Data and changelog offsets are written in one
//! batch, so they always agree. The write-ahead log isn't synced: a power loss may cut off its end, data
//! and offsets together, and the changelog restores both.
//!
//! The meta column family holds the format version, the format of each store, and the offsets.

mod batch;
mod damage;
mod errors;
mod open;
mod options;
mod orphans;
mod snapshot;
#[cfg(test)]
mod tests;

use crate::{
    Backend, DatabaseFigures, EpochBatch, KeyRange, RestoreRun, Snapshot, StoreLayout, StoreSize,
    Write,
};
use ::rocksdb::{BoundColumnFamily, DB, Direction, IteratorMode, ReadOptions};
use bytes::Bytes;
pub use damage::Opened;
use damage::Refusal;
use errors::DatabaseDir;
use options::Budget;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use stoatflow_core::{Error, Offset, Partition, Result, StoreId, Timestamp};

/// The meta column family. A colon can't be part of a store's name.
const META: &str = "stoatflow:meta";

/// Keeps stores on disk.
pub struct RocksBackend {
    /// Shared with open snapshots: the database closes when the last one is dropped.
    db: Arc<DB>,
    place: DatabaseDir,
    budget: Budget,
    /// Column family names by store id.
    names: Vec<Option<String>>,
    orphans: Vec<String>,
    /// Directory of sorted files until RocksDB ingests them.
    ingest: PathBuf,
    next_file: AtomicU64,
    /// Stores being restored.
    loaded: Mutex<BTreeMap<StoreId, batch::Loaded>>,
}

impl std::fmt::Debug for RocksBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksBackend")
            .field("dir", &self.place.dir)
            .field("stores", &self.names)
            .finish_non_exhaustive()
    }
}

impl RocksBackend {
    /// Opens or creates the state in `dir`. Block cache and write buffers of all stores together
    /// use about `memory_max_bytes`.
    ///
    /// # Errors
    /// `StateLocked` if another process has it open, `Incompatible` if StoatFlow didn't write it or
    /// other serdes were used, `DiskFull`, `Config` if the directory can't be created or read.
    pub fn open_or_damage(
        dir: impl Into<PathBuf>,
        layouts: &[StoreLayout],
        memory_max_bytes: usize,
    ) -> Result<Opened> {
        match open::open(dir.into(), layouts, memory_max_bytes) {
            Ok(backend) => Ok(Opened::Whole(Box::new(backend))),
            Err(Refusal::Damaged(error)) => Ok(Opened::Damaged(error)),
            Err(Refusal::Other(error)) => Err(error),
        }
    }

    /// As [`Self::open_or_damage`], but damage is an error like others.
    ///
    /// # Errors
    /// `StateCorrupt` and `Incompatible` too.
    pub fn open(
        dir: impl Into<PathBuf>,
        layouts: &[StoreLayout],
        memory_max_bytes: usize,
    ) -> Result<Self> {
        match Self::open_or_damage(dir, layouts, memory_max_bytes)? {
            Opened::Whole(backend) => Ok(*backend),
            Opened::Damaged(error) => Err(error),
        }
    }

    /// Stores on disk that the topology doesn't have. They are kept and only cost space.
    #[must_use]
    pub fn orphans(&self) -> &[String] {
        &self.orphans
    }

    fn name(&self, store: StoreId) -> Result<&str> {
        let name = self
            .names
            .get(usize::from(store.0))
            .and_then(Option::as_deref);
        name.ok_or_else(|| {
            Error::internal(format!(
                "store {store} was not declared when the state was opened"
            ))
        })
    }

    fn family(&self, name: &str) -> Result<Arc<BoundColumnFamily<'_>>> {
        self.db
            .cf_handle(name)
            .ok_or_else(|| Error::internal(format!("the column family {name} is not open")))
    }

    fn store(&self, store: StoreId) -> Result<Arc<BoundColumnFamily<'_>>> {
        self.family(self.name(store)?)
    }

    /// An integer property of a store's column family; 0 if it has none.
    fn property(&self, store: StoreId, name: &str) -> u64 {
        let Ok(family) = self.store(store) else {
            return 0;
        };
        let found = self.db.property_int_value_cf(&family, name);
        found.ok().flatten().unwrap_or(0)
    }

    /// An integer property of the whole database; 0 if it has none.
    fn of_all(&self, name: &str) -> u64 {
        self.db.property_int_value(name).ok().flatten().unwrap_or(0)
    }
}

/// Options of a read of this range.
fn within(range: &KeyRange) -> ReadOptions {
    let mut options = ReadOptions::default();
    if let Some(from) = &range.from {
        options.set_iterate_lower_bound(from.to_vec());
    }
    if let Some(to) = &range.to {
        options.set_iterate_upper_bound(to.to_vec());
    }
    options
}

impl Backend for RocksBackend {
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>> {
        let found = self
            .db
            .get_pinned_cf(&self.store(store)?, key)
            .map_err(|e| self.place.error(&e))?;
        Ok(found.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn scan(&self, store: StoreId, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let options = within(range);
        let mode = if range.reverse {
            IteratorMode::End
        } else {
            IteratorMode::Start
        };
        let entries = self
            .db
            .iterator_cf_opt(&self.store(store)?, options, mode)
            .take(limit);
        entries
            .map(|e| {
                e.map(|(k, v)| (Bytes::from(k), Bytes::from(v)))
                    .map_err(|e| self.place.error(&e))
            })
            .collect()
    }

    fn visit(
        &self,
        store: StoreId,
        range: &KeyRange,
        take: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let mut options = within(range);
        // A full read must not evict blocks that lanes read again and again.
        options.fill_cache(false);
        let mut rows = self.db.raw_iterator_cf_opt(&self.store(store)?, options);
        if range.reverse {
            rows.seek_to_last();
        } else {
            rows.seek_to_first();
        }
        while let Some((key, value)) = rows.item() {
            if !take(key, value) {
                return Ok(());
            }
            if range.reverse {
                rows.prev();
            } else {
                rows.next();
            }
        }
        rows.status().map_err(|e| self.place.error(&e))
    }

    fn snapshot(&self, stores: &[StoreId]) -> Result<Box<dyn Snapshot>> {
        let named = stores.iter().map(|id| Ok((*id, self.name(*id)?.into())));
        let names = named.collect::<Result<_>>()?;
        let place = self.place.clone();
        Ok(Box::new(snapshot::RocksSnapshot::new(
            &self.db, names, place,
        )))
    }

    fn apply(&self, batch: EpochBatch) -> Result<()> {
        self.apply_epoch(&batch)
    }

    fn restore(
        &self,
        store: StoreId,
        writes: Vec<Write>,
        positions: &[(Partition, Offset)],
    ) -> Result<()> {
        self.load(store, writes.into_iter().collect(), positions)
    }

    fn bulk_load(
        &self,
        store: StoreId,
        run: RestoreRun,
        positions: &[(Partition, Offset)],
    ) -> Result<()> {
        self.load(store, run, positions)
    }

    fn loaded(&self, store: StoreId) -> Result<()> {
        self.release_compaction(store)
    }

    fn positions(&self, store: StoreId) -> Result<Vec<(Partition, Offset)>> {
        let prefix = open::position_prefix(self.name(store)?);
        let mut found = Vec::new();
        let meta = self.family(META)?;
        for entry in self
            .db
            .iterator_cf(&meta, IteratorMode::From(&prefix, Direction::Forward))
        {
            let (key, value) = entry.map_err(|e| self.place.error(&e))?;
            let Some(partition) = key.strip_prefix(prefix.as_slice()) else {
                break;
            };
            match (
                <[u8; 4]>::try_from(partition),
                <[u8; 8]>::try_from(value.as_ref()),
            ) {
                (Ok(p), Ok(o)) => found.push((
                    Partition(i32::from_be_bytes(p)),
                    Offset(i64::from_be_bytes(o)),
                )),
                _ => {
                    return Err(self
                        .place
                        .corrupt("a changelog position has the wrong length"));
                }
            }
        }
        Ok(found)
    }

    fn current_at(&self, store: StoreId) -> Result<Option<Timestamp>> {
        let key = open::current_key(self.name(store)?);
        let found = self.db.get_cf(&self.family(META)?, key);
        match found.map_err(|e| self.place.error(&e))? {
            None => Ok(None),
            Some(bytes) => match <[u8; 8]>::try_from(bytes.as_slice()) {
                Ok(ms) => Ok(Some(Timestamp(i64::from_be_bytes(ms)))),
                Err(_) => Err(self
                    .place
                    .corrupt("the time of a store's last commit has the wrong length")),
            },
        }
    }

    fn note_current(&self, stores: &[StoreId], at: Timestamp) -> Result<()> {
        self.write_current(stores, at)
    }

    fn source_topic(&self, store: StoreId) -> Result<Option<String>> {
        let key = open::source_topic_key(self.name(store)?);
        let found = self.db.get_cf(&self.family(META)?, key);
        let topic = found.map_err(|e| self.place.error(&e))?;
        let no_text = |_| self.place.corrupt("the source topic of a store is no text");
        topic
            .map(|topic| String::from_utf8(topic).map_err(no_text))
            .transpose()
    }

    fn note_source_topic(&self, store: StoreId, topic: Option<&str>) -> Result<()> {
        self.write_source_topic(store, topic)
    }

    fn wipe(&self, store: StoreId) -> Result<()> {
        self.wipe_store(store)
    }

    fn approximate_len(&self, store: StoreId) -> u64 {
        self.property(store, "rocksdb.estimate-num-keys")
    }

    fn size(&self, store: StoreId) -> StoreSize {
        StoreSize {
            keys: self.approximate_len(store),
            disk_bytes: self.property(store, "rocksdb.live-sst-files-size"),
            memory_bytes: self.property(store, "rocksdb.cur-size-all-mem-tables"),
        }
    }

    fn database(&self) -> Option<DatabaseFigures> {
        let counted = self.budget.counters();
        let all = (0..).zip(&self.names).filter(|(_, name)| name.is_some());
        let pending = all
            .map(|(id, _)| self.property(StoreId(id), "rocksdb.estimate-pending-compaction-bytes"));
        Some(DatabaseFigures {
            pending_compaction_bytes: pending.sum(),
            running_compactions: self.of_all("rocksdb.num-running-compactions"),
            running_flushes: self.of_all("rocksdb.num-running-flushes"),
            ..counted
        })
    }

    fn memory_bytes(&self) -> u64 {
        self.budget.used()
    }

    fn is_durable(&self) -> bool {
        true
    }
}
