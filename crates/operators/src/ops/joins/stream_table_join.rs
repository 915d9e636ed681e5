//! `join` and `left_join` of a stream with a table: only the stream's records produce rows.
//!
//! Takes the stream's records at their key's lane, emits each joined with the table's row for its key
//! (for a versioned table: the row at the record's timestamp). Records with a null value are dropped,
//! and in an inner join those with a null key (both counted).
//!
//! With a grace (and a versioned table) records wait until stream time is ahead of them by the grace, so
//! that late updates of the table are included; a record that is already older than that is joined at
//! once.

#[cfg(test)]
mod tests;
mod waiting;

use crate::ops::joins::joiner::Joiner;
use crate::ops::tables::view_read::{AsOf, ViewRead};
use crate::support::dropped;
use crate::support::node_context::NodeContext;
use crate::{Context, Operator};
use stoatflow_core::{Record, Result};
pub(crate) use waiting::{Waiting, WaitingSettings};

/// Settings of a stream-table join.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub node_context: NodeContext,
    /// True if records without a partner are emitted.
    pub outer: bool,
    pub table: ViewRead,
    pub joiner: Joiner,
}

impl Lookup {
    /// Whether a record can be joined, given whether it has a look-up key; others are counted as
    /// dropped.
    pub fn admits(&self, record: &Record, has_key: bool, context: &mut Context<'_>) -> bool {
        let reason = if record.value.is_null() {
            dropped::NULL_VALUE
        } else if !has_key && !self.outer {
            dropped::NULL_KEY
        } else {
            return true;
        };
        context
            .effects
            .dropped
            .push((self.node_context.node, reason));
        false
    }

    /// Joins records with the table's rows; `asked` has the keys, if they aren't those of the records.
    pub fn join(
        &mut self,
        records: &mut Vec<Record>,
        asked: Option<&[Record]>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut lost = Vec::new();
        let asked = asked.unwrap_or(records);
        let mut found = self
            .table
            .look_up(&self.node_context, asked, AsOf::Record, &mut lost, context)?
            .into_iter();
        for at in lost.into_iter().rev() {
            records.remove(at);
        }
        let from = out.len();
        for mut record in records.drain(..) {
            let held = found.next().flatten();
            if held.is_none() && !self.outer {
                continue;
            }
            let right = held.map(|held| held.value).unwrap_or_default();
            let left = std::mem::take(&mut record.value);
            self.joiner.add(&record.key, left, right, record.origin);
            out.push(record);
        }
        self.joiner.join(context)?.fill(from, out);
        Ok(())
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct StreamTableJoin {
    lookup: Lookup,
    waiting: Option<Waiting>,
    ready: Vec<Record>,
}

impl StreamTableJoin {
    pub fn new(lookup: Lookup, waiting: Option<Waiting>) -> Self {
        Self {
            lookup,
            waiting,
            ready: Vec::new(),
        }
    }
}

impl Operator for StreamTableJoin {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        input.retain(|record| self.lookup.admits(record, !record.key.is_null(), context));
        let Some(waiting) = &mut self.waiting else {
            return self.lookup.join(input, None, out, context);
        };
        for record in input.drain(..) {
            let (task, order) = (record.task(), record.origin.order);
            if context.clocks.follows_others() {
                waiting.see(&record, context);
                waiting.release(task, Some(order), &mut self.ready, context)?;
            }
            self.ready.extend(waiting.take(record, context)?);
            if context.clocks.moves_with_records() {
                waiting.release(task, Some(order), &mut self.ready, context)?;
            }
        }
        // The table doesn't change while the stream's records are processed.
        self.lookup.join(&mut self.ready, None, out, context)
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        match &mut self.waiting {
            Some(waiting) => waiting.open(context),
            None => Ok(()),
        }
    }

    fn end_tick(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let Some(waiting) = &mut self.waiting else {
            return Ok(());
        };
        waiting.release_everywhere(&mut self.ready, context)?;
        self.lookup.join(&mut self.ready, None, out, context)
    }

    fn advance(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.end_tick(out, context)
    }
}
