//! `table`: keeps a topic's newest value per key.
//!
//! Takes records, writes them to its store in the order of arrival (an out-of-order record overwrites,
//! as in Kafka Streams), and forwards every update, including unchanged values and tombstones. Null keys
//! are dropped and counted. Never compares timestamps.

#[cfg(test)]
mod tests;

use crate::ops::tables::table_update;
use crate::support::dropped;
use crate::support::table_writer::{Before, TableWriter};
use crate::{Context, Operator};
use stoatflow_core::{Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct Table {
    writer: TableWriter,
}

impl Table {
    pub fn new(writer: TableWriter) -> Self {
        Self { writer }
    }
}

impl Operator for Table {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        for mut record in input.drain(..) {
            if record.key.is_null() {
                context
                    .effects
                    .dropped
                    .push((self.writer.node_context.node, dropped::NULL_KEY));
                continue;
            }
            let value = table_update::into_new(std::mem::take(&mut record.value));
            self.writer
                .keep(record, value, Before::Stored, out, context)?;
        }
        Ok(())
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        self.writer.barrier(out);
        Ok(())
    }
}
