//! Shared code of `flat_map` and `flat_map_values`: any number of results for every record.
//!
//! Takes a batch and a function; emits one record per result, in order. If a native expression returns
//! null instead of a list, the record is dropped and counted. Never calls a function twice for a record.

use crate::support::dropped;
use crate::support::function::{Callee, Function, Many};
use crate::{Context, Udf, check_results};
use stoatflow_core::{Datum, Error, Record, Result};

/// How results of a type are computed and turned into records.
pub(crate) trait Shape {
    /// A result.
    type Item;
    /// Foreign: computes all results of a batch, and the end index of each record's results.
    fn call(
        function: &Function,
        udf: &dyn Udf,
        batch: &mut Vec<Record>,
        results: &mut Many<Self::Item>,
        context: &mut Context<'_>,
    ) -> Result<()>;
    /// Native: appends the record for one list element to `out`.
    fn push(record: &Record, element: Datum, out: &mut Vec<Record>) -> Result<()>;
    /// Foreign: the record for a result.
    fn make(record: &Record, item: Self::Item) -> Record;
}

/// Retries a native expression that failed, if the error handler asks for it; `None`: the record is left
/// out.
#[cold]
fn retry_failed(
    function: &Function,
    error: Error,
    record: &Record,
    (out, before): (&mut Vec<Record>, usize),
    context: &mut Context<'_>,
    give: impl Fn(&Record, &mut Vec<Record>) -> Result<bool>,
) -> Result<Option<bool>> {
    let rescued = function.node_context.rescue(error, record, context, |_| {
        out.truncate(before);
        give(record, out)
    })?;
    if rescued.is_none() {
        out.truncate(before);
    }
    Ok(rescued)
}

/// A function with any number of results per record, with its buffers.
#[derive(Debug)]
pub(crate) struct FlatMapCore<S: Shape> {
    function: Function,
    results: Many<S::Item>,
}

impl<S: Shape> FlatMapCore<S> {
    pub fn new(function: Function) -> Self {
        Self {
            function,
            results: Many::default(),
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
                let give = |record: &Record, out: &mut Vec<Record>| {
                    let (mut elements, before) = (Ok(()), out.len());
                    let listed = expr.each(record, &mut |element| {
                        if let Err(e) = S::push(record, element, out) {
                            elements = Err(e);
                        }
                    });
                    // Lists are finite, so the limit is checked once at the end; only results of
                    // functions are checked one by one.
                    let given = out.len() - before;
                    listed
                        .and_then(|listed| elements.map(|()| listed))
                        .and_then(|listed| check_results(given.saturating_sub(1)).map(|()| listed))
                        .map_err(|e| function.locate(e, record))
                };
                for record in input.drain(..) {
                    let before = out.len();
                    let listed = match give(&record, out) {
                        Ok(listed) => Some(listed),
                        Err(error) => {
                            retry_failed(function, error, &record, (out, before), context, give)?
                        }
                    };
                    if listed == Some(false) {
                        let node = function.node_context.node;
                        context.effects.dropped.push((node, dropped::NULL_LIST));
                    }
                }
            }
            Callee::Foreign(udf) => {
                S::call(function, udf.as_ref(), input, &mut self.results, context)?;
                let Many { items, ends } = &mut self.results;
                let mut results = items.drain(..);
                let mut start = 0;
                for (record, end) in input.drain(..).zip(ends.drain(..)) {
                    let own = results.by_ref().take(end - start);
                    out.extend(own.map(|result| S::make(&record, result)));
                    start = end;
                }
            }
        }
        Ok(())
    }
}
