//! The store entries of one batch, while a foreign function computes new values.
//!
//! Reads the entries before the interpreter is attached, returns the current value of each key while it
//! is attached, and writes the changed ones afterwards, one write per key. So nothing waits for the disk
//! or a store lock while it holds the interpreter. Otherwise two lanes could deadlock: one holds a
//! store's lock and waits for the interpreter, the other holds the interpreter and waits for the lock.

use crate::support::table_writer::TableWriter;
use crate::{Context, LaneStore, key_hash};
use bytes::Bytes;
use hashbrown::HashTable;
use stoatflow_core::{Record, Result};
use stoatflow_state::Stored;

/// One key of the batch.
#[derive(Debug)]
pub(crate) struct Loaded {
    hash: u64,
    pub key: Bytes,
    pub current: Option<Stored>,
    /// Index of this key's last update in the batch's output.
    pub passed_on: Option<usize>,
    /// True if the value differs from the one in the store. Records that were left out change nothing.
    pub changed: bool,
}

/// The keys of a batch, each once. Empty between batches; keeps its buffers.
#[derive(Debug, Default)]
pub(crate) struct WorkingSet {
    index: HashTable<usize>,
    entries: Vec<Loaded>,
    slots: Vec<usize>,
}

impl WorkingSet {
    /// Drops (and counts) records that the operator doesn't accept; loads the entries of the others.
    pub fn load(
        &mut self,
        writer: &TableWriter,
        batch: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.clear();
        batch.retain(|record| writer.admits(record, context));
        let epoch = context.epoch;
        let LaneStore { store, .. } = context.store(writer.store);
        for record in batch.iter() {
            let key = writer.key(record)?;
            let hash = key_hash(&key);
            let Self {
                index,
                entries,
                slots,
            } = self;
            if let Some(&at) = index.find(hash, |&at| entries[at].key == key) {
                slots.push(at);
                continue;
            }
            let current = store
                .get(epoch, &key)
                .map_err(|e| writer.locate(e, record))?;
            slots.push(entries.len());
            index.insert_unique(hash, entries.len(), |&at| entries[at].hash);
            entries.push(Loaded {
                hash,
                key,
                current,
                passed_on: None,
                changed: false,
            });
        }
        Ok(())
    }

    /// The entry of record `at` of the loaded batch.
    pub fn entry(&mut self, at: usize) -> &mut Loaded {
        &mut self.entries[self.slots[at]]
    }

    /// Writes all changed entries. Without left-out records that is all of them.
    pub fn store(&mut self, writer: &TableWriter, context: &mut Context<'_>) -> Result<()> {
        let epoch = context.epoch;
        let LaneStore { store, dirty } = context.store(writer.store);
        for entry in self.entries.drain(..).filter(|entry| entry.changed) {
            store
                .put(epoch, dirty, &entry.key, entry.current)
                .map_err(|e| writer.node_context.name_node(e))?;
        }
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        self.index.clear();
        self.entries.clear();
        self.slots.clear();
    }
}
