//! Finds a key's slot with a value that an epoch may read, and loads it if needed.
//!
//! On a miss: unlock, read the back end, decode, lock again, and start over if an epoch was committed
//! meanwhile. The lock is never held while reading or decoding.

use super::shard::{Shard, Table};
use super::slot::{Frozen, Replaced, Slot, stamp};
use super::{Dirty, KeyValueStore, Stored};
use crate::layout::{Layout, TOMBSTONE};
use bytes::Bytes;
use parking_lot::MutexGuard;
use stoatflow_core::{Datum, Epoch, Error, Result, Timestamp};

/// A locked slot. Fields drop in order: first the lock, then the replaced values.
pub(super) struct Access<'a> {
    table: MutexGuard<'a, Table>,
    shard: &'a Shard,
    index: u32,
    _evicted: Vec<Slot>,
    replaced: Option<Replaced>,
}

/// Why a slot can't be read yet.
enum Missing {
    /// No visible version in memory; the back end was last changed by the epoch with this stamp.
    Value(u64),
    /// A foreign value of an earlier, unsealed epoch: its ticket and the value to freeze.
    Freeze(u64, Stored),
}

impl KeyValueStore {
    /// Locks the slot of `key`, with a version that `epoch` sees.
    pub(super) fn access(&self, epoch: Epoch, key: &[u8]) -> Result<Access<'_>> {
        let hash = self.hash(key);
        let shard = self.shard(hash, key);
        let reader = stamp(epoch);
        loop {
            let mut table = shard.lock();
            let missing = match table.find(hash, key) {
                None if table.knows(key) => {
                    let mut evicted = Vec::new();
                    let index = table.insert_committed(hash, key, None, &mut evicted);
                    shard.publish(&table);
                    return Ok(Access {
                        table,
                        shard,
                        index,
                        _evicted: evicted,
                        replaced: None,
                    });
                }
                None => Missing::Value(table.committed),
                Some(index) => match table.slot(index).visible(reader) {
                    None => Missing::Value(table.committed),
                    Some(version) if version.read(reader).is_some() => {
                        table.slot_mut(index).referenced = true;
                        return Ok(Access {
                            table,
                            shard,
                            index,
                            _evicted: Vec::new(),
                            replaced: None,
                        });
                    }
                    Some(version) => Missing::Freeze(version.ticket, version.value.clone()),
                },
            };
            drop(table);
            match missing {
                Missing::Value(generation) => {
                    if let Some(access) = self.load(shard, hash, key, reader, generation)? {
                        return Ok(access);
                    }
                }
                Missing::Freeze(ticket, value) => {
                    self.freeze(shard, hash, key, reader, ticket, &value)?
                }
            }
        }
    }

    /// Reads the back end and caches the result; `None` if another lane was faster or an epoch was
    /// committed meanwhile.
    fn load<'a>(
        &'a self,
        shard: &'a Shard,
        hash: u64,
        key: &[u8],
        reader: u64,
        generation: u64,
    ) -> Result<Option<Access<'a>>> {
        let value = match self.backend.get(self.id, key)? {
            Some(bytes) => Some(self.decode_stored(bytes)?),
            None => None,
        };
        let mut table = shard.lock();
        let seen = table
            .find(hash, key)
            .is_some_and(|i| table.slot(i).visible(reader).is_some());
        if seen || table.committed != generation {
            drop(table);
            return Ok(None);
        }
        let mut evicted = Vec::new();
        let index = table.insert_committed(hash, key, value, &mut evicted);
        shard.publish(&table);
        Ok(Some(Access {
            table,
            shard,
            index,
            _evicted: evicted,
            replaced: None,
        }))
    }

    /// Encodes a foreign value before a later epoch can change it.
    fn freeze(
        &self,
        shard: &Shard,
        hash: u64,
        key: &[u8],
        reader: u64,
        ticket: u64,
        value: &Stored,
    ) -> Result<()> {
        let bytes = self.encode(value)?;
        let mut copy = Stored {
            value: self.decode(bytes.clone())?,
            timestamp: value.timestamp,
        };
        copy.value.unshare();
        let frozen = Box::new(Frozen { bytes, copy });
        let mut table = shard.lock();
        let Some(index) = table.find(hash, key) else {
            return Ok(());
        };
        let Some(seen) = table.slot(index).visible(reader).map(|v| v.stamp) else {
            return Ok(());
        };
        // The first one wins, because it encoded the value before the object could change. A
        // changed ticket means that the epoch itself wrote again: start over.
        let late = match table.slot_mut(index).exact(seen) {
            Some(version) if version.ticket == ticket && version.frozen.is_none() => {
                version.frozen = Some(frozen);
                None
            }
            _ => Some(frozen),
        };
        drop(table);
        drop(late);
        Ok(())
    }

    /// Decodes the back end's bytes: timestamp, then value.
    pub(super) fn decode_stored(&self, mut bytes: Bytes) -> Result<Stored> {
        let Some(prefix) = bytes.first_chunk::<8>() else {
            return Err(Error::state_corrupt(format!(
                "a value of {} bytes has no room for its timestamp",
                bytes.len()
            ))
            .at(|w| w.store = Some(self.name.to_string())));
        };
        let timestamp = Timestamp(i64::from_be_bytes(*prefix));
        if self.is_tombstone(timestamp) {
            return Ok(Stored {
                value: Datum::Bool(false),
                timestamp,
            });
        }
        let value = self.decode(Some(bytes.split_off(8)))?;
        Ok(Stored { value, timestamp })
    }

    fn decode(&self, bytes: Option<Bytes>) -> Result<Datum> {
        self.value
            .decode(bytes)
            .map_err(|e| e.at(|w| w.store = Some(self.name.to_string())))
    }

    pub(super) fn encode(&self, stored: &Stored) -> Result<Option<Bytes>> {
        if self.is_tombstone(stored.timestamp) && !stored.value.is_null() {
            return Ok(Some(Bytes::new()));
        }
        self.value
            .encode(&stored.value)
            .map_err(|e| e.at(|w| w.store = Some(self.name.to_string())))
    }
}

impl KeyValueStore {
    /// Whether this version is a deletion. Its slot holds a value without meaning, since the deletion is
    /// a version and not an absent key.
    pub(super) fn is_tombstone(&self, timestamp: Timestamp) -> bool {
        timestamp == TOMBSTONE && matches!(self.layout, Layout::Versioned { .. })
    }
}

impl Access<'_> {
    /// The value that `epoch` sees.
    pub fn visible(&self, epoch: Epoch) -> Option<&Stored> {
        let reader = stamp(epoch);
        let version = self.table.slot(self.index).visible(reader)?;
        version.read(reader).filter(|v| !v.value.is_null())
    }

    fn ticket(&self, epoch: Epoch) -> Option<u64> {
        self.table
            .slot(self.index)
            .visible(stamp(epoch))
            .map(|v| v.ticket)
    }

    /// Keeps the slot from being evicted while a new value is computed without the lock.
    pub fn pin(&mut self, epoch: Epoch) -> Option<u64> {
        self.table.slot_mut(self.index).pins += 1;
        self.ticket(epoch)
    }

    /// Ends a `pin`; returns whether the value is still the same.
    pub fn unpin(&mut self, epoch: Epoch, ticket: Option<u64>) -> bool {
        let slot = self.table.slot_mut(self.index);
        slot.pins = slot.pins.saturating_sub(1);
        self.ticket(epoch) == ticket
    }

    /// Writes, and releases the lock.
    pub fn write(mut self, epoch: Epoch, value: Option<Stored>, dirty: &mut Dirty) -> Result<()> {
        let written = self.table.write(self.index, epoch, value)?;
        if let Some(key) = written.first {
            dirty.keys.push(key);
        }
        self.replaced = written.replaced;
        self.shard.publish(&self.table);
        Ok(())
    }
}
