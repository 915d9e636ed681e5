//! `foreign_answer`: stores subscriptions, and answers with the right value.
//!
//! Takes subscriptions at the foreign key's lane, emits answers under the left keys: a quiet one if
//! there is no right value and the subscription doesn't ask for a tombstone. The timestamp of an answer
//! is the later one of both rows.
//!
//! With record caching a right value that is created and deleted within an epoch may have been in an
//! answer, but its deletion is never forwarded. So the answers of the epoch are checked again when it
//! ends. For that, one record is kept per foreign key that got a right value in the epoch.

use crate::ops::joins::foreign_key::epoch_rows::SharedEpochRows;
use crate::ops::joins::foreign_key::message::{Answer, Subscription};
use crate::ops::joins::foreign_key::subscriptions;
use crate::ops::tables::view_read::{AsOf, ViewRead};
use crate::support::node_context::NodeContext;
use crate::{Context, Operator};
use bytes::Bytes;
use std::collections::BTreeMap;
use stoatflow_core::{Datum, Record, Result, Serde, StoreId};
use stoatflow_state::Stored;

/// See the module.
#[derive(Debug)]
pub(crate) struct ForeignAnswer {
    node_context: NodeContext,
    store: StoreId,
    right: ViewRead,
    serdes: Serdes,
    reads: Reads,
}

/// Source of the right value in an answer.
#[derive(Debug)]
pub(crate) enum Reads {
    /// The row at the subscription's place in the order, from the right table's rows of this epoch.
    InOrder(SharedEpochRows),
    /// With record caching: the current row. Holds the foreign keys that were answered with a right
    /// value in this epoch, sorted by bytes, so that runs are repeatable.
    Stored(BTreeMap<Bytes, Record>),
}

/// The serdes of left keys and foreign keys.
#[derive(Debug)]
pub(crate) struct Serdes {
    pub key: Serde,
    pub foreign: Serde,
}

impl ForeignAnswer {
    pub fn new(
        node_context: NodeContext,
        store: StoreId,
        right: ViewRead,
        serdes: Serdes,
        reads: Reads,
    ) -> Self {
        Self {
            node_context,
            store,
            right,
            serdes,
            reads,
        }
    }

    /// Retracts the rows of right values that disappeared without an update.
    fn look_again(
        &mut self,
        asked: BTreeMap<Bytes, Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let (keys, records): (Vec<Bytes>, Vec<Record>) = asked.into_iter().unzip();
        let found = self
            .right
            .read(&records, AsOf::Latest, context)
            .map_err(|e| self.node_context.name_node(e))?;
        let gone = keys.iter().zip(&records).zip(found);
        for ((foreign, record), _) in gone.filter(|(_, found)| found.is_none()) {
            for (left, fingerprint) in subscriptions::of(self.store, foreign, context)? {
                let answer = Answer {
                    fingerprint,
                    right: Datum::Null,
                    quiet: true,
                };
                let left = self.serdes.key.decode(Some(left))?;
                out.push(record.with_pair(left, answer.wrap()));
            }
        }
        Ok(())
    }

    /// The right values for a batch of subscriptions.
    fn right(
        &mut self,
        asked: &[Record],
        context: &mut Context<'_>,
    ) -> Result<Vec<Option<Stored>>> {
        let Reads::InOrder(rows) = &self.reads else {
            return self.right.read(asked, AsOf::Latest, context);
        };
        let mut found = self.right.read(asked, AsOf::EpochStart, context)?;
        let rows = rows.lock();
        for (record, found) in asked.iter().zip(&mut found) {
            let Some(foreign) = self.serdes.foreign.encode(&record.key)? else {
                continue;
            };
            if let Some(row) = rows.as_of(context.epoch, &foreign, record.origin.order, None) {
                *found = row.stored();
            }
        }
        Ok(found)
    }

    fn remember(&self, record: &Record, context: &mut Context<'_>) -> Result<()> {
        // A row without a foreign key has no partner.
        let Some(foreign) = self.serdes.foreign.encode(&record.key)? else {
            return Ok(());
        };
        let message = Subscription::of(record)?;
        let (left, time) = (&message.left_bytes, record.timestamp);
        if message.delete {
            return subscriptions::delete(self.store, &foreign, left, time, context);
        }
        let print = message.fingerprint;
        subscriptions::put(self.store, &foreign, left, print, time, context)
    }
}

impl Operator for ForeignAnswer {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        for record in input.iter() {
            self.remember(record, context)
                .map_err(|e| self.node_context.locate(e, &record.origin))?;
        }
        let found = self
            .right(input, context)
            .map_err(|e| self.node_context.name_node(e))?;
        for (mut record, found) in input.drain(..).zip(found) {
            if let Some(found) = &found {
                record.timestamp = record.timestamp.max(found.timestamp);
            }
            let message = Subscription::of(&record)?;
            if message.delete && !message.always {
                // The row has subscribed under another key, which sends the answer.
                continue;
            }
            let right = match found {
                Some(found) if !message.delete => found.value,
                _ => Datum::Null,
            };
            if let Reads::Stored(answered) = &mut self.reads
                && !right.is_null()
                && let Some(foreign) = self.serdes.foreign.encode(&record.key)?
            {
                let key = record.key.clone();
                answered.insert(foreign, record.with_pair(key, Datum::Null));
            }
            let answer = Answer {
                fingerprint: message.fingerprint,
                quiet: right.is_null() && !message.always,
                right,
            };
            out.push(record.with_pair(message.left.clone(), answer.wrap()));
        }
        Ok(())
    }

    fn barrier(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        match &mut self.reads {
            Reads::InOrder(rows) => {
                rows.lock().forget(context.epoch);
                Ok(())
            }
            Reads::Stored(answered) if answered.is_empty() => Ok(()),
            Reads::Stored(answered) => {
                let asked = std::mem::take(answered);
                self.look_again(asked, out, context)
            }
        }
    }
}
