//! Stores on disk: one RocksDB per application, a column family per store.
//!
//! Takes epochs and restored batches; gives committed values. Owns the directory (RocksDB's lock keeps
//! others out), one block cache and one write-buffer budget for all stores. An epoch is ONE write
//! batch: data and changelog positions together. The write-ahead log is on and not synced: after the
//! end of the process nothing is lost, after the end of the machine a consistent older epoch is there,
//! and restore reads the rest from the changelog.

mod batch;
mod errors;
mod open;
mod options;
mod restore;

use crate::{Backend, EpochBatch, KeyRange, Write};
use bytes::Bytes;
use rocksdb::{BoundColumnFamily, DB, Direction, IteratorMode, ReadOptions};
use std::path::PathBuf;
use std::sync::Arc;
use stoatflow_core::{Error, Offset, Partition, Result, StoreId};

use errors::located;

/// Where positions and formats are kept.
const META: &str = "stoatflow-meta";

/// One store of the application.
#[derive(Debug)]
struct Family {
    id: StoreId,
    name: String,
}

/// Stores in RocksDB.
pub struct RocksBackend {
    db: DB,
    dir: PathBuf,
    families: Vec<Family>,
    orphans: Vec<String>,
    budget: options::Budget,
}

impl std::fmt::Debug for RocksBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksBackend").field("dir", &self.dir).field("families", &self.families).finish_non_exhaustive()
    }
}

impl RocksBackend {
    /// Stores on disk that the topology no longer has.
    #[must_use]
    pub fn orphans(&self) -> &[String] {
        &self.orphans
    }

    fn family(&self, store: StoreId) -> Result<Arc<BoundColumnFamily<'_>>> {
        let family = self.families.iter().find(|f| f.id == store);
        family
            .and_then(|f| self.db.cf_handle(&f.name))
            .ok_or_else(|| Error::internal(format!("the back end was not opened with store {store}")))
    }

    fn meta(&self) -> Result<Arc<BoundColumnFamily<'_>>> {
        self.db.cf_handle(META).ok_or_else(|| Error::internal("the back end has no place for positions"))
    }

    fn name(&self, store: StoreId) -> &str {
        self.families.iter().find(|f| f.id == store).map_or("?", |f| f.name.as_str())
    }
}

/// The key of a store's position in [`META`].
fn position_key(store: &str, partition: Partition) -> Vec<u8> {
    let mut key = position_prefix(store);
    key.extend_from_slice(&partition.0.to_be_bytes());
    key
}

/// All positions of a store begin with this; a store's name holds no zero byte.
fn position_prefix(store: &str) -> Vec<u8> {
    [b"position\0", store.as_bytes(), b"\0"].concat()
}

impl Backend for RocksBackend {
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>> {
        let family = self.family(store)?;
        let value = self.db.get_pinned_cf(&family, key).map_err(|e| located(&e, &self.dir))?;
        Ok(value.map(|v| Bytes::copy_from_slice(&v)))
    }

    fn scan(&self, store: StoreId, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
        let family = self.family(store)?;
        let mut options = ReadOptions::default();
        if let Some(from) = &range.from {
            options.set_iterate_lower_bound(from.to_vec());
        }
        if let Some(to) = &range.to {
            options.set_iterate_upper_bound(to.to_vec());
        }
        if let (Some(from), Some(to)) = (&range.from, &range.to)
            && from >= to
        {
            return Ok(Vec::new());
        }
        let mode = if range.reverse { IteratorMode::End } else { IteratorMode::Start };
        let mut found = Vec::new();
        for entry in self.db.iterator_cf_opt(&family, options, mode).take(limit) {
            let (key, value) = entry.map_err(|e| located(&e, &self.dir))?;
            found.push((Bytes::from(key), Bytes::from(value)));
        }
        Ok(found)
    }

    fn apply(&self, batch: EpochBatch) -> Result<()> {
        self.apply_batch(batch)
    }

    fn restore(&self, store: StoreId, writes: Vec<Write>, positions: &[(Partition, Offset)]) -> Result<()> {
        self.restore_batch(store, writes, positions)
    }

    fn positions(&self, store: StoreId) -> Result<Vec<(Partition, Offset)>> {
        let prefix = position_prefix(self.name(store));
        let meta = self.meta()?;
        let mut found = Vec::new();
        for entry in self.db.iterator_cf(&meta, IteratorMode::From(&prefix, Direction::Forward)) {
            let (key, value) = entry.map_err(|e| located(&e, &self.dir))?;
            let Some(rest) = key.strip_prefix(prefix.as_slice()) else { break };
            let parsed = rest.try_into().ok().map(i32::from_be_bytes).zip(value.as_ref().try_into().ok().map(i64::from_be_bytes));
            let (partition, offset) = parsed.ok_or_else(|| {
                Error::state_corrupt(format!("the position of store '{}' in {} is damaged", self.name(store), self.dir.display()))
            })?;
            found.push((Partition(partition), Offset(offset)));
        }
        Ok(found)
    }

    fn wipe(&self, store: StoreId) -> Result<()> {
        self.wipe_store(store)
    }

    fn approximate_len(&self, store: StoreId) -> u64 {
        let estimate = self.family(store).ok().and_then(|family| {
            self.db.property_int_value_cf(&family, "rocksdb.estimate-num-keys").ok().flatten()
        });
        estimate.unwrap_or(0)
    }

    fn memory_bytes(&self) -> u64 {
        self.budget.used()
    }

    fn is_durable(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
