//! What `flat_map` and `flat_map_values` share: any number of results for every record.
//!
//! Takes a batch and a function, gives one record per result, in order. Null where a native expression
//! should give a list is dropped and counted. Never runs a function twice.

use crate::function::{Callee, Function};
use crate::{Context, Udf, dropped};
use stoatflow_core::{Datum, Record, Result};

type Call<T> = fn(&Function, &dyn Udf, &[Record], &mut Vec<T>, &mut Vec<usize>) -> Result<()>;

/// How results of a type are called for and made into records.
pub(crate) struct Shape<T> {
    /// Foreign: all results of a batch, and where each record's end.
    pub call: Call<T>,
    /// Native: an element of the list.
    pub element: fn(Datum) -> Result<T>,
    /// The record of a result.
    pub make: fn(&Record, T) -> Record,
}

/// A function that gives any number of results, with its buffers.
#[derive(Debug)]
pub(crate) struct Spread<T> {
    function: Function,
    results: Vec<T>,
    ends: Vec<usize>,
}

impl<T> Spread<T> {
    pub fn new(function: Function) -> Self {
        Self {
            function,
            results: Vec::new(),
            ends: Vec::new(),
        }
    }

    pub fn run(
        &mut self,
        shape: &Shape<T>,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let function = &self.function;
        match &function.callee {
            Callee::Native(expr) => {
                for record in input.drain(..) {
                    let mut elements = Ok(());
                    let listed = expr.each(&record, &mut |item| match (shape.element)(item) {
                        Ok(result) => out.push((shape.make)(&record, result)),
                        Err(e) => elements = Err(e),
                    });
                    let listed = listed.and_then(|listed| elements.map(|()| listed));
                    if !listed.map_err(|e| function.locate(e, &record))? {
                        let node = function.site.node;
                        context.effects.dropped.push((node, dropped::NULL_LIST));
                    }
                }
            }
            Callee::Foreign(udf) => {
                (shape.call)(
                    function,
                    udf.as_ref(),
                    input,
                    &mut self.results,
                    &mut self.ends,
                )?;
                let mut results = self.results.drain(..);
                let mut start = 0;
                for (record, end) in input.drain(..).zip(self.ends.drain(..)) {
                    let own = results.by_ref().take(end - start);
                    out.extend(own.map(|result| (shape.make)(&record, result)));
                    start = end;
                }
            }
        }
        Ok(())
    }
}
