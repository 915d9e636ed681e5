//! A function of an operator, foreign or native, behind one batch call.
//!
//! Takes whole batches, returns results in reused buffers, and adds the failed record's coordinates to
//! every error. So operators don't care which kind they have. If a handler decides that a record is left
//! out, it is removed from the batch, and the call continues after it: operators see a shorter batch
//! with a result for each record. Never calls a function twice for a record, unless a handler says so.

mod results;
mod routes;
#[cfg(test)]
mod tests;

use crate::expr::Compiled;
use crate::expr::combiner::{ArgumentRoles, Combiner};
use crate::support::error_policy::Outcome;
use crate::support::node_context::NodeContext;
use crate::{Args, Context, Failed, ForeignCode, Udf};
pub(crate) use results::Many;
use results::{Nothing, Results};
pub use routes::{check_partitions, check_topic};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};
use stoatflow_plan::{AsyncSpec, Function as Spec};

#[derive(Debug)]
pub(crate) enum Callee {
    Foreign(Arc<dyn Udf>),
    Native(Compiled),
}

/// Passes a batch on: whole, or record by record.
pub(crate) fn batch_or_single_records(
    singly: bool,
    input: &mut Vec<Record>,
    mut take: impl FnMut(&mut Vec<Record>) -> Result<()>,
) -> Result<()> {
    if !singly {
        return take(input);
    }
    let mut one = Vec::with_capacity(1);
    input.drain(..).try_for_each(|record| {
        one.push(record);
        take(&mut one)
    })
}

/// A function at its place in the topology.
#[derive(Debug)]
pub(crate) struct Function {
    pub callee: Callee,
    args: Args,
    pub node_context: NodeContext,
    /// True if several calls belong to one record, and none of them counts if one fails.
    together: bool,
}

impl Function {
    pub fn new(
        spec: &Spec,
        args: Args,
        node_context: NodeContext,
        foreign: &ForeignCode,
    ) -> Result<Self> {
        let callee = match spec {
            Spec::Udf(index) | Spec::Async(AsyncSpec { udf: index, .. }) => {
                Callee::Foreign(foreign.udf(*index)?)
            }
            Spec::Expr(expression) => Callee::Native(Compiled::new(expression)?),
            Spec::Aggregation(aggregation) => {
                return Err(Error::internal(format!(
                    "the aggregation {aggregation} stands where a function is called"
                )));
            }
        };
        Ok(Self {
            callee,
            args,
            node_context,
            together: false,
        })
    }

    /// For operators that call several times for one record (an update's new value and its old one).
    pub fn together(mut self) -> Self {
        self.together = true;
        self
    }

    /// Whether records must be passed one at a time, so that exactly one whole record is left out.
    pub fn singly(&self, records: usize) -> bool {
        self.together && self.node_context.is_lenient() && records > 1
    }

    /// One boolean per record.
    pub fn test(
        &self,
        batch: &mut Vec<Record>,
        out: &mut Vec<bool>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.test_telling(batch, out, context, |_| {})
    }

    /// As `test`; calls `gone` with the index of each record when it is left out.
    pub fn test_telling(
        &self,
        batch: &mut Vec<Record>,
        out: &mut Vec<bool>,
        context: &mut Context<'_>,
        gone: impl FnMut(usize),
    ) -> Result<()> {
        out.clear();
        self.run(batch, out, context, gone, |rest, _, out| {
            match &self.callee {
                Callee::Foreign(udf) => udf.test(self.args, rest, out),
                Callee::Native(expr) => each(rest, |record| {
                    out.push(expr.test(record)?);
                    Ok(())
                }),
            }
        })
    }

    /// One datum per record, stored by `set`. `scratch` is a buffer for foreign results.
    pub fn one(
        &self,
        batch: &mut Vec<Record>,
        scratch: &mut Vec<Datum>,
        context: &mut Context<'_>,
        set: impl Fn(&mut Record, Datum),
    ) -> Result<()> {
        self.one_telling(batch, scratch, context, set, |_| {})
    }

    /// As `one`; calls `gone` with the index of each record when it is left out.
    pub fn one_telling(
        &self,
        batch: &mut Vec<Record>,
        scratch: &mut Vec<Datum>,
        context: &mut Context<'_>,
        set: impl Fn(&mut Record, Datum),
        mut gone: impl FnMut(usize),
    ) -> Result<()> {
        match &self.callee {
            Callee::Foreign(udf) => {
                scratch.clear();
                self.run(batch, scratch, context, gone, |rest, _, out| {
                    udf.one(self.args, rest, out)
                })?;
                let results = scratch.drain(..);
                batch
                    .iter_mut()
                    .zip(results)
                    .for_each(|(record, result)| set(record, result));
            }
            Callee::Native(expr) => {
                let mut progress = BatchProgress::default();
                loop {
                    let from = progress.from;
                    let rest = batch[from..].iter_mut().enumerate();
                    let failed =
                        rest.into_iter()
                            .find_map(|(at, record)| match expr.eval(record) {
                                Ok(result) => {
                                    set(record, result);
                                    None
                                }
                                Err(error) => Some(Failed { at, error }),
                            });
                    let Some(failed) = failed else {
                        return Ok(());
                    };
                    self.handle_failure(failed, batch, &mut progress, context, &mut gone)?;
                }
            }
        }
        Ok(())
    }

    /// One pair per record.
    pub fn pair(
        &self,
        batch: &mut Vec<Record>,
        out: &mut Vec<(Datum, Datum)>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        out.clear();
        self.run(
            batch,
            out,
            context,
            |_| {},
            |rest, _, out| match &self.callee {
                Callee::Foreign(udf) => udf.pair(self.args, rest, out),
                Callee::Native(expr) => each(rest, |record| {
                    out.push(expr.eval(record).and_then(Compiled::pair)?);
                    Ok(())
                }),
            },
        )
    }

    /// Foreign only: any number of datums per record.
    pub fn many(
        &self,
        udf: &dyn Udf,
        batch: &mut Vec<Record>,
        out: &mut Many<Datum>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        out.clear();
        self.run(
            batch,
            out,
            context,
            |_| {},
            |rest, _, out| udf.many(self.args, rest, &mut out.items, &mut out.ends),
        )?;
        out.whole()
    }

    /// Foreign only: any number of pairs per record.
    pub fn many_pairs(
        &self,
        udf: &dyn Udf,
        batch: &mut Vec<Record>,
        out: &mut Many<(Datum, Datum)>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        out.clear();
        self.run(
            batch,
            out,
            context,
            |_| {},
            |rest, _, out| udf.many_pairs(self.args, rest, &mut out.items, &mut out.ends),
        )?;
        out.whole()
    }

    /// Side effects. A native expression has none, but it may fail, which is handled.
    pub fn effect(&self, batch: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.run(
            batch,
            &mut Nothing,
            context,
            |_| {},
            |rest, _, _| match &self.callee {
                Callee::Foreign(udf) => udf.effect(self.args, rest),
                Callee::Native(expr) => each(rest, |record| expr.eval(record).map(drop)),
            },
        )
    }

    /// Calls for the batch, and after a failure for the rest of it, until every remaining record has a
    /// result. `call` gets the records to work on, and the index of the first one in the batch.
    fn run<R: Results>(
        &self,
        batch: &mut Vec<Record>,
        out: &mut R,
        context: &mut Context<'_>,
        mut gone: impl FnMut(usize),
        mut call: impl FnMut(&[Record], usize, &mut R) -> Result<(), Failed>,
    ) -> Result<()> {
        let mut progress = BatchProgress::default();
        while let Err(failed) = call(&batch[progress.from..], progress.from, out) {
            self.handle_failure(failed, batch, &mut progress, context, &mut gone)?;
            out.cut(progress.from);
            self.complete(out, progress.from, batch)?;
            if progress.from == batch.len() {
                return Ok(());
            }
        }
        self.complete(out, batch.len(), batch)
    }

    /// Decides about the record that a call failed for; the batch then continues from there.
    fn handle_failure(
        &self,
        failed: Failed,
        batch: &mut Vec<Record>,
        progress: &mut BatchProgress,
        context: &mut Context<'_>,
        gone: &mut impl FnMut(usize),
    ) -> Result<()> {
        let at = progress.from + failed.at;
        let Some(record) = batch.get(at) else {
            return Err(failed.error);
        };
        if failed.at > 0 {
            progress.attempts = 0;
        }
        progress.from = at;
        let error = self.locate(failed.error, record);
        match self
            .node_context
            .handle(error, record, progress.attempts, context)?
        {
            Outcome::Again => progress.attempts += 1,
            Outcome::Gone => {
                progress.attempts = 0;
                if self.together {
                    progress.from = 0;
                    batch.clear();
                    return Ok(());
                }
                batch.remove(at);
                gone(at);
            }
        }
        Ok(())
    }

    /// The callable of an aggregation or a join, foreign or native.
    pub fn caller(&self, takes: ArgumentRoles) -> Arc<dyn Udf> {
        match &self.callee {
            Callee::Foreign(udf) => Arc::clone(udf),
            Callee::Native(expr) => Arc::new(Combiner::new(expr.clone(), takes)),
        }
    }

    /// Runs `body`, with the interpreter attached if the function has one.
    pub fn scope(&self, body: &mut dyn FnMut()) {
        match &self.callee {
            Callee::Foreign(udf) => udf.scope(body),
            Callee::Native(_) => body(),
        }
    }

    /// Adds the coordinates of a record to an error of this function.
    pub fn locate(&self, error: Error, record: &Record) -> Error {
        let name = match &self.callee {
            Callee::Foreign(udf) => udf.name(),
            Callee::Native(expr) => expr.text(),
        };
        self.node_context
            .locate_call(error, &record.origin, Some(name))
    }

    // Foreign results are counted: with one too few, every later record would get its neighbour's.
    fn complete(&self, results: &impl Results, wanted: usize, batch: &[Record]) -> Result<()> {
        let Some(results) = results.count().filter(|results| *results != wanted) else {
            return Ok(());
        };
        let error = Error::internal(format!(
            "a function gave {results} results for {wanted} records"
        ));
        Err(batch.first().map_or(
            Error::internal("a function gave results for no records"),
            |first| self.locate(error, first),
        ))
    }
}

/// The progress of a batch.
#[derive(Default)]
struct BatchProgress {
    /// The first record without a result.
    from: usize,
    /// How many calls have failed for it.
    attempts: u32,
}

/// Runs a native function for each record, up to the first that fails.
fn each(batch: &[Record], mut act: impl FnMut(&Record) -> Result<()>) -> Result<(), Failed> {
    batch
        .iter()
        .enumerate()
        .try_for_each(|(at, record)| act(record).map_err(|error| Failed { at, error }))
}
