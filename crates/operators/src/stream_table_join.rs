//! `join` and `left_join` of a stream with a table: only the stream's records give rows.
//!
//! Takes the stream's records at their key's lane, gives each with what the table holds for its key (of
//! a versioned table: what it held at the record's time). A null value is dropped; a null key too, unless
//! rows come out without a partner (both counted). Keeps nothing.

#[cfg(test)]
mod tests;

use crate::joiner::Joiner;
use crate::site::Site;
use crate::view_read::{AsOf, ViewRead};
use crate::{Context, Operator, dropped};
use stoatflow_core::{Record, Result};

/// What a join of a stream with a table is made of.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub site: Site,
    /// Does a record without a partner come out?
    pub outer: bool,
    pub table: ViewRead,
    pub joiner: Joiner,
}

impl Lookup {
    /// Keeps the records that can be joined, given the key that each is looked up by; counts the others.
    pub fn admits(&self, record: &Record, has_key: bool, context: &mut Context<'_>) -> bool {
        let reason = if record.value.is_null() {
            dropped::NULL_VALUE
        } else if !has_key && !self.outer {
            dropped::NULL_KEY
        } else {
            return true;
        };
        context.effects.dropped.push((self.site.node, reason));
        false
    }

    /// Joins records with what the table holds; `asked` has the keys, if they aren't those of the records.
    pub fn join(
        &mut self,
        records: &mut Vec<Record>,
        asked: Option<&[Record]>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut found = self
            .table
            .read(asked.unwrap_or(records), AsOf::Record, context)
            .map_err(|e| self.site.name_node(e))?
            .into_iter();
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
        for (record, result) in out[from..].iter_mut().zip(self.joiner.join()?) {
            record.value = result;
        }
        Ok(())
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct StreamTableJoin {
    lookup: Lookup,
}

impl StreamTableJoin {
    pub fn new(lookup: Lookup) -> Self {
        Self { lookup }
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
        self.lookup.join(input, None, out, context)
    }
}
