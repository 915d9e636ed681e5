//! A back end in memory.
//!
//! All data is behind one lock, so an epoch becomes visible as a whole. A clone shares the data, so that
//! a simulated restart finds what the "disk" held; `durable` says whether the engine may rely on that. A
//! snapshot shares a store's tree: the next epoch that writes to the store copies the tree (not the
//! bytes in it) if the snapshot still exists.

use crate::{Backend, EpochBatch, KeyRange, Page, Snapshot, StoreSize, Write};
use bytes::Bytes;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use stoatflow_core::{Offset, Partition, Result, StoreId, Timestamp};

#[cfg(test)]
mod tests;

/// Bytes of a tree node besides key and value.
const OVERHEAD: u64 = 96;

fn size(key: &Bytes, value: &Bytes) -> u64 {
    (key.len() + value.len()) as u64 + OVERHEAD
}

type Tree = BTreeMap<Bytes, Bytes>;

#[derive(Debug, Default)]
struct Store {
    data: Arc<Tree>,
    positions: BTreeMap<Partition, Offset>,
    current_at: Option<Timestamp>,
    source_topic: Option<String>,
    bytes: u64,
}

impl Store {
    fn write(&mut self, write: Write) {
        let data = Arc::make_mut(&mut self.data);
        if let Some(value) = write.value {
            self.bytes += size(&write.key, &value);
            if let Some(old) = data.insert(write.key.clone(), value) {
                self.bytes -= size(&write.key, &old);
            }
        } else if let Some((key, old)) = data.remove_entry(&write.key) {
            self.bytes -= size(&key, &old);
        }
    }

    fn drop_range(&mut self, range: &KeyRange) {
        // Retention drops the oldest entries: split the tree once, because readers of all stores are
        // blocked meanwhile.
        if let (None, Some(to)) = (&range.from, &range.to) {
            let data = Arc::make_mut(&mut self.data);
            let kept = data.split_off(to);
            let gone = std::mem::replace(data, kept);
            self.bytes -= gone
                .iter()
                .map(|(key, value)| size(key, value))
                .sum::<u64>();
            return;
        }
        let Some(bounds) = bounds(range) else {
            return;
        };
        let keys: Vec<Bytes> = self
            .data
            .range::<Bytes, _>(bounds)
            .map(|(k, _)| k.clone())
            .collect();
        for key in keys {
            self.write(Write { key, value: None });
        }
    }
}

/// The bounds of a range; `None` if it is empty.
fn bounds(range: &KeyRange) -> Option<(Bound<&Bytes>, Bound<&Bytes>)> {
    if let (Some(from), Some(to)) = (&range.from, &range.to)
        && from >= to
    {
        return None;
    }
    let from = range
        .from
        .as_ref()
        .map_or(Bound::Unbounded, Bound::Included);
    let to = range.to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
    Some((from, to))
}

/// Keeps stores in memory. Clones share the data.
#[derive(Clone, Debug)]
pub struct MemoryBackend {
    stores: Arc<RwLock<BTreeMap<StoreId, Store>>>,
    durable: bool,
}

impl MemoryBackend {
    /// An empty back end. `durable` claims that the data outlives the engine: true for a simulated disk,
    /// false for a process that loses it.
    #[must_use]
    pub fn new(durable: bool) -> Self {
        Self {
            stores: Arc::default(),
            durable,
        }
    }
}

/// The trees at the time of the snapshot.
#[derive(Debug)]
struct Trees(Vec<(StoreId, Arc<Tree>)>);

impl Trees {
    fn of(&self, store: StoreId) -> Option<&Tree> {
        let found = self.0.iter().find(|(id, _)| *id == store);
        found.map(|(_, tree)| tree.as_ref())
    }
}

impl Snapshot for Trees {
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.of(store).and_then(|tree| tree.get(key)).cloned())
    }

    fn scan(&self, store: StoreId, range: &KeyRange, page: Page) -> Result<Vec<(Bytes, Bytes)>> {
        let (Some(tree), Some(bounds)) = (self.of(store), bounds(range)) else {
            return Ok(Vec::new());
        };
        let entries = tree.range::<Bytes, _>(bounds);
        let owned = |(k, v): (&Bytes, &Bytes)| Ok((k.clone(), v.clone()));
        if range.reverse {
            page.of(entries.rev().map(owned))
        } else {
            page.of(entries.map(owned))
        }
    }
}

impl Backend for MemoryBackend {
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self
            .stores
            .read()
            .get(&store)
            .and_then(|s| s.data.get(key))
            .cloned())
    }

    fn scan(&self, store: StoreId, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
        let stores = self.stores.read();
        let Some(store) = stores.get(&store) else {
            return Ok(Vec::new());
        };
        let Some(bounds) = bounds(range) else {
            return Ok(Vec::new());
        };
        let entries = store
            .data
            .range::<Bytes, _>(bounds)
            .map(|(k, v)| (k.clone(), v.clone()));
        Ok(if range.reverse {
            entries.rev().take(limit).collect()
        } else {
            entries.take(limit).collect()
        })
    }

    fn snapshot(&self, stores: &[StoreId]) -> Result<Box<dyn Snapshot>> {
        let all = self.stores.read();
        let tree = |id: &StoreId| Some((*id, Arc::clone(&all.get(id)?.data)));
        Ok(Box::new(Trees(stores.iter().filter_map(tree).collect())))
    }

    fn snapshot_forces_copy(&self, stores: &[StoreId]) -> bool {
        !stores.is_empty()
    }

    fn apply(&self, batch: EpochBatch) -> Result<()> {
        let mut stores = self.stores.write();
        for (id, range) in &batch.drops {
            stores.entry(*id).or_default().drop_range(range);
        }
        for (id, writes) in batch.writes {
            let store = stores.entry(id).or_default();
            writes.into_iter().for_each(|w| store.write(w));
        }
        for (id, partition, offset) in batch.positions {
            stores
                .entry(id)
                .or_default()
                .positions
                .insert(partition, offset);
        }
        Ok(())
    }

    fn restore(
        &self,
        store: StoreId,
        writes: Vec<Write>,
        positions: &[(Partition, Offset)],
    ) -> Result<()> {
        let mut stores = self.stores.write();
        let store = stores.entry(store).or_default();
        writes.into_iter().for_each(|w| store.write(w));
        store.positions.extend(positions.iter().copied());
        Ok(())
    }

    fn positions(&self, store: StoreId) -> Result<Vec<(Partition, Offset)>> {
        Ok(self
            .stores
            .read()
            .get(&store)
            .map(|s| s.positions.iter().map(|(p, o)| (*p, *o)).collect())
            .unwrap_or_default())
    }

    fn current_at(&self, store: StoreId) -> Result<Option<Timestamp>> {
        let stores = self.stores.read();
        Ok(stores.get(&store).and_then(|s| s.current_at))
    }

    fn note_current(&self, stores: &[StoreId], at: Timestamp) -> Result<()> {
        let mut known = self.stores.write();
        for id in stores {
            known.entry(*id).or_default().current_at = Some(at);
        }
        Ok(())
    }

    fn source_topic(&self, store: StoreId) -> Result<Option<String>> {
        let stores = self.stores.read();
        Ok(stores.get(&store).and_then(|s| s.source_topic.clone()))
    }

    fn note_source_topic(&self, store: StoreId, topic: Option<&str>) -> Result<()> {
        let mut known = self.stores.write();
        known.entry(store).or_default().source_topic = topic.map(str::to_owned);
        Ok(())
    }

    fn wipe(&self, store: StoreId) -> Result<()> {
        let old = self.stores.write().remove(&store);
        drop(old);
        Ok(())
    }

    fn approximate_len(&self, store: StoreId) -> u64 {
        self.stores
            .read()
            .get(&store)
            .map_or(0, |s| s.data.len() as u64)
    }

    fn size(&self, store: StoreId) -> StoreSize {
        let stores = self.stores.read();
        stores
            .get(&store)
            .map_or_else(StoreSize::default, |s| StoreSize {
                keys: s.data.len() as u64,
                disk_bytes: 0,
                memory_bytes: s.bytes,
            })
    }

    fn memory_bytes(&self) -> u64 {
        self.stores.read().values().map(|s| s.bytes).sum()
    }

    fn is_durable(&self) -> bool {
        self.durable
    }
}
