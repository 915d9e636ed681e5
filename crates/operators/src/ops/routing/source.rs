//! `source`: records of a topic enter a stage here; the engine has already decoded them.
//!
//! Takes records, forwards them unchanged. Costs a swap of buffers per batch.

use crate::api::operator::move_records;
use crate::{Context, Operator};
use stoatflow_core::{Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct Source;

impl Operator for Source {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        _context: &mut Context<'_>,
    ) -> Result<()> {
        move_records(input, out);
        Ok(())
    }
}
