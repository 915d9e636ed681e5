//! `merge`: several streams become one, in the order in which their records arrive.
//!
//! Takes records, forwards them unchanged. Costs a swap of buffers per batch.

use crate::api::operator::move_records;
use crate::{Context, Operator};
use stoatflow_core::{Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct Merge;

impl Operator for Merge {
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
