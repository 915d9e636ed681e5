//! Where the two sides of a join of tables meet.
//!
//! Takes the updates of both sides, keeps the result if it has a store, gives them on. Never joins.

use crate::keeper::{Before, Keeper};
use crate::operator::pour;
use crate::{Context, Operator};
use stoatflow_core::{Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct TableMerge {
    keeper: Option<Keeper>,
}

impl TableMerge {
    pub fn new(keeper: Option<Keeper>) -> Self {
        Self { keeper }
    }
}

impl Operator for TableMerge {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let Some(keeper) = &mut self.keeper else {
            pour(input, out);
            return Ok(());
        };
        for mut record in input.drain(..) {
            // A row of a join by foreign key doesn't say what was before.
            let (new, before) = match std::mem::take(&mut record.value) {
                Datum::Change(change) => (change.new, Before::Given(change.old)),
                new => (new, Before::Stored),
            };
            keeper.keep(record, new, before, out, context)?;
        }
        Ok(())
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        if let Some(keeper) = &mut self.keeper {
            keeper.barrier(out);
        }
        Ok(())
    }
}
