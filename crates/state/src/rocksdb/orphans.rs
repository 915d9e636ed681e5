//! Stores that no topology has any more: lists them and removes them.

use super::errors::DatabaseDir;
use super::open::{
    current_key, format_key, is_index, open_families, position_prefix, source_topic_key,
};
use super::options::Budget;
use super::{META, RocksBackend};
use ::rocksdb::{DB, DEFAULT_COLUMN_FAMILY_NAME, Direction, IteratorMode, Options, WriteBatch};
use std::path::Path;
use stoatflow_core::Result;

impl RocksBackend {
    /// The stores of the state in `dir`, which another process may have open.
    ///
    /// # Errors
    /// `StateCorrupt`, `Config` if the directory can't be read.
    pub fn stores_in(dir: &Path) -> Result<Vec<String>> {
        if !dir.join("CURRENT").exists() {
            return Ok(Vec::new());
        }
        let place = DatabaseDir::new(dir.to_owned());
        let mut names = families(&place)?;
        names.retain(|name| name != META && name != DEFAULT_COLUMN_FAMILY_NAME && !is_index(name));
        names.sort_unstable();
        Ok(names)
    }

    /// Removes stores of the state in `dir`, with their entries in the meta family. Their indexes are
    /// removed at the next start.
    ///
    /// # Errors
    /// `StateLocked` if another process has it open, `StateCorrupt`, `DiskFull`.
    pub fn drop_stores(dir: &Path, stores: &[String], memory_max_bytes: usize) -> Result<()> {
        let place = DatabaseDir::new(dir.to_owned());
        let budget = Budget::new(memory_max_bytes, &[]);
        let present = families(&place)?;
        let db = open_families(&budget, &place, present.iter().map(String::as_str))?;
        for store in stores.iter().filter(|store| present.contains(store)) {
            // Positions first: if the store is declared again, it must not count as restored.
            forget(&db, store)
                .and_then(|()| db.drop_cf(store))
                .map_err(|e| place.error(&e))?;
        }
        Ok(())
    }
}

fn families(place: &DatabaseDir) -> Result<Vec<String>> {
    DB::list_cf(&Options::default(), &place.dir).map_err(|e| place.error(&e))
}

/// Removes a store's entries from the meta family.
fn forget(db: &DB, store: &str) -> Result<(), ::rocksdb::Error> {
    let Some(meta) = db.cf_handle(META) else {
        return Ok(());
    };
    let mut batch = WriteBatch::default();
    let prefix = position_prefix(store);
    for entry in db.iterator_cf(&meta, IteratorMode::From(&prefix, Direction::Forward)) {
        let (key, _) = entry?;
        if !key.starts_with(&prefix) {
            break;
        }
        batch.delete_cf(&meta, key);
    }
    batch.delete_cf(&meta, current_key(store));
    batch.delete_cf(&meta, source_topic_key(store));
    batch.delete_cf(&meta, format_key(store));
    db.write(batch)
}
