//! The key-value store that operators see: slots in memory over a back end, one version per epoch.
//!
//! Takes reads and writes from any lane, each with the lane's epoch; gives read-your-writes, and at the
//! barrier the sealed writes of that epoch. Owns the slots: dirty ones, and clean ones as a bounded
//! cache of decoded committed values. Never writes to the back end itself.
//!
//! A slot holds the newest value and the epoch that wrote it. A lane that is already in epoch e+1 may
//! overwrite a value of epoch e that isn't committed yet: the slot then keeps the older version beside
//! it, so that sealing e still finds what e wrote, and a lane still in e still reads it.
//!
//! Never done under a shard's lock: reading the back end, running a user's serde, dropping a foreign
//! value. Each may need the interpreter, and the lane that holds the interpreter may be waiting for the
//! same lock.
//!
//! Functions can change foreign values in place. So a lane in e+1 that reads a foreign value of an
//! unsealed e gets a copy made from its bytes (`freeze`), and sealing e takes those bytes: what e+1 does
//! to the object never leaks into e.

mod access;
mod changelog;
mod guard;
mod order;
mod prefetch;
mod rows;
mod scan;
mod seal;
mod shard;
mod slot;
mod slot_key;
#[cfg(test)]
mod tests;

use crate::{Backend, Layout};
use bytes::Bytes;
pub use guard::WriteGuard;
pub use rows::{after, after_prefix};
use shard::Shard;
use slot_key::SlotKey;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Datum, Epoch, Result, Serde, StoreId, Timestamp};

/// How many shards the keys are spread over, each with its own lock.
const SHARDS: usize = 64;
/// Fewer shards where keys are ordered, because every range read visits all shards.
const ORDERED_SHARDS: usize = 16;

/// A value with the timestamp kept beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The value. `Null` in a `put` or as the result of an `update` deletes, at this timestamp; reads
    /// never return it.
    pub value: Datum,
    /// Its timestamp.
    pub timestamp: Timestamp,
}

/// What an epoch wrote to an internal key, encoded; [`Layout::to_changelog`] makes its changelog
/// record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The key's bytes.
    pub key: Bytes,
    /// The value's bytes without timestamp, as the changelog record carries it; `None` deletes.
    pub value: Option<Bytes>,
    /// Timestamp of the changelog record: the value's own; for a delete without one, that of the removed
    /// value, or [`Timestamp::UNKNOWN`] if nothing was removed.
    pub timestamp: Timestamp,
    /// Whether it is written to the changelog. Deletions that only clean up the local store aren't.
    pub changelog: bool,
}

/// The keys that one lane has written to one store in the open epoch. Sealing consumes the list.
#[derive(Debug, Default)]
pub struct Dirty {
    /// Keys in the order of their first write, as in their slots.
    keys: Vec<SlotKey>,
}

impl Dirty {
    /// True if there is nothing to seal.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Adds another list of the same store and epoch.
    pub fn append(&mut self, mut other: Self) {
        self.keys.append(&mut other.keys);
    }
}

/// A store of keyed, timestamped values; shared by all lanes.
#[derive(Debug)]
pub struct KeyValueStore {
    id: StoreId,
    name: Arc<str>,
    value: Serde,
    backend: Arc<dyn Backend>,
    layout: Layout,
    hasher: ahash::RandomState,
    cache_bytes: usize,
    top: rows::TopSegment,
    shards: Box<[Shard]>,
    guard: Option<Arc<dyn WriteGuard>>,
}

impl KeyValueStore {
    /// A store over `backend` that caches about `cache_bytes` of committed values. Uncommitted values
    /// come on top; the admission budget bounds them.
    #[must_use]
    pub fn new(
        id: StoreId,
        name: Arc<str>,
        value: Serde,
        backend: Arc<dyn Backend>,
        cache_bytes: usize,
    ) -> Self {
        Self::with_layout(id, name, value, backend, cache_bytes, Layout::KeyValue)
    }

    /// As [`Self::new`], with keys encoded by `layout`. All layouts except [`Layout::KeyValue`] are read
    /// by ranges, so their slots are kept in order.
    #[must_use]
    pub fn with_layout(
        id: StoreId,
        name: Arc<str>,
        value: Serde,
        backend: Arc<dyn Backend>,
        cache_bytes: usize,
        layout: Layout,
    ) -> Self {
        let ordered = layout != Layout::KeyValue;
        let shards = shards(layout, ordered, cache_bytes);
        Self::over((id, name, value, backend), layout, cache_bytes, shards)
    }

    /// A store that is only read, by few threads at a time: no cache, and made with few allocations.
    #[must_use]
    pub fn reader(
        id: StoreId,
        name: Arc<str>,
        value: Serde,
        backend: Arc<dyn Backend>,
        layout: Layout,
    ) -> Self {
        let ordered = layout != Layout::KeyValue;
        let shard = Shard::new(0, ordered.then(|| order::Order::new(layout, 0)));
        Self::over((id, name, value, backend), layout, 0, Box::new([shard]))
    }

    fn over(
        (id, name, value, backend): (StoreId, Arc<str>, Serde, Arc<dyn Backend>),
        layout: Layout,
        cache_bytes: usize,
        shards: Box<[Shard]>,
    ) -> Self {
        Self {
            id,
            name,
            value,
            backend,
            layout,
            // Fixed seeds: equal runs evict equal slots, which the simulator relies on.
            hasher: ahash::RandomState::with_seeds(0x73_746f, 0x61_7466, 0x6c_6f77, 0x6b_7631),
            shards,
            cache_bytes,
            top: rows::TopSegment::default(),
            guard: None,
        }
    }

    /// Sets whether slots are kept in key order. With order, the cost of a small range doesn't depend on
    /// how much is staged, but the first write of each key costs a little more. For a new store only:
    /// what is in memory is lost.
    #[must_use]
    pub fn with_ordered(mut self, ordered: bool) -> Self {
        let ordered = ordered || self.layout != Layout::KeyValue;
        self.shards = shards(self.layout, ordered, self.cache_bytes);
        self
    }

    /// Reads and writes values with another serde. For a new store only.
    #[must_use]
    pub fn with_value(self, value: Serde) -> Self {
        Self { value, ..self }
    }

    /// How its keys are encoded.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Its id in this run.
    #[must_use]
    pub const fn id(&self) -> StoreId {
        self.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads as a lane in `epoch` sees it: the newest write of `epoch` or before.
    ///
    /// # Errors
    /// Those of the back end, and `Serde` if committed bytes can't be read.
    pub fn get(&self, epoch: Epoch, key: &[u8]) -> Result<Option<Stored>> {
        let access = self.access(epoch, key)?;
        Ok(access.visible(epoch).cloned())
    }

    /// Writes; `None` deletes.
    ///
    /// # Errors
    /// `Internal` if `epoch` is sealed already.
    pub fn put(
        &self,
        epoch: Epoch,
        dirty: &mut Dirty,
        key: &Bytes,
        value: Option<Stored>,
    ) -> Result<()> {
        let hash = self.hash(key);
        let shard = self.shard(hash, key);
        self.top.wrote(self.layout, key);
        let mut table = shard.lock();
        let mut trash = Vec::new();
        let written = match table.find(hash, key) {
            Some(index) => table.write(index, epoch, value)?,
            None => table.insert_written(hash, key, epoch, value, &mut trash)?,
        };
        if let Some(key) = written.first {
            dirty.keys.push(key);
        }
        shard.publish(&table);
        drop(table);
        drop((written.replaced, trash));
        Ok(())
    }

    /// Deletes in the store, but not in the changelog: for rows that no reader can see any more. Does
    /// nothing and returns `false` if `epoch` itself has written the key, because that write must reach
    /// the changelog.
    ///
    /// # Errors
    /// As `put`.
    pub fn prune(&self, epoch: Epoch, dirty: &mut Dirty, key: &Bytes) -> Result<bool> {
        let hash = self.hash(key);
        let shard = self.shard(hash, key);
        let mut table = shard.lock();
        let mut trash = Vec::new();
        let written = match table.find(hash, key) {
            Some(index) if table.slot_mut(index).exact(slot::stamp(epoch)).is_some() => {
                return Ok(false);
            }
            Some(index) => table.write(index, epoch, None)?,
            None => table.insert_written(hash, key, epoch, None, &mut trash)?,
        };
        if let Some(version) = table
            .find(hash, key)
            .and_then(|i| table.slot_mut(i).exact(slot::stamp(epoch)))
        {
            version.local = true;
        }
        dirty.keys.extend(written.first);
        shard.publish(&table);
        drop(table);
        drop((written.replaced, trash));
        Ok(true)
    }

    /// Reads and writes atomically with one lookup: `f` gets the current value and returns the new one.
    /// If both are `None`, nothing is written.
    ///
    /// `f` runs under the lock of the key's shard: it must not wait for anything (an interpreter,
    /// another key, a lock). If it may block, use [`Self::update_unlocked`].
    ///
    /// If a lane still in e and a lane already in e+1 update one key at the same time, each builds on
    /// what its epoch sees: the late write of e stays in e and doesn't reach the value that e+1 has
    /// already computed. (Key affinity keeps that from happening to the DSL's operators.)
    ///
    /// # Errors
    /// Those of `get`, `put` and `f`; after an error nothing is written.
    pub fn update<R>(
        &self,
        epoch: Epoch,
        dirty: &mut Dirty,
        key: &Bytes,
        f: impl FnOnce(Option<&Stored>) -> Result<(Option<Stored>, R)>,
    ) -> Result<R> {
        self.top.wrote(self.layout, key);
        let access = self.access(epoch, key)?;
        let current = access.visible(epoch);
        let (value, result) = f(current)?;
        if current.is_some() || value.as_ref().is_some_and(|v| !v.value.is_null()) {
            access.write(epoch, value, dirty)?;
        }
        Ok(result)
    }

    /// As [`Self::update`], for an `f` that may block: it runs without a lock. If another lane wrote the
    /// key meanwhile, `f` runs again with the new value, so the result is that of one update after the
    /// other.
    ///
    /// # Errors
    /// As `update`.
    pub fn update_unlocked<R>(
        &self,
        epoch: Epoch,
        dirty: &mut Dirty,
        key: &Bytes,
        mut f: impl FnMut(Option<&Stored>) -> Result<(Option<Stored>, R)>,
    ) -> Result<R> {
        self.top.wrote(self.layout, key);
        loop {
            let mut access = self.access(epoch, key)?;
            let current = access.visible(epoch).cloned();
            let ticket = access.pin(epoch);
            drop(access);
            let outcome = f(current.as_ref());
            let mut access = self.access(epoch, key)?;
            let unchanged = access.unpin(epoch, ticket);
            let (value, result) = outcome?;
            if !unchanged {
                continue;
            }
            if current.is_some() || value.as_ref().is_some_and(|v| !v.value.is_null()) {
                access.write(epoch, value, dirty)?;
            }
            return Ok(result);
        }
    }

    /// Bytes of uncommitted writes.
    #[must_use]
    pub fn staged_bytes(&self) -> usize {
        self.shards
            .iter()
            .map(|s| s.staged_bytes.load(Relaxed))
            .sum()
    }

    /// Keys in memory, dirty and clean.
    #[must_use]
    pub fn cached_entries(&self) -> usize {
        self.shards.iter().map(|s| s.entries.load(Relaxed)).sum()
    }

    /// About how many keys are committed.
    #[must_use]
    pub fn approximate_len(&self) -> u64 {
        self.backend.approximate_len(self.id)
    }

    fn hash(&self, key: &[u8]) -> u64 {
        // Without the length prefix of a slice: this hasher mixes the length in anyway.
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish()
    }

    /// The shard of a key. In a layout with rows, all entries of a record's key are in one shard.
    fn shard(&self, hash: u64, key: &[u8]) -> &Shard {
        match self.layout {
            Layout::KeyValue | Layout::TimeKey | Layout::Timers => self.shard_of(hash),
            layout => self.shard_of(self.hash(layout.placement(key))),
        }
    }

    /// The shard of a hash, by bits that the shard's hash table hardly uses.
    #[allow(clippy::cast_possible_truncation)]
    #[inline]
    fn shard_of(&self, hash: u64) -> &Shard {
        // A power of two: a division would cost more than the rest.
        &self.shards[(hash >> 40) as usize & (self.shards.len() - 1)]
    }
}

fn shards(layout: Layout, ordered: bool, cache_bytes: usize) -> Box<[Shard]> {
    let rows = layout.suffix_len().is_some();
    let count = if ordered && !rows {
        ORDERED_SHARDS
    } else {
        SHARDS
    };
    debug_assert!(count.is_power_of_two());
    let budget = cache_bytes / count;
    (0..count)
        .map(|_| Shard::new(budget, ordered.then(|| order::Order::new(layout, budget))))
        .collect()
}
