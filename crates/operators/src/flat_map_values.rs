//! `flat_map_values`: any number of values for every record.
//!
//! Takes records, gives one per value, with the key, time and headers of the record they came from.
//! Nulls inside a list become records with null values. A native split cuts the parts out of the
//! line's bytes, without a list in between.

use crate::function::Function;
use crate::spread::{Shape, Spread};
use crate::{Context, Operator};
use stoatflow_core::{Datum, Record, Result};

const VALUES: Shape<Datum> = Shape {
    call: Function::many,
    element: Ok,
    make: Record::with_value,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct FlatMapValues(Spread<Datum>);

impl FlatMapValues {
    pub fn new(function: Function) -> Self {
        Self(Spread::new(function))
    }
}

impl Operator for FlatMapValues {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.0.run(&VALUES, input, out, context)
    }
}
