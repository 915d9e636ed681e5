//! A function of an operator, foreign or native, behind one batch call.
//!
//! Takes whole batches, gives results in reused buffers, and adds to every failure the record it
//! happened at. So operators don't ask which kind they have. Never runs a function twice.

#[cfg(test)]
mod tests;

use crate::expr::Compiled;
use crate::site::Site;
use crate::{Args, Failed, Foreign, Partitions, Udf};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Partition, Record, Result};
use stoatflow_plan::Function as Spec;

#[derive(Debug)]
pub(crate) enum Callee {
    Foreign(Arc<dyn Udf>),
    Native(Compiled),
}

/// A function at its place in the topology.
#[derive(Debug)]
pub(crate) struct Function {
    pub callee: Callee,
    args: Args,
    pub site: Site,
}

impl Function {
    pub fn new(spec: &Spec, args: Args, site: Site, foreign: &Foreign) -> Result<Self> {
        let callee = match spec {
            Spec::Udf(index) => Callee::Foreign(foreign.udf(*index)?),
            Spec::Expr(expression) => Callee::Native(Compiled::new(expression)?),
        };
        Ok(Self { callee, args, site })
    }

    /// One verdict per record.
    pub fn test(&self, batch: &[Record], out: &mut Vec<bool>) -> Result<()> {
        out.clear();
        match &self.callee {
            Callee::Foreign(udf) => {
                udf.test(self.args, batch, out)
                    .map_err(|failed| self.failed(failed, batch))?;
                self.complete(out.len(), batch)
            }
            Callee::Native(expr) => batch.iter().try_for_each(|record| {
                out.push(expr.test(record).map_err(|e| self.locate(e, record))?);
                Ok(())
            }),
        }
    }

    /// One datum per record, put where `set` says. `scratch` holds what crosses the border.
    pub fn one(
        &self,
        batch: &mut [Record],
        scratch: &mut Vec<Datum>,
        set: impl Fn(&mut Record, Datum),
    ) -> Result<()> {
        match &self.callee {
            Callee::Foreign(udf) => {
                scratch.clear();
                udf.one(self.args, batch, scratch)
                    .map_err(|failed| self.failed(failed, batch))?;
                self.complete(scratch.len(), batch)?;
                let results = scratch.drain(..);
                batch
                    .iter_mut()
                    .zip(results)
                    .for_each(|(record, result)| set(record, result));
            }
            Callee::Native(expr) => {
                for record in batch {
                    let result = expr.eval(record).map_err(|e| self.locate(e, record))?;
                    set(record, result);
                }
            }
        }
        Ok(())
    }

    /// One pair per record.
    pub fn pair(&self, batch: &[Record], out: &mut Vec<(Datum, Datum)>) -> Result<()> {
        out.clear();
        match &self.callee {
            Callee::Foreign(udf) => {
                udf.pair(self.args, batch, out)
                    .map_err(|failed| self.failed(failed, batch))?;
                self.complete(out.len(), batch)
            }
            Callee::Native(expr) => batch.iter().try_for_each(|record| {
                out.push(
                    expr.eval(record)
                        .and_then(Compiled::pair)
                        .map_err(|e| self.locate(e, record))?,
                );
                Ok(())
            }),
        }
    }

    /// Foreign only: any number of datums per record.
    pub fn many(
        &self,
        udf: &dyn Udf,
        batch: &[Record],
        out: &mut Vec<Datum>,
        ends: &mut Vec<usize>,
    ) -> Result<()> {
        out.clear();
        ends.clear();
        udf.many(self.args, batch, out, ends)
            .map_err(|failed| self.failed(failed, batch))?;
        self.complete(ends.len(), batch)?;
        self.whole(out.len(), ends)
    }

    /// Foreign only: any number of pairs per record.
    pub fn many_pairs(
        &self,
        udf: &dyn Udf,
        batch: &[Record],
        out: &mut Vec<(Datum, Datum)>,
        ends: &mut Vec<usize>,
    ) -> Result<()> {
        out.clear();
        ends.clear();
        udf.many_pairs(self.args, batch, out, ends)
            .map_err(|failed| self.failed(failed, batch))?;
        self.complete(ends.len(), batch)?;
        self.whole(out.len(), ends)
    }

    /// A topic per record.
    pub fn topics(&self, batch: &[Record], out: &mut Vec<Arc<str>>) -> Result<()> {
        out.clear();
        match &self.callee {
            Callee::Foreign(udf) => {
                udf.topics(batch, &|origin| self.site.topic_of(origin), out)
                    .map_err(|failed| self.failed(failed, batch))?;
                self.complete(out.len(), batch)
            }
            Callee::Native(expr) => batch.iter().try_for_each(|record| {
                let topic = match expr.eval(record) {
                    Ok(Datum::Str(topic)) => Ok(topic.as_str().into()),
                    Ok(other) => Err(Error::user(format!(
                        "a topic's name was expected, but the expression gave {}",
                        other.type_name()
                    ))
                    .hint("give a text for every record: sf.coalesce(..., \"other\")")),
                    Err(e) => Err(e),
                };
                out.push(topic.map_err(|e| self.locate(e, record))?);
                Ok(())
            }),
        }
    }

    /// The partitions of each record's topic that it goes to. `to`: topics, and how many partitions they have.
    pub fn partitions(
        &self,
        batch: &[Record],
        to: &[(Arc<str>, u32)],
        out: &mut Vec<Partitions>,
    ) -> Result<()> {
        out.clear();
        match &self.callee {
            Callee::Foreign(udf) => {
                udf.partitions(batch, to, out)
                    .map_err(|failed| self.failed(failed, batch))?;
                self.complete(out.len(), batch)?;
            }
            Callee::Native(expr) => batch.iter().try_for_each(|record| {
                let number = match expr.eval(record) {
                    Ok(Datum::Null) => Ok(None),
                    Ok(Datum::Int(number)) => {
                        Ok(Some(vec![Partition(i32::try_from(number).unwrap_or(-1))]))
                    }
                    Ok(other) => Err(Error::user(format!(
                        "a partition was expected, but the expression gave {}",
                        other.type_name()
                    ))
                    .hint("give a number, or null to let the key decide")),
                    Err(e) => Err(e),
                };
                out.push(number.map_err(|e| self.locate(e, record))?);
                Ok(())
            })?,
        }
        for ((record, chosen), (topic, count)) in batch.iter().zip(&*out).zip(to) {
            let beyond = chosen.iter().flatten().find(|partition| {
                u32::try_from(partition.0).map_or(true, |number| number >= *count)
            });
            if let Some(partition) = beyond {
                let error = Error::user(format!(
                    "the partitioner chose partition {partition} of the topic {topic}, which has {count}"
                ))
                .hint("give numbers from 0 to partitions - 1, such as hash % partitions");
                return Err(self.locate(error, record));
            }
        }
        Ok(())
    }

    /// Side effects. A native expression has none, but it may fail, and that shows.
    pub fn effect(&self, batch: &[Record]) -> Result<()> {
        match &self.callee {
            Callee::Foreign(udf) => udf
                .effect(self.args, batch)
                .map_err(|failed| self.failed(failed, batch)),
            Callee::Native(expr) => batch.iter().try_for_each(|record| {
                expr.eval(record)
                    .map(drop)
                    .map_err(|e| self.locate(e, record))
            }),
        }
    }

    /// The callable of an aggregation. Expressions know a key and a value, but no aggregate.
    pub fn reducer(&self, operator: &str) -> Result<Arc<dyn Udf>> {
        match &self.callee {
            Callee::Foreign(udf) => Ok(Arc::clone(udf)),
            Callee::Native(expr) => Err(Error::topology(format!(
                "{operator} can't use the expression {}: it would not see the value so far",
                expr.text()
            ))
            .hint("give a function: reduce takes (agg, value), aggregate takes (key, value, agg)")),
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
        self.site.locate_call(error, &record.origin, Some(name))
    }

    fn failed(&self, failed: Failed, batch: &[Record]) -> Error {
        match batch.get(failed.at) {
            Some(record) => self.locate(failed.error, record),
            None => failed.error,
        }
    }

    // What crosses a border is counted: a result too few would give every later record its neighbour's.
    fn complete(&self, results: usize, batch: &[Record]) -> Result<()> {
        if results == batch.len() {
            return Ok(());
        }
        let error = Error::internal(format!(
            "a function gave {results} results for {} records",
            batch.len()
        ));
        Err(batch.first().map_or(
            Error::internal("a function gave results for no records"),
            |first| self.locate(error, first),
        ))
    }

    fn whole(&self, results: usize, ends: &[usize]) -> Result<()> {
        if ends.is_sorted() && ends.last().copied().unwrap_or(0) == results {
            return Ok(());
        }
        Err(Error::internal(format!(
            "a function gave {results} results, but their ends don't add up"
        )))
    }
}
