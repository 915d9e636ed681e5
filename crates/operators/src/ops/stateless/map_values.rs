//! `map_values`: another value for every record.
//!
//! Takes records, emits as many. Null values are passed to the function. Never changes a key.

use crate::api::operator::move_records;
use crate::support::function::Function;
use crate::{Context, Operator};
use stoatflow_core::{Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct MapValues {
    function: Function,
    results: Vec<Datum>,
}

impl MapValues {
    pub fn new(function: Function) -> Self {
        Self {
            function,
            results: Vec::new(),
        }
    }
}

impl Operator for MapValues {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.function
            .one(input, &mut self.results, context, |record, value| {
                record.value = value;
            })?;
        move_records(input, out);
        Ok(())
    }
}
