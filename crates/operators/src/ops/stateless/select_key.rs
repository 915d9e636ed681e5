//! `select_key`: another key for every record.
//!
//! Takes records, emits as many. A null key is allowed until an operator needs one. `exchange` sends
//! records to the lanes of their new keys.

use crate::api::operator::move_records;
use crate::support::function::Function;
use crate::{Context, Operator};
use stoatflow_core::{Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct SelectKey {
    function: Function,
    results: Vec<Datum>,
}

impl SelectKey {
    pub fn new(function: Function) -> Self {
        Self {
            function,
            results: Vec::new(),
        }
    }
}

impl Operator for SelectKey {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.function
            .one(input, &mut self.results, context, |record, key| {
                record.key = key
            })?;
        move_records(input, out);
        Ok(())
    }
}
