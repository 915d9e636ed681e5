//! The end of an epoch: its writes are encoded, and after the commit they become cache entries.
//!
//! Each changelog entry is encoded once, and foreign values are encoded before a later epoch can change
//! the object.

use super::slot::{Phase, is_foreign, stamp};
use super::{Dirty, KeyValueStore, Sealed, Stored};
use crate::{Layout, Write};
use bytes::{BufMut, Bytes, BytesMut};
use stoatflow_core::{Datum, Epoch, Error, Result, Serde};

impl KeyValueStore {
    /// Takes what `epoch` wrote to the keys of `dirty`. Call when all lanes have finished `epoch`;
    /// several callers may seal disjoint lists in parallel. A repeated key is returned once. A key that
    /// this epoch has created and deleted again, and that neither the back end nor the changelog knows,
    /// is not returned.
    ///
    /// # Errors
    /// `Serde` if a value can't be written with the store's serde.
    pub fn seal(&self, epoch: Epoch, dirty: Dirty) -> Result<Vec<Sealed>> {
        let written = stamp(epoch);
        let mut sealed = Vec::with_capacity(dirty.keys.len());
        for key in dirty.keys {
            let hash = self.hash(&key);
            let shard = self.shard(hash, &key);
            let mut table = shard.lock();
            let Some(version) = table
                .find(hash, &key)
                .and_then(|i| table.slot_mut(i).exact(written))
            else {
                return Err(Error::internal(format!(
                    "store {}: epoch {epoch} has no write to a key it is said to have written",
                    self.name
                )));
            };
            if version.phase != Phase::Open {
                continue;
            }
            if version.leaves_nothing() {
                version.phase = Phase::Sealed;
                continue;
            }
            let timestamp = version.value.timestamp;
            let changelog = !version.local;
            // A slice would keep its whole input buffer alive while the value is cached.
            version.value.value.unshare();
            let value = if let Some(frozen) = &version.frozen {
                version.phase = Phase::Sealed;
                frozen.bytes.clone()
            } else if self.needs_outside(&version.value.value) {
                version.phase = Phase::Sealing;
                let value = version.value.clone();
                drop(table);
                self.seal_outside(hash, &key, written, &value)?
            } else {
                version.phase = Phase::Sealed;
                self.encode(&version.value)?
            };
            sealed.push(Sealed {
                key: key.into_bytes(),
                value,
                timestamp,
                changelog,
            });
        }
        if matches!(self.layout, Layout::Versioned { .. }) {
            // Versions of a key go to the changelog in time order.
            sealed.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        }
        Ok(sealed)
    }

    /// Encodes without the lock. If a lane of the next epoch freezes the same value meanwhile, its
    /// bytes are used: they were made before that lane could change the object.
    fn seal_outside(
        &self,
        hash: u64,
        key: &[u8],
        written: u64,
        value: &Stored,
    ) -> Result<Option<Bytes>> {
        let made = self.encode(value);
        let mut table = self.shard(hash, key).lock();
        let Some(version) = table
            .find(hash, key)
            .and_then(|i| table.slot_mut(i).exact(written))
        else {
            return Err(Error::internal(format!(
                "store {}: a key vanished while it was sealed",
                self.name
            )));
        };
        version.phase = Phase::Sealed;
        match &version.frozen {
            Some(frozen) => Ok(frozen.bytes.clone()),
            None => made,
        }
    }

    fn needs_outside(&self, value: &Datum) -> bool {
        let serde = match &self.value {
            Serde::WithHeaders(inner) => inner,
            serde => serde,
        };
        matches!(serde, Serde::Custom(_)) || is_foreign(value)
    }

    /// The bytes in the back end: the timestamp as 8 bytes big-endian, then the value (the format
    /// of Kafka Streams' timestamped stores).
    #[must_use]
    pub fn stored_bytes(sealed: &Sealed) -> Write {
        let value = sealed.value.as_ref().map(|value| {
            let mut bytes = BytesMut::with_capacity(8 + value.len());
            bytes.put_i64(sealed.timestamp.0);
            bytes.put_slice(value);
            bytes.freeze()
        });
        Write {
            key: sealed.key.clone(),
            value,
        }
    }

    /// `epoch` and all before it are committed *and* applied to the back end: their values become
    /// clean, evictable cache entries.
    pub fn committed(&self, epoch: Epoch) {
        for shard in &self.shards {
            let mut trash = Vec::new();
            let mut table = shard.lock();
            table.commit(epoch, &mut trash);
            shard.publish(&table);
            drop(table);
            drop(trash);
            shard.trim();
        }
        if let Some(guard) = &self.guard {
            guard.committed(epoch);
        }
    }
}
