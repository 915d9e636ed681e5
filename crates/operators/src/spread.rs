//! What `flat_map` and `flat_map_values` share: any number of results for every record.
//!
//! Takes a batch and a function, gives one record per result, in order. Null where a native expression
//! should give a list is dropped and counted. Never runs a function twice.

use crate::function::{Callee, Function};
use crate::{Context, Udf, dropped};
use stoatflow_core::{Datum, Record, Result};

/// How results of a type are called for and made into records.
pub(crate) trait Shape {
    /// A result.
    type Item;
    /// Foreign: all results of a batch, and where each record's end.
    fn call(
        function: &Function,
        udf: &dyn Udf,
        batch: &[Record],
        results: &mut Vec<Self::Item>,
        ends: &mut Vec<usize>,
    ) -> Result<()>;
    /// Native: the record of an element of the list, straight into `out`.
    fn push(record: &Record, element: Datum, out: &mut Vec<Record>) -> Result<()>;
    /// Foreign: the record of a result.
    fn make(record: &Record, item: Self::Item) -> Record;
}

/// A function that gives any number of results, with its buffers.
#[derive(Debug)]
pub(crate) struct Spread<S: Shape> {
    function: Function,
    results: Vec<S::Item>,
    ends: Vec<usize>,
}

impl<S: Shape> Spread<S> {
    pub fn new(function: Function) -> Self {
        Self {
            function,
            results: Vec::new(),
            ends: Vec::new(),
        }
    }

    pub fn run(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let function = &self.function;
        match &function.callee {
            Callee::Native(expr) => {
                for record in input.drain(..) {
                    let mut elements = Ok(());
                    let listed = expr.each(&record, &mut |element| {
                        if let Err(e) = S::push(&record, element, out) {
                            elements = Err(e);
                        }
                    });
                    let listed = listed.and_then(|listed| elements.map(|()| listed));
                    if !listed.map_err(|e| function.locate(e, &record))? {
                        let node = function.site.node;
                        context.effects.dropped.push((node, dropped::NULL_LIST));
                    }
                }
            }
            Callee::Foreign(udf) => {
                S::call(
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
                    out.extend(own.map(|result| S::make(&record, result)));
                    start = end;
                }
            }
        }
        Ok(())
    }
}
