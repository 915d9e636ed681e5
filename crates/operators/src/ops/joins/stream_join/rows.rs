//! What joins give: rows that are gathered first and computed together.
//!
//! Takes records without a value, and for each what its joiner is called with; gives them with the
//! results, in order. So stores are read without an interpreter, and the joiner is called without a
//! store: once attached for a batch. Never reorders.

use crate::Context;
use crate::ops::joins::joiner::Joiner;
use stoatflow_core::{Datum, Record, Result};

/// So many rows at most wait for the joiner: a record may have any number of partners.
const FULL: usize = 16 * 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct Rows {
    joiner: Joiner,
    records: Vec<Record>,
}

impl Rows {
    pub fn new(joiner: Joiner) -> Self {
        Self {
            joiner,
            records: Vec::new(),
        }
    }

    /// The joiner, to attach its interpreter.
    pub fn joiner(&self) -> &Joiner {
        &self.joiner
    }

    /// Adds what will be `record` with the joiner's result as its value.
    pub fn add(&mut self, record: Record, left: Datum, right: Datum) {
        self.joiner.add(&record.key, left, right, record.origin);
        self.records.push(record);
    }

    /// Computes if many rows wait.
    pub fn relieve(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        if self.records.len() < FULL {
            return Ok(());
        }
        self.finish(out, context)
    }

    /// Computes all rows and passes them on.
    pub fn finish(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let from = out.len();
        out.append(&mut self.records);
        self.joiner.join(context)?.fill(from, out);
        Ok(())
    }
}
