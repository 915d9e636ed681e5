//! The transaction coordinator: which producer may write under an id, and what its open transaction
//! contains.
//!
//! Opening an id raises its epoch and fences all older producers. At the end of a transaction it returns
//! what the broker must complete.

use crate::topic::Transaction;
use std::collections::{BTreeMap, BTreeSet};
use stoatflow_core::{Error, Result, TopicPartition};
use stoatflow_log::CutEntry;

/// A writer: its id and the epoch it was opened with.
#[derive(Clone, Debug)]
pub struct Writer {
    /// The transactional id.
    pub id: String,
    /// Its producer epoch, which rises each time the id is opened.
    pub epoch: u64,
}

/// What an open transaction has touched.
#[derive(Debug, Default)]
pub struct OngoingTransaction {
    /// Its number.
    pub transaction: Transaction,
    /// Partitions that it wrote to.
    pub partitions: BTreeSet<TopicPartition>,
    /// Offsets that its commit makes valid.
    pub offsets: Vec<(String, CutEntry)>,
}

#[derive(Debug, Default)]
struct TransactionalId {
    epoch: u64,
    open: Option<OngoingTransaction>,
}

/// All ids of a broker.
#[derive(Debug, Default)]
pub struct Coordinator {
    ids: BTreeMap<String, TransactionalId>,
    last: Transaction,
}

impl Coordinator {
    /// Opens an id; returns the writer, and the transaction that an older writer left open, which must
    /// be aborted.
    pub fn open(&mut self, id: &str) -> (Writer, Option<OngoingTransaction>) {
        let entry = self.ids.entry(id.to_owned()).or_default();
        entry.epoch += 1;
        (
            Writer {
                id: id.to_owned(),
                epoch: entry.epoch,
            },
            entry.open.take(),
        )
    }

    /// The writer's transaction; starts one if there is none.
    ///
    /// # Errors
    /// `Fenced`.
    pub fn current(&mut self, writer: &Writer) -> Result<&mut OngoingTransaction> {
        let last = &mut self.last;
        let entry = self.ids.entry(writer.id.clone()).or_default();
        fence(entry.epoch, writer)?;
        Ok(entry.open.get_or_insert_with(|| {
            *last += 1;
            OngoingTransaction {
                transaction: *last,
                ..OngoingTransaction::default()
            }
        }))
    }

    /// Removes the writer's transaction, to be ended.
    ///
    /// # Errors
    /// `Fenced`.
    pub fn finish(&mut self, writer: &Writer) -> Result<Option<OngoingTransaction>> {
        let entry = self.ids.entry(writer.id.clone()).or_default();
        fence(entry.epoch, writer)?;
        Ok(entry.open.take())
    }
}

fn fence(epoch: u64, writer: &Writer) -> Result<()> {
    if writer.epoch == epoch {
        return Ok(());
    }
    Err(Error::fenced(format!(
        "a newer instance opened '{}' ({} after {})",
        writer.id, epoch, writer.epoch
    )))
}
