//! `transform_values` of a table: a transformer computes another value for each key, and may read
//! stores.
//!
//! Takes updates, emits updates with the transformer's results. It is called for null too, unlike
//! `map_values`, as in Kafka Streams. If children need the old value, it comes from the operator's
//! store, or else the transformer is called for the old value too. A transformer forwards nothing.

#[cfg(test)]
mod tests;

use crate::ops::process::Process;
use crate::ops::tables::table_update;
use crate::support::table_writer::{Before, TableWriter};
use crate::{Context, Operator};
use stoatflow_core::{Change, Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct TransformValues {
    transformer: Process,
    writer: Option<TableWriter>,
    old: bool,
    asked: Vec<Record>,
    results: Vec<Datum>,
}

impl TransformValues {
    pub fn new(transformer: Process, writer: Option<TableWriter>, old: bool) -> Self {
        Self {
            transformer,
            writer,
            old,
            asked: Vec::new(),
            results: Vec::new(),
        }
    }
}

impl TransformValues {
    fn take(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let asks_old = self.old && self.writer.is_none();
        self.asked.clear();
        for record in input.iter() {
            let new = table_update::new(&record.value).clone();
            self.asked.push(record.with_value(new));
            if asks_old {
                let old = table_update::old(&record.value).clone();
                self.asked.push(record.with_value(old));
            }
        }
        self.results.clear();
        self.transformer
            .transform(&self.asked, &mut self.results, context)?;
        let whole = self.results.len() == self.asked.len();
        self.asked.clear();
        if !whole {
            input.clear();
            return Ok(());
        }
        let mut results = self.results.drain(..);
        for mut record in input.drain(..) {
            let Change { latest, .. } = table_update::split(std::mem::take(&mut record.value));
            let new = results.next().unwrap_or_default();
            if let Some(writer) = &mut self.writer {
                writer.keep(record, new, Before::Stored, out, context)?;
                continue;
            }
            let old = asks_old.then(|| results.next()).flatten();
            record.value = table_update::make(self.old, old.unwrap_or_default(), new, latest);
            out.push(record);
        }
        Ok(())
    }
}

impl Operator for TransformValues {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        // New and old value belong to one update: if one fails, both are left out.
        if self.transformer.is_lenient() && input.len() > 1 {
            let mut one = Vec::with_capacity(1);
            for record in input.drain(..) {
                one.push(record);
                self.take(&mut one, out, context)?;
            }
            return Ok(());
        }
        self.take(input, out, context)
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        self.transformer.open(context)
    }

    fn punctuate(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.transformer.punctuate(out, context)
    }

    fn next_punctuation(&self) -> Option<i64> {
        self.transformer.next_punctuation()
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        if let Some(writer) = &mut self.writer {
            writer.barrier(out);
        }
        Ok(())
    }

    fn close(&mut self) {
        self.transformer.close();
    }
}
