//! A look at committed data that stands still while epochs go on.
//!
//! Takes the state as the last applied epoch left it, gives entries page by page: who reads a large store holds one
//! page of it, and nobody who commits waits for the reader. Never shows anything that was applied later.

use bytes::Bytes;
use std::fmt::Debug;
use stoatflow_core::{Result, StoreId};

/// How much is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// So many entries at most.
    pub rows: usize,
    /// The page ends with the entry that brings keys and values to this many bytes.
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

/// Committed data of some stores, all as of one epoch where one back end keeps them. Dropping it lets go of what
/// is kept for it.
pub trait Snapshot: Send + Sync + Debug {
    /// The value of a key.
    ///
    /// # Errors
    /// `StateCorrupt`, `DiskFull`, `Internal`.
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>>;
    /// Entries in byte order of keys, from this key on (it included), at most a page.
    ///
    /// # Errors
    /// As `get`.
    fn page(&self, store: StoreId, from: Option<&Bytes>, page: Page)
    -> Result<Vec<(Bytes, Bytes)>>;
}
