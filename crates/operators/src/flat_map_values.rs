//! `flat_map_values`: any number of values for every record.
//!
//! Takes records, gives one per value, with the key, time and headers of the record they came from.
//! Nulls inside a list become records with null values. A native split cuts the parts out of the
//! line's bytes, without a list in between.

use crate::function::{Callee, Function};
use crate::{Context, Operator, dropped};
use stoatflow_core::{Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct FlatMapValues {
    function: Function,
    results: Vec<Datum>,
    ends: Vec<usize>,
}

impl FlatMapValues {
    pub fn new(function: Function) -> Self {
        Self {
            function,
            results: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl Operator for FlatMapValues {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        match &self.function.callee {
            Callee::Native(expr) => {
                for record in input.drain(..) {
                    let listed =
                        expr.each(&record, &mut |value| out.push(record.with_value(value)));
                    if !listed.map_err(|e| self.function.locate(e, &record))? {
                        context
                            .effects
                            .dropped
                            .push((self.function.site.node, dropped::NULL_LIST));
                    }
                }
            }
            Callee::Foreign(udf) => {
                self.function
                    .many(udf.as_ref(), input, &mut self.results, &mut self.ends)?;
                let mut results = self.results.drain(..);
                let mut start = 0;
                for (record, end) in input.drain(..).zip(self.ends.drain(..)) {
                    out.extend(
                        results
                            .by_ref()
                            .take(end - start)
                            .map(|value| record.with_value(value)),
                    );
                    start = end;
                }
            }
        }
        Ok(())
    }
}
