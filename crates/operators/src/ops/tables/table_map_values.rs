//! `map_values` of a table: another value for the same key.
//!
//! Takes updates, emits updates with the function's results; null stays null without a call. If children
//! need the old value, it comes from the operator's store, or else the function is called for the old
//! value too.

#[cfg(test)]
mod tests;

use crate::ops::tables::table_update;
use crate::support::function::{Function, batch_or_single_records};
use crate::support::table_writer::{Before, TableWriter};
use crate::{Context, Operator};
use stoatflow_core::{Change, Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct TableMapValues {
    function: Function,
    writer: Option<TableWriter>,
    old: bool,
    probes: Vec<Record>,
    scratch: Vec<Datum>,
}

impl TableMapValues {
    pub fn new(function: Function, writer: Option<TableWriter>, old: bool) -> Self {
        Self {
            function: function.together(),
            writer,
            old,
            probes: Vec::new(),
            scratch: Vec::new(),
        }
    }
}

fn set(record: &mut Record, value: Datum) {
    record.value = value;
}

impl Operator for TableMapValues {
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

impl TableMapValues {
    fn take(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let asks_old = self.old && self.writer.is_none();
        if table_update::all_plain(input) {
            self.function.one(input, &mut self.scratch, context, set)?;
            for mut record in input.drain(..) {
                let new = std::mem::take(&mut record.value);
                self.emit(record, Datum::Null, new, true, out, context)?;
            }
            return Ok(());
        }
        table_update::probe(input, asks_old, &mut self.probes);
        let asked = self.probes.len();
        self.function
            .one(&mut self.probes, &mut self.scratch, context, set)?;
        if self.probes.len() < asked {
            input.clear();
            return Ok(());
        }
        let mut probes = std::mem::take(&mut self.probes);
        let mut results = probes.drain(..).map(|probe| probe.value);
        let mut mapped = |value: &Datum| {
            if value.is_null() {
                Datum::Null
            } else {
                results.next().unwrap_or_default()
            }
        };
        for mut record in input.drain(..) {
            let Change { old, new, latest } =
                table_update::split(std::mem::take(&mut record.value));
            let new = mapped(&new);
            let old = if asks_old { mapped(&old) } else { Datum::Null };
            self.emit(record, old, new, latest, out, context)?;
        }
        drop(results);
        self.probes = probes;
        Ok(())
    }

    fn emit(
        &mut self,
        mut record: Record,
        old: Datum,
        new: Datum,
        latest: bool,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if let Some(writer) = &mut self.writer {
            return writer.keep(record, new, Before::Stored, out, context);
        }
        record.value = table_update::make(self.old, old, new, latest);
        out.push(record);
        Ok(())
    }
}
