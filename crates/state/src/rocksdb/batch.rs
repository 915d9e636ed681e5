//! An epoch as one write batch: data and the changelog positions it stands for, together.

use super::errors::located;
use super::{RocksBackend, position_key};
use crate::{EpochBatch, Write};
use rocksdb::{BoundColumnFamily, WriteBatch};
use std::sync::Arc;
use stoatflow_core::{Offset, Partition, Result, StoreId};

impl RocksBackend {
    pub(super) fn apply_batch(&self, epoch: EpochBatch) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (store, writes) in &epoch.writes {
            let family = self.family(*store)?;
            add_writes(&mut batch, &family, writes);
        }
        for (store, partition, offset) in &epoch.positions {
            self.add_position(&mut batch, *store, *partition, *offset)?;
        }
        self.db.write(batch).map_err(|e| located(&e, &self.dir))
    }

    pub(super) fn write_restored(&self, store: StoreId, writes: &[Write], positions: &[(Partition, Offset)]) -> Result<()> {
        let mut batch = WriteBatch::default();
        add_writes(&mut batch, &self.family(store)?, writes);
        for (partition, offset) in positions {
            self.add_position(&mut batch, store, *partition, *offset)?;
        }
        self.db.write(batch).map_err(|e| located(&e, &self.dir))
    }

    pub(super) fn add_position(&self, batch: &mut WriteBatch, store: StoreId, partition: Partition, offset: Offset) -> Result<()> {
        batch.put_cf(&self.meta()?, position_key(self.name(store), partition), offset.0.to_be_bytes());
        Ok(())
    }
}

fn add_writes(batch: &mut WriteBatch, family: &Arc<BoundColumnFamily<'_>>, writes: &[Write]) {
    for write in writes {
        match &write.value {
            Some(value) => batch.put_cf(family, &write.key, value),
            None => batch.delete_cf(family, &write.key),
        }
    }
}
