//! `flat_map`: any number of keys and values for every record.
//!
//! Takes records, gives one per pair, with the time and headers of the record they came from.
//! Walking to the new keys' lanes is `exchange`'s work.

use crate::expr::Compiled;
use crate::function::{Callee, Function};
use crate::{Context, Operator, dropped};
use stoatflow_core::{Datum, Record, Result};

/// See the module.
#[derive(Debug)]
pub(crate) struct FlatMap {
    function: Function,
    results: Vec<(Datum, Datum)>,
    ends: Vec<usize>,
}

impl FlatMap {
    pub fn new(function: Function) -> Self {
        Self {
            function,
            results: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl Operator for FlatMap {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        match &self.function.callee {
            Callee::Native(expr) => {
                for record in input.drain(..) {
                    let mut pairs = Ok(());
                    let listed = expr.each(&record, &mut |item| match Compiled::pair(item) {
                        Ok((key, value)) => out.push(record.with_pair(key, value)),
                        Err(e) => pairs = Err(e),
                    });
                    if !listed
                        .and_then(|listed| pairs.map(|()| listed))
                        .map_err(|e| self.function.locate(e, &record))?
                    {
                        context
                            .effects
                            .dropped
                            .push((self.function.site.node, dropped::NULL_LIST));
                    }
                }
            }
            Callee::Foreign(udf) => {
                self.function
                    .many_pairs(udf.as_ref(), input, &mut self.results, &mut self.ends)?;
                let mut results = self.results.drain(..);
                let mut start = 0;
                for (record, end) in input.drain(..).zip(self.ends.drain(..)) {
                    out.extend(
                        results
                            .by_ref()
                            .take(end - start)
                            .map(|(key, value)| record.with_pair(key, value)),
                    );
                    start = end;
                }
            }
        }
        Ok(())
    }
}
