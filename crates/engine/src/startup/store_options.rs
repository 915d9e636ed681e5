//! RocksDB options of each store: those of the topology override those of the settings.
//!
//! Stores' own block caches reduce RocksDB's part of the memory: a start is refused if they leave too
//! little of it for the other stores.

use super::EngineSpec;
use stoatflow_core::settings::StoreBackend;
use stoatflow_core::{Error, Result, RocksDbOptions};
use stoatflow_plan::Store;

#[cfg(test)]
mod tests;

/// RocksDB's part of `state.memory.max.bytes`; the rest is for the caches in front of it.
pub(super) const fn rocksdb_part(memory_max_bytes: usize) -> usize {
    memory_max_bytes / 4 * 3
}

/// The smallest `state.memory.max.bytes` in which caches of this size take at most half of RocksDB's
/// part.
const fn least_memory(caches: u64) -> u64 {
    caches.saturating_mul(2).div_ceil(3).saturating_mul(4)
}

impl EngineSpec {
    /// The RocksDB options of a store.
    pub(super) fn rocksdb_of(&self, store: &Store) -> RocksDbOptions {
        let said = store.rocksdb.unwrap_or_default();
        self.settings.rocksdb.with(&said)
    }

    /// Checks that the stores' own block caches leave room for the others. Logs that they have no effect
    /// if all stores are in memory.
    ///
    /// # Errors
    /// `Config`, with the stores and the next steps.
    pub(super) fn check_store_options(&self, specs: &[Store]) -> Result<()> {
        let said: Vec<&Store> = specs.iter().filter(|s| s.rocksdb.is_some()).collect();
        if said.is_empty() || self.components.backend.is_some() {
            return Ok(());
        }
        let names = |stores: &[&Store]| {
            let names: Vec<&str> = stores.iter().map(|store| store.name.as_str()).collect();
            names.join(", ")
        };
        if self.settings.store_backend == StoreBackend::Memory {
            tracing::info!(
                target: "stoatflow::settings",
                stores = names(&said),
                "these stores have a RocksDBConfig, but default.dsl.store = in_memory keeps all stores in memory: it \
                 has no effect. Next: leave one of the two out"
            );
            return Ok(());
        }
        let cache = |store: &Store| self.rocksdb_of(store).cache_size;
        let own: Vec<&Store> = said.into_iter().filter(|s| cache(s).is_some()).collect();
        let caches: u64 = own.iter().filter_map(|store| cache(store)).sum();
        let memory = self.settings.state_memory_max_bytes;
        let most = (rocksdb_part(memory) / 2) as u64;
        if caches <= most {
            return Ok(());
        }
        Err(Error::config(format!(
            "block caches of their own (RocksDBConfig(cache_size=...)) take {caches} bytes for the stores {}, but \
             state.memory.max.bytes = {memory} has room for {most}: three quarters of it are RocksDB's, and half of \
             that stays for all stores",
            names(&own)
        ))
        .hint(format!(
            "give them less, or set state.memory.max.bytes to {} or more",
            least_memory(caches)
        )))
    }
}
