//! Turns the updates of a versioned table into those of a plain table.
//!
//! Takes updates, including those that aren't the newest of their key, and marks each as the newest.
//! Costs a check of each record.

use crate::api::operator::move_records;
use crate::{Context, Operator};
use stoatflow_core::{Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct Unversioned;

impl Operator for Unversioned {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        _context: &mut Context<'_>,
    ) -> Result<()> {
        for record in input.iter_mut() {
            if let Datum::Change(change) = &mut record.value {
                change.latest = true;
            }
        }
        move_records(input, out);
        Ok(())
    }
}
