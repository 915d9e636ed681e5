//! `filter` and `filter_not` of a table: rejected values are deleted downstream.
//!
//! Takes updates, emits a tombstone for each value that the filter rejects. The tombstone is left out
//! only if the filter knows that there was no value before: from its own store, or from its parent's old
//! values. So over a table that has neither, every rejected value produces a tombstone, as in Kafka
//! Streams. Over a versioned table none is left out: the old value of an out-of-order update isn't the
//! one that children have. The predicate is never called with null.

#[cfg(test)]
mod tests;

use crate::ops::tables::table_update;
use crate::support::function::{Function, batch_or_single_records};
use crate::support::table_writer::{Before, TableWriter};
use crate::{Context, Operator};
use stoatflow_core::{Change, Datum, Record, Result};

/// Settings of a table's filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableFilterSettings {
    /// True for `filter_not`.
    pub not: bool,
    /// True if children need the old value.
    pub old: bool,
    /// True if its table is versioned.
    pub versioned: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct TableFilter {
    function: Function,
    writer: Option<TableWriter>,
    filtering: TableFilterSettings,
    probes: Vec<Record>,
    verdicts: Vec<bool>,
}

impl TableFilter {
    pub fn new(
        function: Function,
        writer: Option<TableWriter>,
        filtering: TableFilterSettings,
    ) -> Self {
        Self {
            function: function.together(),
            writer,
            filtering,
            probes: Vec::new(),
            verdicts: Vec::new(),
        }
    }
}

impl TableFilter {
    fn take(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let TableFilterSettings {
            not,
            old: sends_old,
            versioned,
        } = self.filtering;
        // A store of its own provides the old value.
        let asks_old = sends_old && self.writer.is_none();
        if table_update::all_plain(input) {
            self.function.test(input, &mut self.verdicts, context)?;
        } else {
            table_update::probe(input, asks_old, &mut self.probes);
            let asked = self.probes.len();
            self.function
                .test(&mut self.probes, &mut self.verdicts, context)?;
            let whole = self.probes.len() == asked;
            self.probes.clear();
            if !whole {
                input.clear();
                return Ok(());
            }
        }
        let mut verdicts = self.verdicts.iter();
        let mut kept = |value: Datum| {
            let fits = !value.is_null() && verdicts.next().is_some_and(|fits| *fits != not);
            if fits { value } else { Datum::Null }
        };
        for mut record in input.drain(..) {
            let Change { old, new, latest } =
                table_update::split(std::mem::take(&mut record.value));
            let new = kept(new);
            let old = if asks_old { kept(old) } else { Datum::Null };
            if let Some(writer) = &mut self.writer {
                let before = if sends_old && !versioned {
                    Before::StoredUnlessIdle
                } else {
                    Before::Stored
                };
                writer.keep(record, new, before, out, context)?;
                continue;
            }
            if sends_old && !versioned && new.is_null() && old.is_null() {
                continue;
            }
            record.value = table_update::make(sends_old, old, new, latest);
            out.push(record);
        }
        Ok(())
    }
}

impl Operator for TableFilter {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let singly = self.function.singly(input.len());
        batch_or_single_records(singly, input, |batch| self.take(batch, out, context))
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        if let Some(writer) = &mut self.writer {
            writer.barrier(out);
        }
        Ok(())
    }
}
