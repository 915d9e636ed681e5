//! A snapshot of the database.
//!
//! While it exists, RocksDB keeps overwritten entries in its files. Each page uses its own
//! iterator, so that no file and no write buffer is held between pages.

use super::errors::DatabaseDir;
use super::within;
use crate::{CachedRead, KeyRange, Page, Snapshot};
use ::rocksdb::{DB, ErrorKind, IteratorMode, ReadOptions, ReadTier};
use bytes::Bytes;
use self_cell::self_cell;
use std::sync::Arc;
use stoatflow_core::{Error, Result, StoreId};

type Taken<'db> = ::rocksdb::Snapshot<'db>;

self_cell!(
    /// The snapshot, which must be dropped before its database.
    struct Held {
        owner: Arc<DB>,
        #[covariant]
        dependent: Taken,
    }
);

/// See the module.
pub(super) struct RocksSnapshot {
    held: Held,
    names: Vec<(StoreId, Box<str>)>,
    place: DatabaseDir,
}

impl std::fmt::Debug for RocksSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksSnapshot")
            .field("dir", &self.place.dir)
            .field("stores", &self.names)
            .finish_non_exhaustive()
    }
}

impl RocksSnapshot {
    pub fn new(db: &Arc<DB>, names: Vec<(StoreId, Box<str>)>, place: DatabaseDir) -> Self {
        Self {
            held: Held::new(Arc::clone(db), |db| db.snapshot()),
            names,
            place,
        }
    }

    fn family(&self, store: StoreId) -> Result<Arc<::rocksdb::BoundColumnFamily<'_>>> {
        let found = self.names.iter().find(|(id, _)| *id == store);
        let family = found.and_then(|(_, name)| self.held.borrow_owner().cf_handle(name));
        family.ok_or_else(|| {
            Error::internal(format!("store {store} is not among those that are read"))
        })
    }
}

impl Snapshot for RocksSnapshot {
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>> {
        let taken = self.held.borrow_dependent();
        let found = taken.get_pinned_cf(&self.family(store)?, key);
        let found = found.map_err(|e| self.place.error(&e))?;
        Ok(found.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn get_cached(&self, store: StoreId, key: &[u8]) -> Result<CachedRead> {
        let mut options = ReadOptions::default();
        options.set_read_tier(ReadTier::BlockCache);
        let taken = self.held.borrow_dependent();
        match taken.get_pinned_cf_opt(&self.family(store)?, key, options) {
            Ok(found) => Ok(CachedRead::Known(
                found.as_deref().map(Bytes::copy_from_slice),
            )),
            Err(error) if error.kind() == ErrorKind::Incomplete => Ok(CachedRead::OnDisk),
            Err(error) => Err(self.place.error(&error)),
        }
    }

    fn scan(&self, store: StoreId, range: &KeyRange, page: Page) -> Result<Vec<(Bytes, Bytes)>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let mut options = within(range);
        let mode = if range.reverse {
            IteratorMode::End
        } else {
            IteratorMode::Start
        };
        // A full read must not evict blocks that lanes read again and again.
        options.fill_cache(false);
        let taken = self.held.borrow_dependent();
        let family = self.family(store)?;
        let entries = taken.iterator_cf_opt(&family, options, mode);
        page.of(entries.map(|entry| {
            let (key, value) = entry.map_err(|e| self.place.error(&e))?;
            Ok((Bytes::from(key), Bytes::from(value)))
        }))
    }
}
