//! Shared code of `reduce` and `aggregate`, of streams and of tables: folds a batch into its keys'
//! values.
//!
//! Takes a batch and [`FoldFunction`] (value so far and record → value), emits updates. Loads the batch's
//! entries before attaching the interpreter, attaches it once, and writes afterwards.
//!
//! Guarantees that a forwarded value doesn't change any more. The next step may change a foreign value
//! in place (`agg.append(x); return agg`) while the update that carries it still waits to be processed
//! downstream. So before a key's value is passed to a second step of the batch, the update of the first
//! step gets a copy, made with the store's serde; if updates leave the lane, every update gets a copy.
//! If children need the old value, it is copied before the step.

#[cfg(test)]
mod tests;

use crate::ops::aggregates::working_set::WorkingSet;
use crate::support::table_writer::{Before, TableWriter, Update};
use crate::{Context, Operator, Udf};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};
use stoatflow_state::Stored;

/// How values are combined.
pub(crate) trait FoldFunction: Send {
    /// The function whose interpreter is attached once for all steps of a batch.
    fn attach(&self) -> Option<Arc<dyn Udf>>;

    /// Initial value of a new key, and the old value of its first update; `None`: a key starts without one.
    fn start(&mut self, record: &Record) -> Result<Option<Datum>> {
        let _unused = record;
        Ok(None)
    }

    /// Computes the new value from the value so far (`None` for a new key) and a record; null deletes.
    fn step(&mut self, so_far: Option<Datum>, record: &Record) -> Result<Datum>;
}

/// An aggregation without windows.
#[derive(Debug)]
pub(crate) struct FoldAggregate<S> {
    fold: Fold,
    function: S,
}

impl<S: FoldFunction> FoldAggregate<S> {
    pub fn of(fold: Fold, function: S) -> Self {
        Self { fold, function }
    }
}

impl<S: FoldFunction> Operator for FoldAggregate<S> {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let Fold {
            writer, working, ..
        } = &mut self.fold;
        if writer.is_versioned() {
            return fold_versions(writer, &mut self.function, input, out, context);
        }
        working.load(writer, input, context)?;
        if input.is_empty() {
            return Ok(());
        }
        self.compute(input, out, context)?;
        let Fold {
            writer, working, ..
        } = &mut self.fold;
        working.store(writer, context)
    }

    fn barrier(&mut self, out: &mut Vec<Record>, _context: &mut Context<'_>) -> Result<()> {
        self.fold.writer.barrier(out);
        Ok(())
    }
}

impl<S: FoldFunction> FoldAggregate<S> {
    fn compute(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let Self { fold, function } = self;
        match function.attach() {
            None => fold.compute(input, out, function, context),
            Some(udf) => {
                // If an implementation of the port ever fails to run the body, records must not be lost
                // silently.
                let mut done = Err(Error::internal("a function's scope did not run"));
                udf.scope(&mut || done = fold.compute(input, out, function, context));
                done
            }
        }
    }
}

/// Folds record by record into a versioned store: each result is a version, so none may be left out.
pub(crate) fn fold_versions(
    writer: &mut TableWriter,
    function: &mut impl FoldFunction,
    input: &mut Vec<Record>,
    out: &mut Vec<Record>,
    context: &mut Context<'_>,
) -> Result<()> {
    for mut record in input.drain(..) {
        if !writer.admits(&record, context) {
            continue;
        }
        let kept = writer.latest(&record, context)?;
        if let Some(kept) = &kept {
            record.timestamp = record.timestamp.max(kept.timestamp);
        }
        let before = match kept {
            Some(kept) => Some(kept.value),
            None => {
                let start = |_: &mut Context<'_>| function.start(&record);
                match writer.node_context.attempt(&record, context, start)? {
                    Some(start) => start,
                    None => continue,
                }
            }
        };
        // The step may change its argument in place; the old version must not change.
        let step = |_: &mut Context<'_>| {
            let so_far = before
                .as_ref()
                .map(|value| writer.mutable_copy(value, &record));
            let new = function.step(so_far.transpose()?, &record)?;
            writer.check(&new)?;
            Ok(new)
        };
        let Some(new) = writer.node_context.attempt(&record, context, step)? else {
            continue;
        };
        let before = Before::Given(before.unwrap_or_default());
        writer.keep(record, new, before, out, context)?;
    }
    Ok(())
}

/// A fold at its place in the topology.
#[derive(Debug)]
pub(crate) struct Fold {
    pub writer: TableWriter,
    working: WorkingSet,
    /// True if updates leave the lane before they are encoded.
    leaves_lane: bool,
}

impl Fold {
    pub fn new(writer: TableWriter, leaves_lane: bool) -> Self {
        Self {
            writer,
            working: WorkingSet::default(),
            leaves_lane,
        }
    }

    fn compute<S: FoldFunction>(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        function: &mut S,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let lenient = self.writer.node_context.is_lenient();
        for (at, record) in input.drain(..).enumerate() {
            let entry = self.working.entry(at);
            if let Some(earlier) = entry.passed_on.take() {
                self.writer.freeze(&mut out[earlier])?;
            }
            // If the function fails, the value of the key must stay as it was, so the function gets a
            // copy.
            let old = if lenient {
                entry.current.clone()
            } else {
                entry.current.take()
            };
            let old = old.filter(|old| !old.value.is_null());
            let timestamp = old
                .as_ref()
                .map_or(record.timestamp, |old| record.timestamp.max(old.timestamp));
            let existed = old.is_some();
            let writer = &self.writer;
            let mut one = |old: Option<Datum>| {
                let so_far = match old {
                    Some(old) => Some(old),
                    None => function.start(&record)?,
                };
                let before = match &so_far {
                    Some(before) if writer.sends_old() => writer.mutable_copy(before, &record)?,
                    _ => Datum::Null,
                };
                Ok((before, function.step(so_far, &record)?))
            };
            let old = old.map(|old| old.value);
            let stepped = if lenient {
                let again = |_: &mut Context<'_>| {
                    let old = old.as_ref().map(|old| writer.mutable_copy(old, &record));
                    let (before, value) = one(old.transpose()?)?;
                    writer.check(&value)?;
                    Ok((before, value))
                };
                writer.node_context.attempt(&record, context, again)?
            } else {
                Some(one(old)?)
            };
            let Some((before, value)) = stepped else {
                continue;
            };
            entry.changed = true;
            // A tombstone in the changelog has the timestamp of the record that caused it, as in Kafka
            // Streams.
            let stored_at = if value.is_null() {
                record.timestamp
            } else {
                timestamp
            };
            entry.current = Some(Stored {
                value: value.clone(),
                timestamp: stored_at,
            });
            let update = Update {
                existed,
                value: self.writer.update(existed, before, value),
                timestamp,
            };
            self.writer.forward(&entry.key, record, update, out);
            if self.writer.is_cached() {
                continue;
            }
            if self.leaves_lane {
                let last = out.len() - 1;
                self.writer.freeze(&mut out[last])?;
            } else {
                entry.passed_on = Some(out.len() - 1);
            }
        }
        Ok(())
    }
}
