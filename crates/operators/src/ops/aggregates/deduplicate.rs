//! `deduplicate`: passes the first record of each id and drops those near it in time.
//!
//! Takes records at their key's lane, forwards those that are no duplicates. The id is the key, or the
//! result of a function of key and value; such an id is unique per key (per partition if the key is
//! null). A record at `t` is a duplicate if a forwarded record with its id has a timestamp less than
//! `within` away, before or after. So two records that are closer than that are never both forwarded,
//! whatever their order. "First" means first to arrive, not lowest timestamp. Only forwarded records
//! count: `within` after one of them, the next record passes.
//!
//! Null keys are dropped and counted, unless a function returns the id; without an id (null) nothing is
//! a duplicate. The store forgets ids after its retention, measured from the highest forwarded
//! timestamp. A record older than that passes, because it is unknown whether it is a duplicate, and
//! losing it would be worse.

#[cfg(test)]
mod tests;

use crate::support::dropped;
use crate::support::function::Function;
use crate::support::node_context::NodeContext;
use crate::{Context, LaneStore, Operator};
use bytes::{BufMut, Bytes, BytesMut};
use std::cell::RefCell;
use stoatflow_core::{ClockId, Datum, Error, Record, Result, Serde, StoreId, serde::json_bytes};
use stoatflow_state::{Stored, WindowView};

/// See the module.
#[derive(Debug)]
pub(crate) struct Deduplicate {
    node_context: NodeContext,
    store: StoreId,
    /// Clock of the store's retention.
    kept: ClockId,
    clock: ClockId,
    key: Serde,
    function: Option<Function>,
    within_ms: i64,
    ids: RefCell<Vec<Datum>>,
    scratch: Vec<Datum>,
}

impl Deduplicate {
    pub fn new(
        node_context: NodeContext,
        (store, kept): (StoreId, ClockId),
        key: Serde,
        function: Option<Function>,
        within_ms: i64,
        clock: ClockId,
    ) -> Self {
        Self {
            node_context,
            store,
            kept,
            clock,
            key,
            function,
            within_ms,
            ids: RefCell::default(),
            scratch: Vec::new(),
        }
    }

    /// Bytes of a record's id in the store; `None` if it has no id.
    fn id(&self, at: usize, record: &Record) -> Result<Option<Bytes>> {
        if self.function.is_none() {
            return self.key.encode(&record.key);
        }
        let Some(id) = self.key.encode(&self.ids.borrow()[at])? else {
            return Ok(None);
        };
        let mut out = BytesMut::with_capacity(id.len() + 16);
        if record.key.is_null() {
            out.put_u8(0);
            out.put_u16(record.origin.source.0);
            out.put_u16(record.origin.topic);
            out.put_i32(record.origin.partition.0);
        } else {
            let key = plain(&record.key)?;
            out.put_u8(1);
            out.put_u32(u32::try_from(key.len()).unwrap_or(u32::MAX));
            out.put_slice(&key);
        }
        out.put_slice(&id);
        Ok(Some(out.freeze()))
    }

    /// Whether the record is no duplicate; if so, its id is stored.
    fn is_first(&self, id: &Bytes, record: &Record, context: &mut Context<'_>) -> Result<bool> {
        let at = record.timestamp.0;
        // The clock that all lanes share covers at least the forwarded records.
        let observed = context.clocks.before(self.clock, record);
        let epoch = context.epoch;
        let LaneStore { store, dirty } = context.store(self.store);
        let mut view = WindowView::new(store, epoch, observed)?;
        let reach = self.within_ms.saturating_sub(1);
        let (from, to) = (at.saturating_sub(reach), at.saturating_add(reach));
        if !view.fetch_range(id, from, to, false, 1)?.is_empty() {
            return Ok(false);
        }
        let mark = Stored {
            value: Datum::Bytes(Bytes::new()),
            timestamp: record.timestamp,
        };
        view.put(dirty, id, at, Some(mark))?;
        context.clocks.see(self.kept, record.task(), at);
        Ok(true)
    }
}

impl Operator for Deduplicate {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if let Some(function) = &self.function {
            self.ids.borrow_mut().clear();
            // The records stay unchanged: the id is not part of them.
            function.one(input, &mut self.scratch, context, |_, id| {
                self.ids.borrow_mut().push(id);
            })?;
        }
        for (at, record) in input.drain(..).enumerate() {
            context.clocks.observe(self.clock, &record);
            let id = self.id(at, &record);
            let id = match id {
                Ok(id) => id,
                Err(error) => {
                    let again = |_: &mut Context<'_>| self.id(at, &record);
                    let Some(id) = self.node_context.rescue(error, &record, context, again)? else {
                        continue;
                    };
                    id
                }
            };
            let reason = match id {
                None if self.function.is_none() => Some(dropped::NULL_KEY),
                None => None,
                Some(id) => {
                    let first = self.is_first(&id, &record, context);
                    let first = first.map_err(|e| self.node_context.locate(e, &record.origin))?;
                    (!first).then_some(dropped::DUPLICATE)
                }
            };
            match reason {
                Some(reason) => context
                    .effects
                    .dropped
                    .push((self.node_context.node, reason)),
                None => out.push(record),
            }
        }
        Ok(())
    }
}

/// A key's bytes, independent of its serde: they only have to be the same for the same key.
fn plain(key: &Datum) -> Result<Bytes> {
    Ok(match key {
        Datum::Bytes(bytes) | Datum::Json(bytes) => bytes.clone(),
        Datum::Str(text) => text.as_bytes().clone(),
        Datum::Windowed(window) => {
            let mut out = BytesMut::from(plain(&window.key)?.as_ref());
            out.put_i64(window.start);
            out.put_i64(window.end);
            out.freeze()
        }
        Datum::Change(_) => return Err(Error::internal("an update of a table as a key")),
        other => json_bytes(other)?,
    })
}
