//! A back end that keeps some stores in memory and the others on disk.
//!
//! An epoch is applied to the disk first: if the process dies in between, memory is lost anyway and
//! those stores are restored from their changelogs. Never copies between the two.

use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use stoatflow_core::{Offset, Partition, Result, StoreId, Timestamp};
use stoatflow_state::memory::MemoryBackend;
use stoatflow_state::{
    Backend, CachedRead, DatabaseFigures, EpochBatch, KeyRange, Page, RestoreRun, Snapshot,
    StoreSize, Write,
};

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug)]
pub(crate) struct SplitBackend {
    disk: Arc<dyn Backend>,
    memory: MemoryBackend,
    in_memory: BTreeSet<StoreId>,
}

impl SplitBackend {
    pub fn new(disk: Arc<dyn Backend>, in_memory: impl Iterator<Item = StoreId>) -> Self {
        Self {
            disk,
            memory: MemoryBackend::new(false),
            in_memory: in_memory.collect(),
        }
    }

    fn of(&self, store: StoreId) -> &dyn Backend {
        if self.in_memory.contains(&store) {
            &self.memory
        } else {
            self.disk.as_ref()
        }
    }
}

/// A snapshot of both. Each is consistent, and they show the same epoch: [`crate::query::SnapshotLock`]
/// keeps commits from applying one while the snapshot is taken.
#[derive(Debug)]
struct SplitSnapshot {
    disk: Box<dyn Snapshot>,
    memory: Box<dyn Snapshot>,
    in_memory: BTreeSet<StoreId>,
}

impl SplitSnapshot {
    fn of(&self, store: StoreId) -> &dyn Snapshot {
        if self.in_memory.contains(&store) {
            self.memory.as_ref()
        } else {
            self.disk.as_ref()
        }
    }
}

impl Snapshot for SplitSnapshot {
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>> {
        self.of(store).get(store, key)
    }

    fn get_cached(&self, store: StoreId, key: &[u8]) -> Result<CachedRead> {
        self.of(store).get_cached(store, key)
    }

    fn scan(&self, store: StoreId, range: &KeyRange, page: Page) -> Result<Vec<(Bytes, Bytes)>> {
        self.of(store).scan(store, range, page)
    }
}

impl Backend for SplitBackend {
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>> {
        self.of(store).get(store, key)
    }

    fn scan(&self, store: StoreId, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
        self.of(store).scan(store, range, limit)
    }

    fn snapshot(&self, stores: &[StoreId]) -> Result<Box<dyn Snapshot>> {
        let of = |kept: bool| {
            let chosen = stores.iter().copied();
            chosen
                .filter(|store| self.in_memory.contains(store) == kept)
                .collect::<Vec<_>>()
        };
        Ok(Box::new(SplitSnapshot {
            disk: self.disk.snapshot(&of(false))?,
            memory: self.memory.snapshot(&of(true))?,
            in_memory: self.in_memory.clone(),
        }))
    }

    fn visit(
        &self,
        store: StoreId,
        range: &KeyRange,
        take: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.of(store).visit(store, range, take)
    }

    fn snapshot_forces_copy(&self, stores: &[StoreId]) -> bool {
        let copies = |store: &StoreId| self.of(*store).snapshot_forces_copy(&[*store]);
        stores.iter().any(copies)
    }

    fn apply(&self, batch: EpochBatch) -> Result<()> {
        let epoch = batch.epoch;
        let in_memory = |store: &StoreId| self.in_memory.contains(store);
        let (drops, disk_drops) = batch.drops.into_iter().partition(|(s, _)| in_memory(s));
        let (writes, disk_writes) = batch.writes.into_iter().partition(|(s, _)| in_memory(s));
        let (positions, disk_positions) = batch
            .positions
            .into_iter()
            .partition(|(s, ..)| in_memory(s));
        self.disk.apply(EpochBatch {
            epoch,
            drops: disk_drops,
            writes: disk_writes,
            positions: disk_positions,
        })?;
        self.memory.apply(EpochBatch {
            epoch,
            drops,
            writes,
            positions,
        })
    }

    fn restore(
        &self,
        store: StoreId,
        writes: Vec<Write>,
        positions: &[(Partition, Offset)],
    ) -> Result<()> {
        self.of(store).restore(store, writes, positions)
    }

    fn bulk_load(
        &self,
        store: StoreId,
        run: RestoreRun,
        positions: &[(Partition, Offset)],
    ) -> Result<()> {
        self.of(store).bulk_load(store, run, positions)
    }

    fn loaded(&self, store: StoreId) -> Result<()> {
        self.of(store).loaded(store)
    }

    fn positions(&self, store: StoreId) -> Result<Vec<(Partition, Offset)>> {
        self.of(store).positions(store)
    }

    fn current_at(&self, store: StoreId) -> Result<Option<Timestamp>> {
        self.of(store).current_at(store)
    }

    fn note_current(&self, stores: &[StoreId], at: Timestamp) -> Result<()> {
        let (memory, disk): (Vec<_>, Vec<_>) =
            (stores.iter()).partition(|store| self.in_memory.contains(store));
        self.disk.note_current(&disk, at)?;
        self.memory.note_current(&memory, at)
    }

    fn source_topic(&self, store: StoreId) -> Result<Option<String>> {
        self.of(store).source_topic(store)
    }

    fn note_source_topic(&self, store: StoreId, topic: Option<&str>) -> Result<()> {
        self.of(store).note_source_topic(store, topic)
    }

    fn wipe(&self, store: StoreId) -> Result<()> {
        self.of(store).wipe(store)
    }

    fn approximate_len(&self, store: StoreId) -> u64 {
        self.of(store).approximate_len(store)
    }

    fn size(&self, store: StoreId) -> StoreSize {
        self.of(store).size(store)
    }

    fn database(&self) -> Option<DatabaseFigures> {
        self.disk.database()
    }

    fn memory_bytes(&self) -> u64 {
        self.disk.memory_bytes() + self.memory.memory_bytes()
    }

    fn is_durable(&self) -> bool {
        self.disk.is_durable()
    }
}
