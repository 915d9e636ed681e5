//! `foreach`: runs a side effect for every record and ends the stream.
//!
//! Takes records, emits none. May run again after a crash: side effects are not part of a transaction.

use crate::support::function::Function;
use crate::{Context, Operator};
use stoatflow_core::{Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct Foreach {
    function: Function,
}

impl Foreach {
    pub fn new(function: Function) -> Self {
        Self { function }
    }
}

impl Operator for Foreach {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        _out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.function.effect(input, context)?;
        input.clear();
        Ok(())
    }
}
