//! One key in memory: its versions, newest first.
//!
//! A version is stamped with its epoch plus one; 0 means "committed, epoch unknown". This file knows
//! nothing of locks, budgets or back ends.

use super::Stored;
use super::slot_key::SlotKey;
use bytes::Bytes;
use stoatflow_core::{Datum, Epoch, Error, Result, Timestamp};

/// Memory of a slot besides key and value: the slot itself and its share of the index.
const OVERHEAD: usize = 192;

/// The stamp of versions that `epoch` writes.
pub(super) const fn stamp(epoch: Epoch) -> u64 {
    epoch.0.saturating_add(1)
}

/// How far a version has got on its way to the changelog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its epoch may still write.
    Open,
    /// It is being encoded.
    Sealing,
    /// It is encoded (or came from the back end).
    Sealed,
}

/// The encoded bytes of a foreign value of an unsealed epoch, and a copy made from them for later
/// epochs.
#[derive(Debug)]
pub(super) struct Frozen {
    pub bytes: Option<Bytes>,
    pub copy: Stored,
}

/// What one epoch wrote, or what is committed.
#[derive(Debug)]
pub(super) struct Version {
    pub stamp: u64,
    /// Changes with every write, unique in the shard.
    pub ticket: u64,
    /// `Null` means "no such key".
    pub value: Stored,
    pub frozen: Option<Box<Frozen>>,
    pub weight: u32,
    pub phase: Phase,
    /// Not written to the changelog (a deletion that only cleans up the store).
    pub local: bool,
    /// The key didn't exist when its epoch first wrote it: if the same epoch deletes it, nothing
    /// remains.
    pub created_in_epoch: bool,
}

impl Version {
    /// True if it deletes a key that neither the back end nor a changelog knows.
    pub fn leaves_nothing(&self) -> bool {
        self.created_in_epoch && self.value.value.is_null()
    }

    pub fn committed(ticket: u64, key_len: usize, value: Option<Stored>) -> Self {
        Self::new(0, ticket, key_len, value.unwrap_or(ABSENT), Phase::Sealed)
    }

    pub fn open(stamp: u64, ticket: u64, key_len: usize, value: Stored) -> Self {
        Self::new(stamp, ticket, key_len, value, Phase::Open)
    }

    fn new(stamp: u64, ticket: u64, key_len: usize, value: Stored, phase: Phase) -> Self {
        Self {
            stamp,
            ticket,
            weight: weight(key_len, &value),
            value,
            frozen: None,
            phase,
            local: false,
            created_in_epoch: false,
        }
    }

    /// The value, if a lane with the stamp `reader` may touch it; otherwise it must be frozen
    /// first.
    pub fn read(&self, reader: u64) -> Option<&Stored> {
        if self.must_freeze(reader) {
            self.frozen.as_ref().map(|f| &f.copy)
        } else {
            Some(&self.value)
        }
    }

    fn must_freeze(&self, reader: u64) -> bool {
        self.stamp != reader && self.phase != Phase::Sealed && is_foreign(&self.value.value)
    }
}

/// "No such key".
pub(super) const ABSENT: Stored = Stored {
    value: Datum::Null,
    timestamp: Timestamp::UNKNOWN,
};

fn weight(key_len: usize, value: &Stored) -> u32 {
    u32::try_from(OVERHEAD + key_len + value.value.weight()).unwrap_or(u32::MAX)
}

/// Whether a function that holds this value can change it in place.
pub(super) fn is_foreign(value: &Datum) -> bool {
    match value {
        Datum::Opaque(object) => object.changes(),
        Datum::List(items) => items.iter().any(is_foreign),
        Datum::Change(change) => is_foreign(&change.old) || is_foreign(&change.new),
        _ => false,
    }
}

/// One key.
#[derive(Debug)]
pub(super) struct Slot {
    pub hash: u64,
    pub key: SlotKey,
    pub newest: Version,
    /// Descending by stamp; empty except for keys that two open epochs have written.
    pub older: Vec<Version>,
    /// Number of lanes that compute a new value without the lock.
    pub pins: u16,
    /// True if touched since the clock's hand passed.
    pub referenced: bool,
    /// True if it is in the shard's list of slots with uncommitted versions.
    pub listed: bool,
}

/// The outcome of a write.
pub(super) struct SlotWrite {
    /// Whether this is the epoch's first write of the key (for the changelog).
    pub first: bool,
    /// Change in staged bytes.
    pub grown: isize,
    /// Bytes of a clean version that was replaced.
    pub uncached: usize,
    /// The replaced value, to be dropped without the lock.
    pub replaced: Option<Replaced>,
}

/// The parts of a version that may be foreign.
pub(super) type Replaced = (Stored, Option<Box<Frozen>>);

impl Slot {
    pub fn new(hash: u64, key: &[u8], version: Version) -> Self {
        Self {
            hash,
            key: SlotKey::new(key),
            newest: version,
            older: Vec::new(),
            pins: 0,
            referenced: true,
            listed: false,
        }
    }

    /// The newest version at or before `reader`.
    #[inline]
    pub fn visible(&self, reader: u64) -> Option<&Version> {
        if self.newest.stamp <= reader {
            return Some(&self.newest);
        }
        self.older.iter().find(|v| v.stamp <= reader)
    }

    /// The version with exactly this stamp.
    #[inline]
    pub fn exact(&mut self, stamp: u64) -> Option<&mut Version> {
        if self.newest.stamp == stamp {
            return Some(&mut self.newest);
        }
        self.older.iter_mut().find(|v| v.stamp == stamp)
    }

    /// Adds what the back end holds, below the versions of later epochs.
    pub fn add_committed(&mut self, version: Version) {
        self.older.push(version);
    }

    /// Writes as the epoch `stamp`; versions up to `committed` need not be kept.
    pub fn write(
        &mut self,
        stamp: u64,
        committed: u64,
        ticket: u64,
        value: Option<Stored>,
    ) -> Result<SlotWrite> {
        let value = value.unwrap_or_else(|| Stored {
            value: Datum::Null,
            timestamp: self.last_timestamp(stamp),
        });
        let key_len = self.key.len();
        // The key that a later epoch found missing exists after all.
        let versions = std::iter::once(&mut self.newest).chain(&mut self.older);
        for later in versions.take_while(|v| v.stamp > stamp) {
            later.created_in_epoch = false;
        }
        if let Some(version) = self.exact(stamp) {
            if version.phase != Phase::Open {
                return Err(Error::internal(format!(
                    "a write to epoch {} after it was sealed",
                    stamp - 1
                )));
            }
            let before = std::mem::replace(&mut version.weight, weight(key_len, &value));
            let grown = grown(version.weight) - grown(before);
            version.ticket = ticket;
            // A key that was only pruned is written now: the changelog must get it.
            let first = std::mem::take(&mut version.local);
            let replaced = Some((
                std::mem::replace(&mut version.value, value),
                version.frozen.take(),
            ));
            return Ok(SlotWrite {
                first,
                grown,
                uncached: 0,
                replaced,
            });
        }
        let mut wrote = SlotWrite {
            first: true,
            grown: 0,
            uncached: 0,
            replaced: None,
        };
        let mut fresh = Version::open(stamp, ticket, key_len, value);
        let below = self.visible(stamp);
        fresh.created_in_epoch = below.is_some_and(|v| v.value.value.is_null() && !v.local);
        wrote.grown = grown(fresh.weight);
        if self.newest.stamp > stamp {
            // A later epoch wrote first: this write goes below it.
            let at = self
                .older
                .iter()
                .position(|v| v.stamp < stamp)
                .unwrap_or(self.older.len());
            self.older.insert(at, fresh);
        } else {
            let replaced = std::mem::replace(&mut self.newest, fresh);
            if replaced.stamp > committed {
                self.older.insert(0, replaced);
            } else {
                // Committed: a reader that needs it finds it in the back end.
                wrote.uncached = replaced.weight as usize;
                wrote.replaced = Some((replaced.value, replaced.frozen));
            }
        }
        Ok(wrote)
    }

    fn last_timestamp(&self, stamp: u64) -> Timestamp {
        self.visible(stamp)
            .map_or(Timestamp::UNKNOWN, |v| v.value.timestamp)
    }
}

#[allow(clippy::cast_possible_wrap)] // u32 into isize: 64-bit targets only
const fn grown(weight: u32) -> isize {
    weight as isize
}
