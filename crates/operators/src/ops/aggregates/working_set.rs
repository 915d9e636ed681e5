//! The entries of a store that one batch works on, while a foreign function computes them.
//!
//! Takes the keys of a batch before the interpreter is attached, gives the current value of each
//! while it is attached, and writes what changed afterwards, one write per key. So neither a disk
//! read nor a lock of the store ever waits inside the interpreter: a lane that holds a store's lock
//! and wants the interpreter, and one that has the interpreter and wants the lock, would be a deadlock.

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
    /// Where in the batch's output the last update of this key is.
    pub passed_on: Option<usize>,
    /// Is it other than in the store? A record that was left out has changed nothing.
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
    /// Drops what the operator may not take (counted), and loads the rest's entries.
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

    /// The entry of the `at`-th record of the loaded batch.
    pub fn entry(&mut self, at: usize) -> &mut Loaded {
        &mut self.entries[self.slots[at]]
    }

    /// Writes every entry that changed: all of them, unless records were left out.
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
