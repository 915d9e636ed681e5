//! Looks up many keys, prefetching the memory of the next ones while the current one is read.
//!
//! A large store is mostly outside of the processor's caches, and a lookup that waits for memory
//! takes several times as long as the rest. Prefetching never waits for a lock and never reads the
//! back end.

use super::shard::Table;
use super::{KeyValueStore, Stored};
use stoatflow_core::{Datum, Epoch, Result};

/// The slot is prefetched this many keys ahead.
const SLOT: usize = 8;
/// The value is prefetched this many keys ahead, when its slot is there.
const VALUE: usize = 4;

/// Prefetches the cache lines of an object, at most three.
fn fetch<T: ?Sized>(of: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let from = std::ptr::from_ref(of).cast::<i8>();
        for line in 0..size_of_val(of).div_ceil(64).min(3) {
            // SAFETY: nothing is read: the processor may fetch the line, or not. The address is
            // within the object.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(64 * line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _unused = of;
}

impl KeyValueStore {
    /// Reads each of these keys as [`Self::get`] does; skips `None`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_each<K: AsRef<[u8]>>(
        &self,
        epoch: Epoch,
        keys: &[Option<K>],
    ) -> Result<Vec<Option<Stored>>> {
        let key = |at: usize| Some(keys.get(at)?.as_ref()?.as_ref());
        let mut found = Vec::with_capacity(keys.len());
        for at in 0..keys.len().min(SLOT) {
            self.prefetch(key(at), Table::prefetch);
        }
        for at in 0..keys.len().min(VALUE) {
            self.prefetch(key(at), Table::prefetch_value);
        }
        for at in 0..keys.len() {
            self.prefetch(key(at + SLOT), Table::prefetch);
            self.prefetch(key(at + VALUE), Table::prefetch_value);
            found.push(match key(at) {
                Some(key) => self.get(epoch, key)?,
                None => None,
            });
        }
        Ok(found)
    }

    fn prefetch(&self, key: Option<&[u8]>, how: impl FnOnce(&Table, u64, &[u8])) {
        let Some(key) = key else { return };
        let hash = self.hash(key);
        if let Some(table) = self.shard(hash, key).try_lock() {
            how(&table, hash, key);
        }
    }
}

impl Table {
    /// The slot that a key is most likely in.
    fn prefetch(&self, hash: u64, _key: &[u8]) {
        if let Some(slot) = self.likely(hash) {
            fetch(slot);
        }
    }

    /// Prefetches what a read of this slot touches.
    fn prefetch_value(&self, hash: u64, key: &[u8]) {
        let Some(at) = self.find(hash, key) else {
            return;
        };
        match &self.slot(at).newest.value.value {
            Datum::Bytes(bytes) | Datum::Json(bytes) => fetch(&**bytes),
            Datum::Str(text) => fetch(text.as_str()),
            _ => {}
        }
    }
}
