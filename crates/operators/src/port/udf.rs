//! The port to functions that the engine doesn't own (Python's).
//!
//! Takes whole batches, so that the interpreter is entered once per batch; returns datums. A failure
//! names the position in the batch, so that the record's coordinates can be reported.

use crate::port::failure::Failure;
use arrow_array::RecordBatch;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Datum, Error, Handler, Late, Origin, Partition, Record, Result};

/// The arguments of a function for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Args {
    /// `(value)`.
    Value,
    /// `(key, value)`.
    KeyValue,
}

/// The maximum number of results of one call. Without a bound, a generator that never ends would take
/// all memory.
pub const MAX_RESULTS: usize = 1_000_000;

/// Checks that a call which has returned `given` results may return another one.
///
/// # Errors
/// `User` if it may not.
pub fn check_results(given: usize) -> Result<()> {
    if given < MAX_RESULTS {
        return Ok(());
    }
    Err(Error::user(format!(
        "the function gave more than {MAX_RESULTS} results for one record"
    ))
    .hint(
        "give fewer: a generator must end; what one record stands for can be split over several before it is sent",
    ))
}

/// A call that failed, and its record in the batch.
#[derive(Debug)]
pub struct Failed {
    /// Index into the batch.
    pub at: usize,
    /// Why: `User`, with the function's file and line, and the foreign exception as its cause.
    pub error: Error,
}

/// The cost of a function's calls since the start, in all lanes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of calls, including failed ones.
    pub calls: u64,
    /// Time in the function, and in passing its arguments, including everything that it waited for.
    pub inside: Duration,
    /// Time that it waited for its runtime before it began (Python's GIL).
    pub waiting: Duration,
}

/// The partitions that a partitioner chose for a record: `None` leaves the choice to the key, several
/// send the record to each of them, an empty list to none.
pub type Partitions = Option<Vec<Partition>>;

/// A call for a batch of columns that failed.
#[derive(Debug)]
pub struct FailedBatch {
    /// The row of the batch that caused it; `None`: no particular one.
    pub row: Option<usize>,
    /// Why: `User`, with the foreign exception as its cause.
    pub error: Error,
}

/// A user function. Batch calls append one result per record. A call that fails has appended the results
/// of the records before the one it names: they stay, and the engine may call again for those after it.
/// A form of call that a function doesn't support returns an error.
pub trait Udf: Send + Sync + Debug {
    /// `app.py:12 is_large`, for errors, `describe` and metrics.
    fn name(&self) -> &str;
    /// The cost of its calls so far; `None`: not measured.
    fn cost(&self) -> Option<Cost> {
        None
    }
    /// Predicates.
    ///
    /// # Errors
    /// [`Failed`] if the function raises.
    fn test(&self, args: Args, batch: &[Record], out: &mut Vec<bool>) -> Result<(), Failed> {
        let _unused = (args, batch, out);
        Err(self.cannot("be a predicate"))
    }
    /// One datum per record (`map_values`, `select_key`, `group_by`).
    ///
    /// # Errors
    /// [`Failed`] if the function raises.
    fn one(&self, args: Args, batch: &[Record], out: &mut Vec<Datum>) -> Result<(), Failed> {
        let _unused = (args, batch, out);
        Err(self.cannot("give one value"))
    }
    /// One pair per record (`map`).
    ///
    /// # Errors
    /// [`Failed`] if the function raises or returns no pair.
    fn pair(
        &self,
        args: Args,
        batch: &[Record],
        out: &mut Vec<(Datum, Datum)>,
    ) -> Result<(), Failed> {
        let _unused = (args, batch, out);
        Err(self.cannot("give pairs"))
    }
    /// Any number of datums per record; `ends[i]` is where record `i` ends in `out` (`flat_map_values`).
    ///
    /// # Errors
    /// [`Failed`] if the function raises, or returns text (which would be split into characters).
    fn many(
        &self,
        args: Args,
        batch: &[Record],
        out: &mut Vec<Datum>,
        ends: &mut Vec<usize>,
    ) -> Result<(), Failed> {
        let _unused = (args, batch, out, ends);
        Err(self.cannot("give several values"))
    }
    /// Any number of pairs per record (`flat_map`).
    ///
    /// # Errors
    /// [`Failed`] if the function raises or returns something else.
    fn many_pairs(
        &self,
        args: Args,
        batch: &[Record],
        out: &mut Vec<(Datum, Datum)>,
        ends: &mut Vec<usize>,
    ) -> Result<(), Failed> {
        let _unused = (args, batch, out, ends);
        Err(self.cannot("give several pairs"))
    }
    /// Side effects (`peek`, `foreach`).
    ///
    /// # Errors
    /// [`Failed`] if the function raises.
    fn effect(&self, args: Args, batch: &[Record]) -> Result<(), Failed> {
        let _unused = (args, batch);
        Err(self.cannot("have effects"))
    }
    /// One call for all of a batch, as Arrow columns (`map_batches`); the result may be in several parts.
    ///
    /// # Errors
    /// [`FailedBatch`] if the function raises, or returns no columns.
    fn columns(&self, batch: RecordBatch) -> Result<Vec<RecordBatch>, FailedBatch> {
        drop(batch);
        Err(FailedBatch {
            row: None,
            error: self.cannot("take columns").error,
        })
    }
    /// As [`Self::columns`], for its effects only (`foreach_batch`).
    ///
    /// # Errors
    /// [`FailedBatch`] if the function raises.
    fn columns_effect(&self, batch: RecordBatch) -> Result<(), FailedBatch> {
        drop(batch);
        Err(FailedBatch {
            row: None,
            error: self.cannot("take columns").error,
        })
    }
    /// One call with these arguments (initializers, aggregators `(key, value, agg)`, reducers `(agg,
    /// value)`).
    ///
    /// # Errors
    /// `User` if the function raises.
    fn call(&self, arguments: &[&Datum]) -> Result<Datum> {
        let _unused = arguments;
        Err(self.cannot("be called").error)
    }
    /// Many calls with `arity` arguments each, which follow one another in `arguments`; one result per
    /// call (joiners). `origins`: the records that the calls are for. The interpreter is attached once
    /// for all of them.
    ///
    /// # Errors
    /// [`Failed`], with the index of the call, if the function raises.
    fn calls(
        &self,
        arity: usize,
        origins: &[Origin],
        arguments: &[Datum],
        out: &mut Vec<Datum>,
    ) -> Result<(), Failed> {
        let _unused = origins;
        // If an implementation of `scope` forgets to run the body, calls must not vanish.
        let mut done = Err(Failed {
            at: 0,
            error: Error::internal("a function's scope did not run"),
        });
        self.scope(&mut || {
            done = arguments
                .chunks_exact(arity)
                .enumerate()
                .try_for_each(|(at, call)| {
                    let call: Vec<&Datum> = call.iter().collect();
                    out.push(self.call(&call).map_err(|error| Failed { at, error })?);
                    Ok(())
                });
        });
        done
    }
    /// A topic per record, from `(key, value, context)`; `topic_of` returns the topic that a record was
    /// read from, for the context.
    ///
    /// # Errors
    /// [`Failed`] if the function raises, or returns no text.
    fn topics(
        &self,
        batch: &[Record],
        topic_of: &dyn Fn(&Origin) -> Option<String>,
        out: &mut Vec<Arc<str>>,
    ) -> Result<(), Failed> {
        let _unused = (batch, topic_of, out);
        Err(self.cannot("choose topics"))
    }
    /// Partitions per record, from `(topic, key, value, partitions)`, or from `(topic, headers, key,
    /// value, partitions)`; `to` holds the record's topic and its number of partitions.
    ///
    /// # Errors
    /// [`Failed`] if the function raises, or returns something else.
    fn partitions(
        &self,
        batch: &[Record],
        with_headers: bool,
        to: &[(Arc<str>, u32)],
        out: &mut Vec<Partitions>,
    ) -> Result<(), Failed> {
        let _unused = (batch, with_headers, to, out);
        Err(self.cannot("choose partitions"))
    }
    /// A timestamp per record, from `(record, partition_time)`, for consecutive records of one
    /// partition. `partition_time` is the highest timestamp of the partition before them, -1: none; it
    /// rises with the timestamps that the function returns, except those beyond `latest`. A negative
    /// timestamp drops the record.
    ///
    /// # Errors
    /// [`Failed`] if the function raises, or returns no whole number.
    fn timestamps(
        &self,
        batch: &[Record],
        topic: &str,
        (partition_time, latest): (i64, i64),
        out: &mut Vec<i64>,
    ) -> Result<(), Failed> {
        let _unused = (batch, topic, partition_time, latest, out);
        Err(self.cannot("tell times"))
    }
    /// The watermark of a partition after each of its records, given the watermark before the first one
    /// (`Watermark.custom`); `None`: unchanged.
    ///
    /// # Errors
    /// [`Failed`] if the function raises or returns no number.
    fn watermarks(
        &self,
        batch: &[Record],
        topic: &str,
        current: i64,
        out: &mut Vec<Option<i64>>,
    ) -> Result<(), Failed> {
        let _unused = (batch, topic, current, out);
        Err(self.cannot("tell watermarks"))
    }
    /// What to do with late records, from `(record, watermark)`, for records of one topic in their
    /// order. It must not return another callable.
    ///
    /// # Errors
    /// [`Failed`] if the function raises, or returns something else.
    fn late(
        &self,
        batch: &[Record],
        topic: &str,
        watermark: i64,
        out: &mut Vec<Late>,
    ) -> Result<(), Failed> {
        let _unused = (batch, topic, watermark, out);
        Err(self.cannot("decide about late records"))
    }
    /// What to do with a record that failed, if this is a handler. It must not return another callable.
    ///
    /// # Errors
    /// `User` if it raises, or returns something else.
    fn decide(&self, failure: &Failure<'_>) -> Result<Handler> {
        let _unused = failure;
        Err(self.cannot("decide about errors").error)
    }
    /// The error for a form of call that a function doesn't support.
    #[doc(hidden)]
    fn cannot(&self, what: &str) -> Failed {
        Failed {
            at: 0,
            error: Error::internal(format!("the function {} can't {what}", self.name())),
        }
    }
    /// Runs `body` with the interpreter attached, so that the `call`s inside need not attach it each.
    fn scope(&self, body: &mut dyn FnMut());
}
