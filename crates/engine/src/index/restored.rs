//! How a restore updates indexes.
//!
//! If few changelog records are missing, they update an index as the rows of an epoch do. If many are,
//! or if the index is incomplete anyway, it is emptied and built again from the rows, which is faster.

use super::StoreIndexes;
use super::state::IndexState;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{Epoch, Offset, Partition, Result, Timestamp};
use stoatflow_state::{Backend, EpochBatch, KeyValueStore, RestoreRun, Write};

/// Beyond this number of records, an index is built again.
const MAX_INCREMENTAL_RECORDS: i64 = 50_000;

impl StoreIndexes {
    /// Prepares for a restore of this many records. True if each record must be loaded with its index
    /// changes ([`Self::load`]).
    ///
    /// # Errors
    /// Errors of the back end.
    pub fn restoring(&self, backend: &dyn Backend, records: i64, cold: bool) -> Result<bool> {
        let mut kept = false;
        for index in &self.indexes {
            let state = IndexState::of(backend, index.id, index.fingerprint)?;
            if state.is_some_and(|state| state.is_readable())
                && !cold
                && records <= MAX_INCREMENTAL_RECORDS
            {
                kept = true;
            } else {
                backend.wipe(index.id)?;
                self.emptied.store(true, Relaxed);
            }
        }
        Ok(kept)
    }

    /// Loads restored records and their changes in the indexes.
    ///
    /// # Errors
    /// Errors of the back end.
    pub fn load(
        &self,
        backend: &dyn Backend,
        run: &RestoreRun,
        positions: &[(Partition, Offset)],
    ) -> Result<()> {
        let mut changes = self.nothing();
        let mut rows = Vec::with_capacity(run.len());
        for (key, value) in run.sorted() {
            let write = Write {
                key: bytes::Bytes::copy_from_slice(key),
                value: value.map(bytes::Bytes::copy_from_slice),
            };
            let read = |stored: bytes::Bytes| {
                let (time, _) = stored.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
                let time = Timestamp(i64::from_be_bytes(*time));
                let value = stored.slice(stored.len().min(8)..);
                (self.rows.record(&write.key, value, time), time)
            };
            let old = backend.get(self.store, &write.key)?;
            let old = old.map(|stored| read(stored).0);
            let (new, time) = match write.value.clone().map(read) {
                Some((row, time)) => (Some(row), time),
                None => (None, Timestamp::UNKNOWN),
            };
            self.change((&write.key, time), (old, new), &mut changes);
            rows.push(write);
        }
        let mut writes = vec![(self.store, rows)];
        for (id, changes) in self.by_store(changes) {
            let built = self.indexes.iter().find(|index| index.id == id);
            let built = built.is_some_and(|index| {
                let state = IndexState::of(backend, id, index.fingerprint);
                matches!(state, Ok(Some(state)) if state.is_readable())
            });
            if built {
                writes.push((
                    id,
                    changes.iter().map(KeyValueStore::stored_bytes).collect(),
                ));
            }
        }
        backend.apply(EpochBatch {
            epoch: Epoch(0),
            writes,
            positions: positions
                .iter()
                .map(|(partition, offset)| (self.store, *partition, *offset))
                .collect(),
            ..EpochBatch::default()
        })
    }
}
