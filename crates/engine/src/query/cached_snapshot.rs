//! A snapshot for readers that must not wait for the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use stoatflow_core::{Bytes, Error, Result, StoreId};
use stoatflow_operators::OpenSnapshot;
use stoatflow_state::{CachedRead, KeyRange, Page, Snapshot};

/// Reads that would have to wait fail, and set a flag: the caller then repeats them where it may wait.
#[derive(Debug)]
pub(super) struct CachedSnapshot {
    of: Arc<OpenSnapshot>,
    is_on_disk: Arc<AtomicBool>,
}

impl CachedSnapshot {
    /// The snapshot, and its flag.
    pub(super) fn new(of: Arc<OpenSnapshot>) -> (Self, Arc<AtomicBool>) {
        let is_on_disk = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_on_disk);
        (Self { of, is_on_disk }, flag)
    }

    fn on_disk(&self) -> Error {
        self.is_on_disk.store(true, Relaxed);
        Error::internal("a read that must not wait needs the disk")
    }
}

impl Snapshot for CachedSnapshot {
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>> {
        match self.of.read(|snapshot| snapshot.get_cached(store, key))? {
            CachedRead::Known(found) => Ok(found),
            CachedRead::OnDisk => Err(self.on_disk()),
        }
    }

    fn scan(&self, _store: StoreId, _range: &KeyRange, _page: Page) -> Result<Vec<(Bytes, Bytes)>> {
        Err(self.on_disk())
    }
}
