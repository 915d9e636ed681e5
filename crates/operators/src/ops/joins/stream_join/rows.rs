//! The result rows of a join: gathered first, computed together.
//!
//! Takes records without a value, with the joiner's arguments for each; emits them with the results, in
//! order. So stores are read without holding the interpreter, and the joiner runs without access to
//! stores, with one attach per batch. Never reorders.

use crate::Context;
use crate::ops::joins::joiner::Joiner;
use stoatflow_core::{Datum, Record, Result};

/// Maximum number of rows that wait for the joiner: a record may have any number of partners.
const MAX_WAITING_ROWS: usize = 16 * 1024;

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

    /// The joiner, for attaching its interpreter.
    pub fn joiner(&self) -> &Joiner {
        &self.joiner
    }

    /// Adds a row: `record` gets the joiner's result as its value.
    pub fn add(&mut self, record: Record, left: Datum, right: Datum) {
        self.joiner.add(&record.key, left, right, record.origin);
        self.records.push(record);
    }

    /// Computes the rows if many wait.
    pub fn relieve(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        if self.records.len() < MAX_WAITING_ROWS {
            return Ok(());
        }
        self.finish(out, context)
    }

    /// Computes all rows and appends them to `out`.
    pub fn finish(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let from = out.len();
        out.append(&mut self.records);
        self.joiner.join(context)?.fill(from, out);
        Ok(())
    }
}
