//! Writing: epochs, restored records, and forgetting.
//!
//! Takes writes with the positions they stand for; makes both durable at once. Large restores become
//! sorted files that RocksDB takes in whole, past log and write buffers; their position follows
//! after them, so that a crash in between repeats the restore (later wins, so nothing changes).

use super::open::position_prefix;
use super::{META, RocksBackend};
use crate::{EpochBatch, KeyRange, Write};
use ::rocksdb::{IngestExternalFileOptions, IteratorMode, SstFileWriter, WriteBatch, WriteOptions};
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Offset, Partition, Result, StoreId};

/// From here on a sorted file is cheaper than a batch.
const INGEST_FROM: usize = 4_096;

impl RocksBackend {
    pub(super) fn apply_epoch(&self, epoch: &EpochBatch) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (store, range) in &epoch.drops {
            self.add_drop(&mut batch, *store, range)?;
        }
        for (store, writes) in &epoch.writes {
            self.add_writes(&mut batch, *store, writes)?;
        }
        for (store, partition, offset) in &epoch.positions {
            self.add_position(&mut batch, *store, *partition, *offset)?;
        }
        self.write(batch)
    }

    pub(super) fn restore_writes(
        &self,
        store: StoreId,
        writes: Vec<Write>,
        positions: &[(Partition, Offset)],
    ) -> Result<()> {
        let mut batch = WriteBatch::default();
        if writes.len() < INGEST_FROM {
            self.add_writes(&mut batch, store, &writes)?;
        } else {
            self.ingest(store, latest(writes))?;
        }
        for (partition, offset) in positions {
            self.add_position(&mut batch, store, *partition, *offset)?;
        }
        self.write(batch)
    }

    /// Data and positions go in one batch; the space is given back afterwards.
    pub(super) fn wipe_store(&self, store: StoreId) -> Result<()> {
        let family = self.store(store)?;
        let mut batch = WriteBatch::default();
        let full = self.past_last(store)?.is_some();
        self.add_drop(&mut batch, store, &KeyRange::default())?;
        let prefix = position_prefix(self.name(store)?);
        let meta = self.family(META)?;
        for partition in self.partitions(store)? {
            batch.delete_cf(
                &meta,
                [prefix.as_slice(), &partition.0.to_be_bytes()].concat(),
            );
        }
        self.write(batch)?;
        if full {
            self.db
                .compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>);
        }
        Ok(())
    }

    /// The least key after all keys of the store; `None` if it is empty.
    fn past_last(&self, store: StoreId) -> Result<Option<Vec<u8>>> {
        let family = self.store(store)?;
        let last = self
            .db
            .iterator_cf(&family, IteratorMode::End)
            .next()
            .transpose()
            .map_err(|e| self.place.error(&e))?;
        Ok(last.map(|(key, _)| [key.as_ref(), b"\0"].concat()))
    }

    fn add_drop(&self, batch: &mut WriteBatch, store: StoreId, range: &KeyRange) -> Result<()> {
        // RocksDB's ranges have an end, which is not part of them.
        let to = match &range.to {
            Some(to) => to.to_vec(),
            None => match self.past_last(store)? {
                Some(to) => to,
                None => return Ok(()),
            },
        };
        let from = range.from.as_deref().unwrap_or_default();
        if from < to.as_slice() {
            batch.delete_range_cf(&self.store(store)?, from, to.as_slice());
        }
        Ok(())
    }

    fn partitions(&self, store: StoreId) -> Result<Vec<Partition>> {
        Ok(crate::Backend::positions(self, store)?
            .into_iter()
            .map(|(p, _)| p)
            .collect())
    }

    fn add_writes(&self, batch: &mut WriteBatch, store: StoreId, writes: &[Write]) -> Result<()> {
        let family = self.store(store)?;
        for write in writes {
            match &write.value {
                Some(value) => batch.put_cf(&family, &write.key, value),
                None => batch.delete_cf(&family, &write.key),
            }
        }
        Ok(())
    }

    fn add_position(
        &self,
        batch: &mut WriteBatch,
        store: StoreId,
        partition: Partition,
        offset: Offset,
    ) -> Result<()> {
        let key = [
            position_prefix(self.name(store)?).as_slice(),
            &partition.0.to_be_bytes(),
        ]
        .concat();
        batch.put_cf(&self.family(META)?, key, offset.0.to_be_bytes());
        Ok(())
    }

    fn write(&self, batch: WriteBatch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut options = WriteOptions::default();
        options.set_sync(false);
        self.db
            .write_opt(batch, &options)
            .map_err(|e| self.place.error(&e))
    }

    /// `writes` is sorted and without duplicates.
    fn ingest(&self, store: StoreId, writes: Vec<Write>) -> Result<()> {
        let family = self.store(store)?;
        let cold = self
            .db
            .iterator_cf(&family, IteratorMode::Start)
            .next()
            .is_none();
        // A delete of what isn't there is not worth an entry.
        let mut writes = writes
            .into_iter()
            .filter(|w| !cold || w.value.is_some())
            .peekable();
        if writes.peek().is_none() {
            return Ok(());
        }
        std::fs::create_dir_all(&self.ingest).map_err(|e| self.place.io(&e))?;
        let path = self
            .ingest
            .join(format!("{}.sst", self.next_file.fetch_add(1, Relaxed)));
        let options = self.budget.store();
        let fail = |e: ::rocksdb::Error| self.place.error(&e);
        let mut file = SstFileWriter::create(&options);
        file.open(&path).map_err(fail)?;
        for write in writes {
            match &write.value {
                Some(value) => file.put(&write.key, value),
                None => file.delete(&write.key),
            }
            .map_err(fail)?;
        }
        file.finish().map_err(fail)?;
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        self.db
            .ingest_external_file_cf_opts(&family, &options, vec![path])
            .map_err(fail)
    }
}

/// Sorted by key, the last write of each.
fn latest(mut writes: Vec<Write>) -> Vec<Write> {
    // Stable: writes of one key stay in changelog order.
    writes.sort_by(|a, b| a.key.cmp(&b.key));
    writes.reverse();
    writes.dedup_by(|a, b| a.key == b.key);
    writes.reverse();
    writes
}
