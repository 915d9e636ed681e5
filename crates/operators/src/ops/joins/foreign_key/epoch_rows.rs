//! The history of a table's rows in the open epochs.
//!
//! The operators of a foreign-key join are in successive stages. While a message is on its way, its
//! table changes, so the store may be newer than the message when it arrives. These rows tell what the
//! table held at the message's place in the order. Keeps the rows of an epoch until the reader has ended
//! it; rows from before the epoch come from the store.

use crate::ops::joins::foreign_key::message::Fingerprint;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use stoatflow_core::{Datum, Epoch, Order, Timestamp};
use stoatflow_state::Stored;

/// A row, valid from a place in the order on.
#[derive(Debug)]
pub(crate) struct Row {
    pub order: Order,
    /// Fingerprint, for left values.
    pub fingerprint: Fingerprint,
    /// Null: deleted.
    pub value: Datum,
    pub timestamp: Timestamp,
}

impl Row {
    /// The row as a store holds it.
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

/// Shared by the operator that adds rows and the one that looks them up.
pub(crate) type SharedEpochRows = Arc<Mutex<EpochRows>>;

impl EpochRows {
    /// Appends a row to those of the key.
    pub fn add(&mut self, epoch: Epoch, key: Bytes, row: Row) {
        let rows = self.epochs.entry(epoch).or_default();
        rows.entry(key).or_default().push(row);
    }

    /// The row of the table at a place in the order; `None`: the row from before the epoch. Of several
    /// rows at that place, the one with this fingerprint, else the last.
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

    /// Drops the rows up to this epoch, which the reader has ended.
    pub fn forget(&mut self, ended: Epoch) {
        self.epochs = self.epochs.split_off(&Epoch(ended.0 + 1));
    }
}

/// The left rows of all foreign-key joins of a lane, by join; shared between stages.
#[derive(Clone, Debug, Default)]
pub struct LeftRows(Arc<Mutex<HashMap<u32, SharedEpochRows>>>);

impl LeftRows {
    pub(crate) fn of(&self, join: u32) -> SharedEpochRows {
        Arc::clone(self.0.lock().entry(join).or_default())
    }
}
