//! `peek`: runs a side effect for every record.
//!
//! Takes records, forwards them unchanged. May run again after a crash: side effects are not part of a
//! transaction.

use crate::api::operator::move_records;
use crate::support::function::Function;
use crate::{Context, Operator};
use stoatflow_core::{Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct Peek {
    function: Function,
}

impl Peek {
    pub fn new(function: Function) -> Self {
        Self { function }
    }
}

impl Operator for Peek {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.function.effect(input, context)?;
        move_records(input, out);
        Ok(())
    }
}
