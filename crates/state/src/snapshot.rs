//! A snapshot of committed data, read page by page while epochs continue.
//!
//! A reader of a large store holds one page in memory, and no commit waits for it. Nothing that is
//! applied later is visible.

use crate::KeyRange;
use bytes::Bytes;
use std::fmt::Debug;
use stoatflow_core::{Result, StoreId};

/// The size of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The maximum number of entries.
    pub rows: usize,
    /// The page ends with the entry that reaches this many bytes.
    pub bytes: usize,
}

impl Page {
    /// The first page of these entries.
    ///
    /// # Errors
    /// The first error among them.
    pub fn of(
        self,
        entries: impl Iterator<Item = Result<(Bytes, Bytes)>>,
    ) -> Result<Vec<(Bytes, Bytes)>> {
        let mut page = Vec::new();
        let mut weight = 0;
        for entry in entries.take(self.rows) {
            let (key, value) = entry?;
            weight += key.len() + value.len();
            page.push((key, value));
            if weight >= self.bytes {
                break;
            }
        }
        Ok(page)
    }
}

/// The result of a read that doesn't wait for the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CachedRead {
    /// The value of the key, if it has one.
    Known(Option<Bytes>),
    /// It takes a read from the disk.
    OnDisk,
}

/// Committed data of some stores; as of one epoch if one back end keeps them. Dropping the snapshot
/// frees what is kept for it.
pub trait Snapshot: Send + Sync + Debug {
    /// The value of a key.
    ///
    /// # Errors
    /// `StateCorrupt`, `DiskFull`, `Internal`.
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>>;
    /// As `get`, if it takes no read from the disk.
    ///
    /// # Errors
    /// As `get`.
    fn get_cached(&self, store: StoreId, key: &[u8]) -> Result<CachedRead> {
        self.get(store, key).map(CachedRead::Known)
    }
    /// Entries of a range in byte order of keys (descending if the range says so), at most a page.
    ///
    /// # Errors
    /// As `get`.
    fn scan(&self, store: StoreId, range: &KeyRange, page: Page) -> Result<Vec<(Bytes, Bytes)>>;
    /// Entries in byte order of keys, starting with this key, at most a page.
    ///
    /// # Errors
    /// As `get`.
    fn page(
        &self,
        store: StoreId,
        from: Option<&Bytes>,
        page: Page,
    ) -> Result<Vec<(Bytes, Bytes)>> {
        let range = KeyRange {
            from: from.cloned(),
            ..KeyRange::default()
        };
        self.scan(store, &range, page)
    }
}
