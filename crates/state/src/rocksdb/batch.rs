//! Writes: epochs, restored records, and wiping.
//!
//! Writes and the changelog offsets they reach become durable together. Large restores are written as
//! sorted files that RocksDB ingests whole, without log and write buffers. Their offset is written
//! afterwards: a crash in between repeats the restore, which changes nothing because later records win.

use super::open::{current_key, position_prefix, source_topic_key};
use super::{META, RocksBackend};
use crate::{EpochBatch, KeyRange, RestoreRun, Write};
use ::rocksdb::{IngestExternalFileOptions, IteratorMode, SstFileWriter, WriteBatch, WriteOptions};
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Offset, Partition, Result, StoreId, Timestamp};

/// From this many records on, a sorted file is cheaper than a batch.
const INGEST_FROM: usize = 4_096;
/// From this file of a restore on, compaction is postponed until the store has caught up. (Changing the
/// option writes a file, so small restores don't.)
const COMPACT_LATER_FROM: u32 = 3;
/// From this file on, compaction runs during the restore again, because too many files would wait for
/// it. RocksDB slows writes from 20 files on, and stops them at 36.
const COMPACT_AGAIN_FROM: u32 = 16;

/// Files loaded into a store that hasn't caught up yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loaded(u32);

impl Loaded {
    const fn add_one(&mut self) -> u32 {
        self.0 += 1;
        self.0
    }
}

/// The writes in key order (each key occurs once). Each row's place in the write buffer is then next to
/// that of the row before, where RocksDB starts its search (see
/// `memtable_insert_with_hint_prefix_extractor` in `options`).
pub(super) fn in_order(writes: &[Write]) -> impl Iterator<Item = &Write> {
    let head = |write: &Write| {
        let mut head = [0; 8];
        let len = write.key.len().min(8);
        head[..len].copy_from_slice(&write.key[..len]);
        u64::from_be_bytes(head)
    };
    // Most keys differ in their first bytes, which are compared without touching the key itself.
    let mut ordered: Vec<(u64, &Write)> = writes.iter().map(|write| (head(write), write)).collect();
    ordered.sort_unstable_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.key.cmp(&other.key)));
    ordered.into_iter().map(|(_, write)| write)
}

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

    pub(super) fn load(
        &self,
        store: StoreId,
        run: RestoreRun,
        positions: &[(Partition, Offset)],
    ) -> Result<()> {
        let mut batch = WriteBatch::default();
        if run.len() < INGEST_FROM {
            let family = self.store(store)?;
            for (key, value) in run.iter() {
                match value {
                    Some(value) => batch.put_cf(&family, key, value),
                    None => batch.delete_cf(&family, key),
                }
            }
        } else {
            self.hold_compaction(store)?;
            self.ingest(store, &run)?;
        }
        drop(run);
        for (partition, offset) in positions {
            self.add_position(&mut batch, store, *partition, *offset)?;
        }
        self.write(batch)
    }

    /// Postpones compaction. Compacting again and again while files are loaded one after the other would
    /// take CPU from the restore; once is enough, when the store has caught up.
    fn hold_compaction(&self, store: StoreId) -> Result<()> {
        let loaded = self.loaded.lock().entry(store).or_default().add_one();
        match loaded {
            COMPACT_LATER_FROM => self.set_compaction(store, false),
            COMPACT_AGAIN_FROM => self.set_compaction(store, true),
            _ => Ok(()),
        }
    }

    pub(super) fn release_compaction(&self, store: StoreId) -> Result<()> {
        let loaded = self.loaded.lock().remove(&store).unwrap_or_default();
        if (COMPACT_LATER_FROM..COMPACT_AGAIN_FROM).contains(&loaded.0) {
            self.set_compaction(store, true)?;
        }
        Ok(())
    }

    fn set_compaction(&self, store: StoreId, on: bool) -> Result<()> {
        let disabled = if on { "false" } else { "true" };
        self.db
            .set_options_cf(
                &self.store(store)?,
                &[("disable_auto_compactions", disabled)],
            )
            .map_err(|e| self.place.error(&e))
    }

    /// Data and offsets are deleted in one batch; the space is freed afterwards.
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
        batch.delete_cf(&meta, current_key(self.name(store)?));
        batch.delete_cf(&meta, source_topic_key(self.name(store)?));
        self.write(batch)?;
        if full {
            self.db
                .compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>);
        }
        Ok(())
    }

    /// The smallest key after all keys of the store; `None` if it is empty.
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
        // RocksDB's ranges exclude their end.
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
        for write in in_order(writes) {
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

    pub(super) fn write_current(&self, stores: &[StoreId], at: Timestamp) -> Result<()> {
        let meta = self.family(META)?;
        let mut batch = WriteBatch::default();
        for store in stores {
            batch.put_cf(&meta, current_key(self.name(*store)?), at.0.to_be_bytes());
        }
        self.write(batch)
    }

    pub(super) fn write_source_topic(&self, store: StoreId, topic: Option<&str>) -> Result<()> {
        let meta = self.family(META)?;
        let key = source_topic_key(self.name(store)?);
        let mut batch = WriteBatch::default();
        match topic {
            Some(topic) => batch.put_cf(&meta, key, topic),
            None => batch.delete_cf(&meta, key),
        }
        self.write(batch)
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

    fn ingest(&self, store: StoreId, run: &RestoreRun) -> Result<()> {
        let family = self.store(store)?;
        let cold = self
            .db
            .iterator_cf(&family, IteratorMode::Start)
            .next()
            .is_none();
        // In an empty store, deleting a missing key isn't worth an entry.
        let mut rows = run.sorted().filter(|(_, value)| !cold || value.is_some());
        let Some(first) = rows.next() else {
            return Ok(());
        };
        std::fs::create_dir_all(&self.ingest).map_err(|e| self.place.io(&e))?;
        let path = self
            .ingest
            .join(format!("{}.sst", self.next_file.fetch_add(1, Relaxed)));
        let options = self.budget.store(self.name(store)?);
        let fail = |e: ::rocksdb::Error| self.place.error(&e);
        let mut file = SstFileWriter::create(&options);
        file.open(&path).map_err(fail)?;
        for (key, value) in std::iter::once(first).chain(rows) {
            match value {
                Some(value) => file.put(key, value),
                None => file.delete(key),
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
