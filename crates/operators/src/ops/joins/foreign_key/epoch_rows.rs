//! The rows of a table as they followed each other in the open epochs.
//!
//! The operators of a join by foreign key are in stages behind each other. While a message walks, its
//! table goes on, so what the store holds when the message arrives may be newer than the message. These
//! rows say what the table held at the message's place in the order. Owns the rows of an epoch until its
//! reader has ended it; what was before the epoch is the store's to say.

use crate::ops::joins::foreign_key::message::Fingerprint;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use stoatflow_core::{Datum, Epoch, Order, Timestamp};
use stoatflow_state::Stored;

/// A row, from a place in the order on.
#[derive(Debug)]
pub(crate) struct Row {
    pub order: Order,
    /// Of a left value.
    pub fingerprint: Fingerprint,
    /// Null: deleted.
    pub value: Datum,
    pub timestamp: Timestamp,
}

impl Row {
    /// As a store has it.
    pub fn stored(&self) -> Option<Stored> {
        (!self.value.is_null()).then(|| Stored {
            value: self.value.clone(),
            timestamp: self.timestamp,
        })
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct EpochRows {
    epochs: BTreeMap<Epoch, HashMap<Bytes, Vec<Row>>>,
}

/// Of the operator that adds rows and the one that looks them up.
pub(crate) type SharedEpochRows = Arc<Mutex<EpochRows>>;

impl EpochRows {
    /// Adds a row, which comes behind those that the key has.
    pub fn add(&mut self, epoch: Epoch, key: Bytes, row: Row) {
        let rows = self.epochs.entry(epoch).or_default();
        rows.entry(key).or_default().push(row);
    }

    /// What the table held at a place; `None`: what it held before the epoch. Of several rows at the same
    /// place the one with this fingerprint, else the last.
    pub fn as_of(
        &self,
        epoch: Epoch,
        key: &Bytes,
        order: Order,
        fingerprint: Fingerprint,
    ) -> Option<&Row> {
        let rows = self.epochs.get(&epoch)?.get(key)?;
        let held = &rows[..rows.partition_point(|row| row.order.key() <= order.key())];
        let last = held.last()?;
        let same = held.iter().rev();
        let mut same = same.take_while(|row| row.order.key() == last.order.key());
        same.find(|row| row.fingerprint == fingerprint)
            .or(Some(last))
    }

    /// The reader has ended this epoch.
    pub fn forget(&mut self, ended: Epoch) {
        self.epochs = self.epochs.split_off(&Epoch(ended.0 + 1));
    }
}

/// The left rows of all joins by foreign key of a lane, by the join: stages share them.
#[derive(Clone, Debug, Default)]
pub struct LeftRows(Arc<Mutex<HashMap<u32, SharedEpochRows>>>);

impl LeftRows {
    pub(crate) fn of(&self, join: u32) -> SharedEpochRows {
        Arc::clone(self.0.lock().entry(join).or_default())
    }
}
