//! `flat_map`: any number of keys and values for every record.
//!
//! Takes records; emits one per pair, with the timestamp and headers of the input record. `exchange`
//! sends them to the lanes of their new keys.

use crate::expr::Compiled;
use crate::ops::stateless::flat_map_core::{FlatMapCore, Shape};
use crate::support::function::{Function, Many};
use crate::{Context, Operator, Udf};
use stoatflow_core::{Datum, Record, Result};

#[derive(Debug)]
struct Pairs;

impl Shape for Pairs {
    type Item = (Datum, Datum);

    fn call(
        function: &Function,
        udf: &dyn Udf,
        batch: &mut Vec<Record>,
        results: &mut Many<Self::Item>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        function.many_pairs(udf, batch, results, context)
    }

    fn push(record: &Record, element: Datum, out: &mut Vec<Record>) -> Result<()> {
        let (key, value) = Compiled::pair(element)?;
        out.push(record.with_pair(key, value));
        Ok(())
    }

    fn make(record: &Record, (key, value): Self::Item) -> Record {
        record.with_pair(key, value)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct FlatMap(FlatMapCore<Pairs>);

impl FlatMap {
    pub fn new(function: Function) -> Self {
        Self(FlatMapCore::new(function))
    }
}

impl Operator for FlatMap {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.0.run(input, out, context)
    }
}
