//! Where the two sides of a join of tables meet.
//!
//! Takes the updates of both sides, keeps the result if it has a store, gives them on. Never joins.

use crate::keeper::{Before, Keeper};
use crate::operator::pour;
use crate::{Context, Operator, table_update};
use stoatflow_core::{Change, Record, Result};

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
            let Change { old, new, .. } = table_update::split(std::mem::take(&mut record.value));
            keeper.keep(record, new, Before::Given(old), out, context)?;
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
