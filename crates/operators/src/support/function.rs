//! A function of an operator, foreign or native, behind one batch call.
//!
//! Takes whole batches, gives results in reused buffers, and adds to every failure the record it happened
//! at. So operators don't ask which kind they have. Where a handler says that a record is to be left out,
//! it leaves the batch, and the call continues behind it: operators see a shorter batch with a result for
//! each record. Never runs a function twice for a record, unless a handler says so.

#[cfg(test)]
mod tests;

use crate::expr::Compiled;
use crate::expr::combiner::{Combiner, Takes};
use crate::support::error_policy::Outcome;
use crate::support::node_context::NodeContext;
use crate::{Args, Context, Failed, Foreign, Partitions, Udf};
use std::cell::RefCell;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Partition, Record, Result};
use stoatflow_plan::{Awaiting, Function as Spec};

#[derive(Debug)]
pub(crate) enum Callee {
    Foreign(Arc<dyn Udf>),
    Native(Compiled),
}

/// Hands a batch on: whole, or record by record.
pub(crate) fn in_turn(
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
    /// Do several calls belong to one record, and none of them counts if one fails?
    together: bool,
}

impl Function {
    pub fn new(
        spec: &Spec,
        args: Args,
        node_context: NodeContext,
        foreign: &Foreign,
    ) -> Result<Self> {
        let callee = match spec {
            Spec::Udf(index) | Spec::Async(Awaiting { udf: index, .. }) => {
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

    /// Must records come one at a time, so that what is left out is one whole record?
    pub fn singly(&self, records: usize) -> bool {
        self.together && self.node_context.is_lenient() && records > 1
    }

    /// One verdict per record.
    pub fn test(
        &self,
        batch: &mut Vec<Record>,
        out: &mut Vec<bool>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.test_telling(batch, out, context, |_| {})
    }

    /// As `test`; tells the place of each record that is left out, at the time it is.
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

    /// One datum per record, put where `set` says. `scratch` holds what crosses the border.
    pub fn one(
        &self,
        batch: &mut Vec<Record>,
        scratch: &mut Vec<Datum>,
        context: &mut Context<'_>,
        set: impl Fn(&mut Record, Datum),
    ) -> Result<()> {
        self.one_telling(batch, scratch, context, set, |_| {})
    }

    /// As `one`; tells the place of each record that is left out, at the time it is.
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
                let mut trial = Trial::default();
                loop {
                    let from = trial.from;
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
                    self.settle(failed, batch, &mut trial, context, &mut gone)?;
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

    /// A topic per record.
    pub fn topics(
        &self,
        batch: &mut Vec<Record>,
        out: &mut Vec<Arc<str>>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        out.clear();
        self.run(
            batch,
            out,
            context,
            |_| {},
            |rest, _, out| match &self.callee {
                Callee::Foreign(udf) => {
                    udf.topics(rest, &|origin| self.node_context.topic_of(origin), out)
                }
                Callee::Native(expr) => each(rest, |record| {
                    let topic: Arc<str> = match expr.eval(record)? {
                        Datum::Str(topic) => topic.as_str().into(),
                        other => {
                            return Err(Error::user(format!(
                                "a topic's name was expected, but the expression gave {}",
                                other.type_name()
                            ))
                            .hint("give a text for every record: sf.coalesce(..., \"other\")"));
                        }
                    };
                    check_topic(&topic)?;
                    out.push(topic);
                    Ok(())
                }),
            },
        )?;
        // A port that doesn't check by itself has called for the later records already.
        self.checked(batch, out.iter().map(|topic| check_topic(topic)))
    }

    /// The partitions of each record's topic that it goes to. `to`: topics, and how many partitions they
    /// have. `gone` is told of each record that is left out.
    pub fn partitions(
        &self,
        batch: &mut Vec<Record>,
        to: &mut Vec<(Arc<str>, u32)>,
        out: &mut Vec<Partitions>,
        context: &mut Context<'_>,
        mut gone: impl FnMut(usize),
    ) -> Result<()> {
        out.clear();
        // Shared by the call and by what follows a failure; never at the same time.
        let to = RefCell::new(to);
        let told = |at: usize| {
            to.borrow_mut().remove(at);
            gone(at);
        };
        self.run(batch, out, context, told, |rest, from, out| {
            let to = to.borrow();
            let to = &to[from..];
            let mut next = to.iter();
            match &self.callee {
                Callee::Foreign(udf) => udf.partitions(rest, to, out),
                Callee::Native(expr) => each(rest, |record| {
                    let chosen = chosen(expr.eval(record)?)?;
                    next.next()
                        .map_or(Ok(()), |to| check_partitions(&chosen, to))?;
                    out.push(chosen);
                    Ok(())
                }),
            }
        })?;
        let to = to.into_inner();
        let checks = out.iter().zip(to.iter());
        self.checked(
            batch,
            checks.map(|(chosen, to)| check_partitions(chosen, to)),
        )
    }

    fn checked(&self, batch: &[Record], checks: impl Iterator<Item = Result<()>>) -> Result<()> {
        let mut all = batch.iter().zip(checks);
        all.try_for_each(|(record, check)| check.map_err(|e| self.locate(e, record)))
    }

    /// Side effects. A native expression has none, but it may fail, and that shows.
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

    /// Calls for the batch, and after a failure for what is behind it, until there is a result for every
    /// record that is still there. `call` gets what it is to work on, and where in the batch that begins.
    fn run<R: Results>(
        &self,
        batch: &mut Vec<Record>,
        out: &mut R,
        context: &mut Context<'_>,
        mut gone: impl FnMut(usize),
        mut call: impl FnMut(&[Record], usize, &mut R) -> Result<(), Failed>,
    ) -> Result<()> {
        let mut trial = Trial::default();
        while let Err(failed) = call(&batch[trial.from..], trial.from, out) {
            self.settle(failed, batch, &mut trial, context, &mut gone)?;
            out.cut(trial.from);
            self.complete(out, trial.from, batch)?;
            if trial.from == batch.len() {
                return Ok(());
            }
        }
        self.complete(out, batch.len(), batch)
    }

    /// Decides about the record that a call failed for; then the trial continues from there.
    fn settle(
        &self,
        failed: Failed,
        batch: &mut Vec<Record>,
        trial: &mut Trial,
        context: &mut Context<'_>,
        gone: &mut impl FnMut(usize),
    ) -> Result<()> {
        let at = trial.from + failed.at;
        let Some(record) = batch.get(at) else {
            return Err(failed.error);
        };
        if failed.at > 0 {
            trial.attempts = 0;
        }
        trial.from = at;
        let error = self.locate(failed.error, record);
        match self
            .node_context
            .handle(error, record, trial.attempts, context)?
        {
            Outcome::Again => trial.attempts += 1,
            Outcome::Gone => {
                trial.attempts = 0;
                if self.together {
                    trial.from = 0;
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
    pub fn caller(&self, takes: Takes) -> Arc<dyn Udf> {
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

    // What crosses a border is counted: a result too few would give every later record its neighbour's.
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

/// How far a batch is done.
#[derive(Default)]
struct Trial {
    /// The first record without a result.
    from: usize,
    /// So many calls have failed for it.
    attempts: u32,
}

/// Results, parallel to the records of a batch.
trait Results {
    /// For how many records; `None`: unknown.
    fn count(&self) -> Option<usize>;
    /// Forgets what is there for later ones than so many.
    fn cut(&mut self, records: usize);
}

struct Nothing;

impl Results for Nothing {
    fn count(&self) -> Option<usize> {
        None
    }

    fn cut(&mut self, _records: usize) {}
}

impl<T> Results for Vec<T> {
    fn count(&self) -> Option<usize> {
        Some(self.len())
    }

    fn cut(&mut self, records: usize) {
        self.truncate(records);
    }
}

/// Any number of results per record.
#[derive(Debug)]
pub(crate) struct Many<T> {
    pub items: Vec<T>,
    /// Where each record's end.
    pub ends: Vec<usize>,
}

impl<T> Default for Many<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl<T> Many<T> {
    fn clear(&mut self) {
        self.items.clear();
        self.ends.clear();
    }

    fn whole(&self) -> Result<()> {
        let (results, ends) = (self.items.len(), &self.ends);
        if ends.is_sorted() && ends.last().copied().unwrap_or(0) == results {
            return Ok(());
        }
        Err(Error::internal(format!(
            "a function gave {results} results, but their ends don't add up"
        )))
    }
}

impl<T> Results for Many<T> {
    fn count(&self) -> Option<usize> {
        Some(self.ends.len())
    }

    fn cut(&mut self, records: usize) {
        self.ends.truncate(records);
        self.items.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

/// Something native for each record, up to the first that fails.
fn each(batch: &[Record], mut act: impl FnMut(&Record) -> Result<()>) -> Result<(), Failed> {
    batch
        .iter()
        .enumerate()
        .try_for_each(|(at, record)| act(record).map_err(|error| Failed { at, error }))
}

/// A partition that an expression gave.
fn chosen(given: Datum) -> Result<Partitions> {
    match given {
        Datum::Null => Ok(None),
        Datum::Int(number) => Ok(Some(vec![Partition(i32::try_from(number).unwrap_or(-1))])),
        other => Err(Error::user(format!(
            "a partition was expected, but the expression gave {}",
            other.type_name()
        ))
        .hint("give a number, or null to let the key decide")),
    }
}

/// May this be a topic's name?
///
/// # Errors
/// `User` for an empty text.
pub fn check_topic(topic: &str) -> Result<()> {
    if topic.is_empty() {
        return Err(
            Error::user("the function gave an empty text for a topic's name")
                .hint("give the name of a topic for every record"),
        );
    }
    Ok(())
}

/// Does the topic have all the partitions that a partitioner chose?
///
/// # Errors
/// `User` for one that it doesn't have.
pub fn check_partitions(chosen: &Partitions, (topic, count): &(Arc<str>, u32)) -> Result<()> {
    let beyond = chosen
        .iter()
        .flatten()
        .find(|partition| u32::try_from(partition.0).map_or(true, |number| number >= *count));
    let Some(partition) = beyond else {
        return Ok(());
    };
    Err(Error::user(format!(
        "the partitioner chose partition {partition} of the topic {topic}, which has {count}"
    ))
    .hint("give numbers from 0 to partitions - 1, such as hash % partitions"))
}
