//! `foreign_notify`: sends a changed right value to all left rows with its key.
//!
//! Takes the right table's updates at their key's lane, emits an answer to each left row that has this
//! foreign key, in the order of the left keys' bytes, with the update's timestamp. Updates that aren't
//! the newest of a versioned table are left out.

use crate::ops::joins::foreign_key::epoch_rows::{Row, SharedEpochRows};
use crate::ops::joins::foreign_key::message::Answer;
use crate::ops::joins::foreign_key::subscriptions;
use crate::ops::tables::table_update;
use crate::support::node_context::NodeContext;
use crate::{Context, Operator};
use stoatflow_core::{Record, Result, Serde, StoreId};

/// See the module.
#[derive(Debug)]
pub(crate) struct ForeignNotify {
    node_context: NodeContext,
    store: StoreId,
    /// Serde of left keys.
    key: Serde,
    foreign: Serde,
    /// Without record caching: the right table's rows of this epoch, for later subscriptions.
    rows: Option<SharedEpochRows>,
}

impl ForeignNotify {
    pub fn new(
        node_context: NodeContext,
        store: StoreId,
        key: Serde,
        foreign: Serde,
        rows: Option<SharedEpochRows>,
    ) -> Self {
        Self {
            node_context,
            store,
            key,
            foreign,
            rows,
        }
    }

    fn notify(
        &self,
        record: &Record,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let Some(foreign) = self.foreign.encode(&record.key)? else {
            return Ok(());
        };
        let right = table_update::new(&record.value);
        if let Some(rows) = &self.rows {
            let row = Row {
                order: record.origin.order,
                fingerprint: None,
                value: right.clone(),
                timestamp: record.timestamp,
            };
            rows.lock().add(context.epoch, foreign.clone(), row);
        }
        for (left, fingerprint) in subscriptions::of(self.store, &foreign, context)? {
            let answer = Answer {
                fingerprint,
                right: right.clone(),
                quiet: false,
            };
            let left = self.key.decode(Some(left))?;
            out.push(record.with_pair(left, answer.wrap()));
        }
        Ok(())
    }
}

impl Operator for ForeignNotify {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        for record in input.drain(..) {
            if table_update::is_latest(&record.value) {
                self.notify(&record, out, context)
                    .map_err(|e| self.node_context.locate(e, &record.origin))?;
            }
        }
        Ok(())
    }
}
