//! `flat_map_values`: any number of values for every record.
//!
//! Takes records; emits one per value, with the key, timestamp and headers of the input record. Nulls
//! inside a list become records with null values. A native split slices the parts out of the line's
//! bytes, without building a list.

use crate::ops::stateless::flat_map_core::{FlatMapCore, Shape};
use crate::support::function::{Function, Many};
use crate::{Context, Operator, Udf};
use stoatflow_core::{Datum, Record, Result};

#[derive(Debug)]
struct Values;

impl Shape for Values {
    type Item = Datum;

    fn call(
        function: &Function,
        udf: &dyn Udf,
        batch: &mut Vec<Record>,
        results: &mut Many<Self::Item>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        function.many(udf, batch, results, context)
    }

    fn push(record: &Record, element: Datum, out: &mut Vec<Record>) -> Result<()> {
        out.push(record.with_value(element));
        Ok(())
    }

    fn make(record: &Record, value: Datum) -> Record {
        record.with_value(value)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct FlatMapValues(FlatMapCore<Values>);

impl FlatMapValues {
    pub fn new(function: Function) -> Self {
        Self(FlatMapCore::new(function))
    }
}

impl Operator for FlatMapValues {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.0.run(input, out, context)
    }
}
