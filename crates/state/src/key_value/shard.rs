//! A shard: some of the keys behind one lock, with their slots, index and eviction clock.
//!
//! Accounts for memory: uncommitted versions (`staged`) are never evicted; committed ones (`cached`)
//! stay within the budget. Never reads the back end or runs a serde, and leaves dropping of values to
//! callers, without the lock.

use super::Stored;
use super::order::Order;
use super::slot::{ABSENT, Replaced, Slot, Version, stamp};
use super::slot_key::SlotKey;
use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Error, Result};

/// How many slots the clock's hand passes per insertion; a full round would delay it.
const STEPS: usize = 16;
/// How many slots a trim visits per lock.
const TRIM_STEPS: usize = 512;

/// A lock, its table, and figures that are read without the lock.
#[derive(Debug)]
#[repr(align(128))] // one pair of cache lines per lock: neighbours don't slow each other down
pub(super) struct Shard {
    table: Mutex<Table>,
    pub staged_bytes: AtomicUsize,
    pub entries: AtomicUsize,
}

impl Shard {
    pub fn new(budget: usize, order: Option<Order>) -> Self {
        let table = Table {
            budget,
            order,
            ..Table::default()
        };
        Self {
            table: Mutex::new(table),
            staged_bytes: AtomicUsize::new(0),
            entries: AtomicUsize::new(0),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// The lock, if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Table>> {
        self.table.try_lock()
    }

    /// Publishes the counts; call with the lock held, after a change.
    pub fn publish(&self, table: &Table) {
        self.staged_bytes.store(table.staged_bytes, Relaxed);
        self.entries.store(table.index.len(), Relaxed);
    }

    /// Evicts until the budget holds, a few slots per lock so that lanes get in between.
    pub fn trim(&self) {
        let mut left = self.lock().slots.len() * 2;
        while left > 0 {
            let mut trash = Vec::new();
            let mut table = self.lock();
            if table.cached_bytes <= table.budget {
                table.give_back();
                break;
            }
            let steps = left.min(TRIM_STEPS);
            left -= steps;
            table.turn(steps, 0, &mut trash);
            self.publish(&table);
            drop(table);
        }
    }
}

/// The outcome of a write.
pub(super) struct ShardWrite {
    /// The key, if this was its first write in the epoch.
    pub first: Option<SlotKey>,
    /// The replaced value, to be dropped without the lock.
    pub replaced: Option<Replaced>,
}

/// The slots of a shard.
#[derive(Debug, Default)]
pub(super) struct Table {
    index: HashTable<u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    hand: usize,
    /// Slots with uncommitted versions.
    staged: Vec<u32>,
    /// Stamp of the last committed epoch. A back-end read that began before it is stale.
    pub committed: u64,
    last_ticket: u64,
    pub staged_bytes: usize,
    cached_bytes: usize,
    budget: usize,
    /// The same slots in key order, in stores that are read by ranges.
    pub order: Option<Order>,
}

impl Table {
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.index
            .find(hash, |&i| {
                self.slots[i as usize]
                    .as_ref()
                    .is_some_and(|s| s.hash == hash && *s.key == *key)
            })
            .copied()
    }

    /// The entry that `hash` maps to, without comparing keys. (Wrong for one in 128.)
    pub fn likely(&self, hash: u64) -> Option<&Option<Slot>> {
        let at = self.index.find(hash, |_| true)?;
        self.slots.get(*at as usize)
    }

    pub fn slot(&self, index: u32) -> &Slot {
        self.slots[index as usize]
            .as_ref()
            .expect("the index holds live slots only")
    }

    pub fn slot_mut(&mut self, index: u32) -> &mut Slot {
        self.slots[index as usize]
            .as_mut()
            .expect("the index holds live slots only")
    }

    /// All slots.
    pub fn live(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0u32..)
            .zip(&self.slots)
            .filter_map(|(i, s)| Some((i, s.as_ref()?)))
    }

    /// The slots with uncommitted versions.
    pub fn staged(&self) -> impl Iterator<Item = &Slot> {
        self.staged.iter().map(|&i| self.slot(i))
    }

    fn ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    fn check_open(&self, epoch: Epoch) -> Result<()> {
        if stamp(epoch) > self.committed {
            return Ok(());
        }
        Err(Error::internal(format!(
            "a write to epoch {epoch} after it was committed"
        )))
    }

    /// Writes to a slot.
    pub fn write(&mut self, index: u32, epoch: Epoch, value: Option<Stored>) -> Result<ShardWrite> {
        self.check_open(epoch)?;
        let (ticket, committed) = (self.ticket(), self.committed);
        let slot = self.slots[index as usize]
            .as_mut()
            .expect("the index holds live slots only");
        slot.referenced = true;
        let wrote = slot.write(stamp(epoch), committed, ticket, value)?;
        let first = wrote.first.then(|| slot.key.clone());
        if !slot.listed {
            slot.listed = true;
            self.staged.push(index);
        }
        self.staged_bytes = self.staged_bytes.saturating_add_signed(wrote.grown);
        self.cached_bytes -= wrote.uncached;
        Ok(ShardWrite {
            first,
            replaced: wrote.replaced,
        })
    }

    /// A slot for a key that is written without being read first.
    pub fn insert_written(
        &mut self,
        hash: u64,
        key: &[u8],
        epoch: Epoch,
        value: Option<Stored>,
        trash: &mut Vec<Slot>,
    ) -> Result<ShardWrite> {
        self.check_open(epoch)?;
        let value = value.unwrap_or(ABSENT);
        let mut version = Version::open(stamp(epoch), self.ticket(), key.len(), value);
        version.created_in_epoch = self.knows(key);
        self.turn(STEPS, 0, trash);
        self.staged_bytes += version.weight as usize;
        let mut slot = Slot::new(hash, key, version);
        slot.listed = true;
        let first = Some(slot.key.clone());
        let index = self.insert(slot);
        self.staged.push(index);
        Ok(ShardWrite {
            first,
            replaced: None,
        })
    }

    /// Caches what the back end holds: in a new slot, or below the versions of later epochs.
    pub fn insert_committed(
        &mut self,
        hash: u64,
        key: &[u8],
        value: Option<Stored>,
        trash: &mut Vec<Slot>,
    ) -> u32 {
        let version = Version::committed(self.ticket(), key.len(), value);
        let weight = version.weight as usize;
        let index = if let Some(index) = self.find(hash, key) {
            self.slot_mut(index).add_committed(version);
            index
        } else {
            self.turn(STEPS, weight, trash);
            self.insert(Slot::new(hash, key, version))
        };
        self.cached_bytes += weight;
        index
    }

    fn insert(&mut self, slot: Slot) -> u32 {
        let hash = slot.hash;
        let key = self.order.is_some().then(|| slot.key.to_bytes());
        let at = if let Some(free) = self.free.pop() {
            self.slots[free as usize] = Some(slot);
            free
        } else {
            self.slots.push(Some(slot));
            u32::try_from(self.slots.len() - 1)
                .expect("a shard of 2^32 keys would not fit into memory")
        };
        let slots = &self.slots;
        self.index.insert_unique(hash, at, |&i| {
            slots[i as usize].as_ref().map_or(0, |s| s.hash)
        });
        if let (Some(order), Some(key)) = (&mut self.order, key) {
            order.insert(key, at);
        }
        at
    }

    /// Removes a slot without uncommitted versions.
    pub fn remove(&mut self, at: u32) -> Option<Slot> {
        let slot = self.take(at)?;
        if let Some(order) = &mut self.order {
            order.remove(&slot.key);
        }
        Some(slot)
    }

    /// Removes the slot, except from the order.
    fn take(&mut self, at: u32) -> Option<Slot> {
        let slot = self.slots[at as usize].take()?;
        if let Ok(entry) = self.index.find_entry(slot.hash, |&i| i == at) {
            entry.remove();
        }
        self.free.push(at);
        self.cached_bytes -= slot.newest.weight as usize
            + slot.older.iter().map(|v| v.weight as usize).sum::<usize>();
        Some(slot)
    }

    /// Sets a clean slot to "no such key"; returns the old version.
    pub fn clear(&mut self, at: u32) -> Version {
        let ticket = self.ticket();
        let slot = self.slot_mut(at);
        let empty = Version::committed(ticket, slot.key.len(), None);
        let weight = empty.weight as usize;
        let old = std::mem::replace(&mut slot.newest, empty);
        self.cached_bytes = self.cached_bytes + weight - old.weight as usize;
        old
    }

    /// Removes the committed versions of a slot that has uncommitted ones.
    pub fn remove_committed(&mut self, at: u32, trash: &mut Vec<Version>) {
        let slot = self.slots[at as usize]
            .as_mut()
            .expect("the index holds live slots only");
        while let Some(k) = slot.older.iter().position(|v| v.stamp == 0) {
            let version = slot.older.remove(k);
            self.cached_bytes -= version.weight as usize;
            trash.push(version);
        }
    }

    /// Moves the clock's hand over at most `steps` live slots while more bytes are cached than the
    /// budget less `room`; clean slots not touched since its last visit go to `trash`.
    fn turn(&mut self, steps: usize, room: usize, trash: &mut Vec<Slot>) {
        let (mut live, mut visits) = (0, 0);
        while live < steps && visits < steps * 8 {
            if self.cached_bytes + room <= self.budget || self.slots.is_empty() {
                return;
            }
            visits += 1;
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let at = self.hand;
            self.hand += 1;
            let Some(slot) = &mut self.slots[at] else {
                continue;
            };
            live += 1;
            if slot.listed || slot.pins > 0 {
                continue;
            }
            if std::mem::take(&mut slot.referenced) {
                continue;
            }
            #[allow(clippy::cast_possible_truncation)] // `insert` checked that it fits
            trash.extend(self.remove(at as u32));
        }
    }

    /// `epoch` is in the back end: its versions become cache entries, and versions that only it needed
    /// are removed.
    pub fn commit(&mut self, epoch: Epoch, trash: &mut Vec<Version>) {
        self.committed = self.committed.max(stamp(epoch));
        let committed = self.committed;
        let (slots, staged_bytes, cached_bytes) = (
            &mut self.slots,
            &mut self.staged_bytes,
            &mut self.cached_bytes,
        );
        let mut gone = Vec::new();
        self.staged.retain(|&i| {
            let slot = slots[i as usize]
                .as_mut()
                .expect("listed slots are never evicted");
            let mut k = 0;
            while k < slot.older.len() {
                if slot.older[k].stamp > committed {
                    k += 1;
                    continue;
                }
                let version = slot.older.remove(k);
                let weight = version.weight as usize;
                if version.stamp == 0 {
                    *cached_bytes -= weight;
                } else {
                    *staged_bytes -= weight;
                }
                trash.push(version);
            }
            slot.listed = slot.newest.stamp > committed;
            if !slot.listed {
                // From now on it counts as loaded from the back end, so that it isn't subtracted
                // twice.
                slot.newest.stamp = 0;
                let weight = slot.newest.weight as usize;
                *staged_bytes -= weight;
                *cached_bytes += weight;
                if slot.newest.value.value.is_null() && slot.pins == 0 {
                    gone.push(i);
                }
            }
            slot.listed
        });
        gone.into_iter().for_each(|at| self.forget_deleted(at));
    }

    /// Removes a committed deletion if its row is complete: then a missing slot means the same.
    fn forget_deleted(&mut self, at: u32) {
        if !self.knows(&self.slot(at).key) {
            return;
        }
        if let (Some(order), Some(slot)) = (&mut self.order, &self.slots[at as usize]) {
            order.remove_deleted(&slot.key);
        }
        self.take(at);
    }

    /// Shrinks the slot vector if it is mostly empty after a burst.
    fn give_back(&mut self) {
        let live = self.index.len();
        if self.slots.len() < 64 || live > self.slots.len() / 4 {
            return;
        }
        let old = std::mem::take(&mut self.slots);
        (self.hand, self.free, self.staged) = (0, Vec::new(), Vec::new());
        self.index = HashTable::with_capacity(live);
        self.slots.reserve(live);
        if let Some(order) = &mut self.order {
            order.renumber();
        }
        for slot in old.into_iter().flatten() {
            #[allow(clippy::cast_possible_truncation)] // fewer than before
            let at = self.slots.len() as u32;
            if slot.listed {
                self.staged.push(at);
            }
            self.index
                .insert_unique(slot.hash, at, |_| unreachable!("the capacity was reserved"));
            if let Some(order) = &mut self.order {
                order.insert(slot.key.to_bytes(), at);
            }
            self.slots.push(Some(slot));
        }
    }
}
