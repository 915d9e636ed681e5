//! Locks on keys and names, for sections of processors that only one lane may run at a time.
//!
//! Takes keys, and holds them until [`HeldLocks`] is dropped. All keys of a section are taken at once,
//! in the same order in all lanes, and a lane that holds some takes no more: so lanes can't deadlock.
//! Waits on a condition variable; a waiting thread must not hold the interpreter. Locks are in memory
//! only: they are held within one call of a processor, so never beyond the end of an epoch.

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{Clock, Origin, StoreId};

/// The number of shards, each with its own mutex.
const SHARDS: usize = 64;
/// How often a waiting lane checks whether the run has ended.
const RUN_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// What can be locked. The order is that in which locks are taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKey {
    /// A name that the application has chosen.
    Name(Arc<str>),
    /// A key of a store, encoded.
    Row(StoreId, Bytes),
}

/// The holder of a lock.
#[derive(Clone, Debug)]
pub struct LockHolder {
    /// The name of its node.
    pub node: Arc<str>,
    /// Its lane.
    pub lane: u32,
    /// The record that it processes; [`crate::NO_ORIGIN`]: none.
    pub origin: Origin,
}

/// Why locks were refused.
#[derive(Clone, Debug)]
pub enum LockRefused {
    /// This key was not free in time.
    Held {
        /// The key.
        key: LockKey,
        /// Its holder.
        by: LockHolder,
    },
    /// The run has ended.
    Ended,
}

#[derive(Debug, Default)]
struct LockShard {
    held: Mutex<BTreeMap<LockKey, LockHolder>>,
    freed: Condvar,
}

/// The locks of one run.
#[derive(Debug)]
pub struct LockTable {
    shards: Box<[LockShard]>,
    hasher: BuildHasherDefault<DefaultHasher>,
    ended: AtomicBool,
}

impl Default for LockTable {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| LockShard::default()).collect(),
            hasher: BuildHasherDefault::default(),
            ended: AtomicBool::new(false),
        }
    }
}

impl LockTable {
    /// Takes all keys if they are free, without waiting.
    ///
    /// # Errors
    /// The first key that isn't.
    pub fn try_acquire(
        self: &Arc<Self>,
        keys: Vec<LockKey>,
        holder: &LockHolder,
    ) -> Result<HeldLocks, LockRefused> {
        self.take(keys, holder, |_, _| false)
    }

    /// Takes all keys, and waits up to `timeout` for them, by this clock.
    ///
    /// # Errors
    /// The key that was not free in time, or that the run has ended.
    pub fn acquire(
        self: &Arc<Self>,
        keys: Vec<LockKey>,
        holder: &LockHolder,
        timeout: Duration,
        clock: &dyn Clock,
    ) -> Result<HeldLocks, LockRefused> {
        let until = clock.monotonic() + timeout;
        self.take(keys, holder, |shard, held| {
            let left = until.saturating_sub(clock.monotonic());
            if left.is_zero() || self.ended.load(Relaxed) {
                return false;
            }
            shard.freed.wait_for(held, left.min(RUN_CHECK_INTERVAL));
            true
        })
    }

    /// Ends the run: no lane waits any more.
    pub fn end(&self) {
        self.ended.store(true, Relaxed);
        for shard in &self.shards {
            shard.freed.notify_all();
        }
    }

    /// `wait` is called whenever a key isn't free; if it returns false, the attempt ends.
    fn take(
        self: &Arc<Self>,
        mut keys: Vec<LockKey>,
        holder: &LockHolder,
        wait: impl Fn(&LockShard, &mut Held<'_>) -> bool,
    ) -> Result<HeldLocks, LockRefused> {
        keys.sort_unstable();
        keys.dedup();
        let mut taken = HeldLocks {
            table: Arc::clone(self),
            keys: Vec::with_capacity(keys.len()),
        };
        for key in keys {
            let shard = self.shard(&key);
            let mut held = shard.held.lock();
            while let Some(by) = held.get(&key) {
                let by = by.clone();
                if !wait(shard, &mut held) {
                    // `taken` is dropped, which releases the keys taken so far.
                    drop(held);
                    return Err(if self.ended.load(Relaxed) {
                        LockRefused::Ended
                    } else {
                        LockRefused::Held { key, by }
                    });
                }
            }
            held.insert(key.clone(), holder.clone());
            drop(held);
            taken.keys.push(key);
        }
        Ok(taken)
    }

    #[allow(clippy::cast_possible_truncation)] // the low bits are enough
    fn shard(&self, key: &LockKey) -> &LockShard {
        &self.shards[self.hasher.hash_one(key) as usize & (SHARDS - 1)]
    }
}

type Held<'s> = parking_lot::MutexGuard<'s, BTreeMap<LockKey, LockHolder>>;

/// Locks that are held until this is dropped.
#[derive(Debug)]
pub struct HeldLocks {
    table: Arc<LockTable>,
    /// Sorted.
    keys: Vec<LockKey>,
}

impl HeldLocks {
    /// Whether this key is held.
    #[must_use]
    pub fn has(&self, key: &LockKey) -> bool {
        self.keys.binary_search(key).is_ok()
    }
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        for key in self.keys.drain(..) {
            let shard = self.table.shard(&key);
            let gone = shard.held.lock().remove(&key);
            shard.freed.notify_all();
            drop(gone);
        }
    }
}

#[cfg(test)]
mod tests;
