//! `flat_map`: any number of keys and values for every record.
//!
//! Takes records, gives one per pair, with the time and headers of the record they came from.
//! Walking to the new keys' lanes is `exchange`'s work.

use crate::expr::Compiled;
use crate::function::Function;
use crate::spread::{Shape, Spread};
use crate::{Context, Operator};
use stoatflow_core::{Datum, Record, Result};

const PAIRS: Shape<(Datum, Datum)> = Shape {
    call: Function::many_pairs,
    element: Compiled::pair,
    make: |record, (key, value)| record.with_pair(key, value),
};

/// See the module.
#[derive(Debug)]
pub(crate) struct FlatMap(Spread<(Datum, Datum)>);

impl FlatMap {
    pub fn new(function: Function) -> Self {
        Self(Spread::new(function))
    }
}

impl Operator for FlatMap {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.0.run(&PAIRS, input, out, context)
    }
}
