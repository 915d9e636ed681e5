//! `map`: another key and value for every record.
//!
//! Takes records, emits as many. `exchange` sends them to the lanes of their new keys.

use crate::api::operator::move_records;
use crate::support::function::Function;
use crate::{Context, Operator};
use stoatflow_core::{Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct Map {
    function: Function,
    results: Vec<(Datum, Datum)>,
}

impl Map {
    pub fn new(function: Function) -> Self {
        Self {
            function,
            results: Vec::new(),
        }
    }
}

impl Operator for Map {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.function.pair(input, &mut self.results, context)?;
        for (record, (key, value)) in input.iter_mut().zip(self.results.drain(..)) {
            record.key = key;
            record.value = value;
        }
        move_records(input, out);
        Ok(())
    }
}
