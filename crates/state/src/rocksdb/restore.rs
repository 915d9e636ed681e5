//! Restoring: a cold store is filled through sorted files, which skips the write buffers and their
//! compactions; a warm one gets the few records it lacks in a write batch.

use super::errors::located;
use super::{RocksBackend, position_key};
use crate::Write;
use rocksdb::{IngestExternalFileOptions, IteratorMode, SstFileWriter, WriteBatch};
use std::collections::BTreeMap;
use stoatflow_core::{Error, Offset, Partition, Result, StoreId};

/// Below this many records a file costs more than it saves.
const BULK_MIN: usize = 10_000;

impl RocksBackend {
    pub(super) fn restore_batch(&self, store: StoreId, writes: Vec<Write>, positions: &[(Partition, Offset)]) -> Result<()> {
        if writes.len() < BULK_MIN || !self.is_empty(store)? {
            return self.write_restored(store, &writes, positions);
        }
        // Later wins, and a file wants its keys in order.
        let sorted: BTreeMap<_, _> = writes.into_iter().map(|w| (w.key, w.value)).collect();
        self.ingest(store, &sorted)?;
        // Positions last: a crash in between reads the same records again into the same keys.
        self.write_restored(store, &[], positions)
    }

    fn is_empty(&self, store: StoreId) -> Result<bool> {
        match self.db.iterator_cf(&self.family(store)?, IteratorMode::Start).next() {
            None => Ok(true),
            Some(entry) => entry.map(|_| false).map_err(|e| located(&e, &self.dir)),
        }
    }

    fn ingest(&self, store: StoreId, sorted: &BTreeMap<bytes::Bytes, Option<bytes::Bytes>>) -> Result<()> {
        let live = sorted.iter().filter_map(|(k, v)| v.as_ref().map(|v| (k, v)));
        if live.clone().next().is_none() {
            return Ok(());
        }
        let options = self.budget.family();
        let path = self.dir.join(format!("restore-{}.sst", store.0));
        let failed = |e: rocksdb::Error| located(&e, &self.dir);
        let mut writer = SstFileWriter::create(&options);
        writer.open(&path).map_err(failed)?;
        for (key, value) in live {
            writer.put(key, value).map_err(failed)?;
        }
        writer.finish().map_err(failed)?;
        let mut ingest = IngestExternalFileOptions::default();
        ingest.set_move_files(true);
        self.db.ingest_external_file_cf_opts(&self.family(store)?, &ingest, vec![&path]).map_err(failed)?;
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::internal(format!("{} can't be removed", path.display())).caused_by(e))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn wipe_store(&self, store: StoreId) -> Result<()> {
        let family = self.family(store)?;
        let mut batch = WriteBatch::default();
        // Positions first and alone: a crash in between finds data without a position, which restore
        // overwrites or wipes again, never a position without its data.
        for (partition, _) in crate::Backend::positions(self, store)? {
            batch.delete_cf(&self.meta()?, position_key(self.name(store), partition));
        }
        self.db.write(batch).map_err(|e| located(&e, &self.dir))?;
        let mut batch = WriteBatch::default();
        for entry in self.db.iterator_cf(&family, IteratorMode::Start) {
            let (key, _) = entry.map_err(|e| located(&e, &self.dir))?;
            batch.delete_cf(&family, key);
            if batch.len() >= BULK_MIN {
                self.db.write(std::mem::take(&mut batch)).map_err(|e| located(&e, &self.dir))?;
            }
        }
        self.db.write(batch).map_err(|e| located(&e, &self.dir))
    }
}
