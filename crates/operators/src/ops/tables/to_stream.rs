//! `to_stream`: a table's updates as a stream, tombstones included.
//!
//! Takes updates, emits their new values, including those that aren't the newest of a versioned table.
//! Costs a swap of buffers per batch, and a check of each record.

use crate::api::operator::move_records;
use crate::ops::tables::table_update;
use crate::{Context, Operator};
use stoatflow_core::{Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct ToStream;

impl Operator for ToStream {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        _context: &mut Context<'_>,
    ) -> Result<()> {
        for record in input.iter_mut() {
            if matches!(record.value, Datum::Change(_)) {
                record.value = table_update::into_new(std::mem::take(&mut record.value));
            }
        }
        move_records(input, out);
        Ok(())
    }
}
