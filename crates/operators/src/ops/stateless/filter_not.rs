//! `filter_not`: drops the records that the predicate accepts. A native condition that is null counts as
//! false.
//!
//! Takes records, including those with null values; forwards the others unchanged. Records that the
//! predicate accepts are not counted as dropped.

use crate::api::operator::move_records;
use crate::support::function::Function;
use crate::{Context, Operator};
use stoatflow_core::{Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct FilterNot {
    function: Function,
    verdicts: Vec<bool>,
}

impl FilterNot {
    pub fn new(function: Function) -> Self {
        Self {
            function,
            verdicts: Vec::new(),
        }
    }
}

impl Operator for FilterNot {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.function.test(input, &mut self.verdicts, context)?;
        let mut verdicts = self.verdicts.iter();
        input.retain(|_| !verdicts.next().copied().unwrap_or(false));
        move_records(input, out);
        Ok(())
    }
}
