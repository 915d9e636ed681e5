//! A snapshot as a read-only back end, so that stores and their views read it as they do in lanes.

use std::sync::Arc;
use stoatflow_core::{Bytes, Error, Offset, Partition, Result, StoreId, Timestamp};
use stoatflow_operators::OpenSnapshot;
use stoatflow_state::{Backend, EpochBatch, KeyRange, Page, Snapshot, Write};

/// See the module.
#[derive(Debug)]
pub(super) struct SnapshotBackend(pub Arc<OpenSnapshot>);

fn read_only() -> Error {
    Error::internal("a snapshot was written")
}

impl Backend for SnapshotBackend {
    fn get(&self, store: StoreId, key: &[u8]) -> Result<Option<Bytes>> {
        self.0.read(|snapshot| snapshot.get(store, key))
    }

    fn scan(&self, store: StoreId, range: &KeyRange, limit: usize) -> Result<Vec<(Bytes, Bytes)>> {
        let page = Page {
            rows: limit,
            bytes: usize::MAX,
        };
        self.0.read(|snapshot| snapshot.scan(store, range, page))
    }

    fn snapshot(&self, _stores: &[StoreId]) -> Result<Box<dyn Snapshot>> {
        Err(Error::internal("a snapshot of a snapshot"))
    }

    fn apply(&self, _batch: EpochBatch) -> Result<()> {
        Err(read_only())
    }

    fn restore(
        &self,
        _store: StoreId,
        _writes: Vec<Write>,
        _positions: &[(Partition, Offset)],
    ) -> Result<()> {
        Err(read_only())
    }

    fn positions(&self, _store: StoreId) -> Result<Vec<(Partition, Offset)>> {
        Ok(Vec::new())
    }

    fn current_at(&self, _store: StoreId) -> Result<Option<Timestamp>> {
        Ok(None)
    }

    fn note_current(&self, _stores: &[StoreId], _at: Timestamp) -> Result<()> {
        Err(read_only())
    }

    fn source_topic(&self, _store: StoreId) -> Result<Option<String>> {
        Ok(None)
    }

    fn note_source_topic(&self, _store: StoreId, _topic: Option<&str>) -> Result<()> {
        Err(read_only())
    }

    fn wipe(&self, _store: StoreId) -> Result<()> {
        Err(read_only())
    }

    fn approximate_len(&self, _store: StoreId) -> u64 {
        0
    }

    fn memory_bytes(&self) -> u64 {
        0
    }

    fn is_durable(&self) -> bool {
        true
    }
}
