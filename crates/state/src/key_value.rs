//! The key-value store that operators see: slots in memory over a back end, one version per epoch.
//!
//! Takes reads and writes from any lane, each with the lane's epoch; gives read-your-writes, and at
//! the barrier the sealed writes of that epoch. Owns the slots (dirty ones, and clean ones as a
//! bounded cache of committed values in decoded form). Never writes to the back end itself.
//!
//! A slot holds the newest value and the epoch that wrote it. A lane that is already in epoch e+1 may
//! overwrite a value of epoch e that isn't committed yet: the slot then keeps the older version beside
//! it, so that sealing e still finds what e wrote, and a lane still in e still reads it.
//!
//! What is never done under a shard's lock: reading the back end, running a user's serde, dropping a
//! foreign value. Each may need the interpreter, and the lane that holds the interpreter may be
//! waiting for the same lock.
//!
//! Foreign values can be changed in place by the function that gets them. So a lane in e+1 that reads
//! a foreign value of an unsealed e gets a copy made from its bytes (`freeze`), and sealing e takes
//! those bytes: what e+1 does to the object never leaks into e.

mod access;
mod scan;
mod seal;
mod shard;
mod slot;
#[cfg(test)]
mod tests;

use crate::Backend;
use bytes::Bytes;
use shard::Shard;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Datum, Epoch, Result, Serde, StoreId, Timestamp};

/// How many parts the keys are spread over, each with its own lock.
const SHARDS: usize = 64;

/// A value with the timestamp kept beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The value. `Null` in a `put` or as the result of an `update` deletes, at this timestamp;
    /// reads never give it.
    pub value: Datum,
    /// Its timestamp.
    pub timestamp: Timestamp,
}

/// A key that an epoch wrote, in the bytes of the changelog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The key's bytes.
    pub key: Bytes,
    /// The value's bytes without timestamp, as the changelog record carries it; `None` deletes.
    pub value: Option<Bytes>,
    /// The timestamp of the changelog record: that of the value; of a delete without one, that of
    /// the value it removed, else [`Timestamp::UNKNOWN`].
    pub timestamp: Timestamp,
}

/// What one lane has written to one store in the open epoch. Sealing takes it.
#[derive(Debug, Default)]
pub struct Dirty {
    /// Keys in the order of their first write.
    pub keys: Vec<Bytes>,
}

/// A store of keyed, timestamped values; shared by all lanes.
#[derive(Debug)]
pub struct KeyValueStore {
    id: StoreId,
    name: Arc<str>,
    value: Serde,
    backend: Arc<dyn Backend>,
    hasher: ahash::RandomState,
    shards: Box<[Shard]>,
}

impl KeyValueStore {
    /// A store over `backend` that caches about `cache_bytes` of committed values. What is not yet
    /// committed comes on top; the admission budget bounds that.
    #[must_use]
    pub fn new(
        id: StoreId,
        name: Arc<str>,
        value: Serde,
        backend: Arc<dyn Backend>,
        cache_bytes: usize,
    ) -> Self {
        Self {
            id,
            name,
            value,
            backend,
            // Fixed seeds: the same run evicts the same slots, which the simulator relies on.
            hasher: ahash::RandomState::with_seeds(0x73_746f, 0x61_7466, 0x6c_6f77, 0x6b_7631),
            shards: (0..SHARDS)
                .map(|_| Shard::new(cache_bytes / SHARDS))
                .collect(),
        }
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
        let shard = self.shard(hash);
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

    /// Reads and writes with one lookup, atomically for the key: `f` sees the current value, returns
    /// the new one. Nothing before and nothing after is no write.
    ///
    /// `f` runs under the lock of the key's shard: it must not wait for anything (an interpreter,
    /// another key, a lock). For functions that may, there is [`Self::update_unlocked`].
    ///
    /// A lane still in e and a lane already in e+1 that update one key at the same time each build on
    /// what their epoch sees: the late write of e stays in e, it doesn't reach the value that e+1
    /// has made already. (Key affinity keeps that from happening to the DSL's operators.)
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
        let access = self.access(epoch, key)?;
        let current = access.visible(epoch);
        let (value, result) = f(current)?;
        if current.is_some() || value.as_ref().is_some_and(|v| !v.value.is_null()) {
            access.write(epoch, value, dirty)?;
        }
        Ok(result)
    }

    /// As [`Self::update`], for an `f` that may wait: it runs without any lock. If another lane wrote
    /// the key meanwhile, `f` runs again with the new value, so the result is still as if the two
    /// had run one after the other.
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

    /// Bytes that wait for their epoch to commit.
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
        self.hasher.hash_one(key)
    }

    /// Bits that the table inside the shard doesn't use much.
    #[allow(clippy::cast_possible_truncation)]
    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[(hash >> 40) as usize % SHARDS]
    }
}
