//! The port to functions that the engine doesn't own (Python's).
//!
//! Takes whole batches, so that the border is crossed once per batch; gives datums. A failure names
//! the position in the batch, so that the record's coordinates can be told.

use crate::port::failure::Failure;
use arrow_array::RecordBatch;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Datum, Error, Handler, Late, Origin, Partition, Record, Result};

/// What a function gets of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Args {
    /// `(value)`.
    Value,
    /// `(key, value)`.
    KeyValue,
}

/// So many results one call of a function may give. Without a bound, one that never stops giving
/// them takes all memory.
pub const MAX_RESULTS: usize = 1_000_000;

/// May a call that has given so many results give another one?
///
/// # Errors
/// `User`.
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

/// A call that failed, and for which record of the batch.
#[derive(Debug)]
pub struct Failed {
    /// Index into the batch.
    pub at: usize,
    /// Why: `User`, with the function's file and line, and the foreign exception as its cause.
    pub error: Error,
}

/// What the calls of a function have cost since the start, in all lanes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Calls; one that failed counts too.
    pub calls: u64,
    /// Time in the function, and in handing it its arguments: whatever it waited for there is in it.
    pub inside: Duration,
    /// Time until its runtime let it begin (Python's GIL).
    pub waiting: Duration,
}

/// The partitions that a partitioner chose for a record: `None` leaves it to the key, several send it to
/// each of them, an empty list to none.
pub type Partitions = Option<Vec<Partition>>;

/// A call for a batch of columns that failed.
#[derive(Debug)]
pub struct FailedBatch {
    /// Because of this row of the batch; `None`: of none in particular.
    pub row: Option<usize>,
    /// Why: `User`, with the foreign exception as its cause.
    pub error: Error,
}

/// A user function. Batch calls append one result per record. One that fails has appended the results of
/// the records before the one it names: they stay, and the engine may call again for those behind it. A form
/// that a function doesn't have answers with an error.
pub trait Udf: Send + Sync + Debug {
    /// `app.py:12 is_large`, for errors, `describe` and metrics.
    fn name(&self) -> &str;
    /// What its calls have cost so far; `None`: not measured.
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
    /// [`Failed`] if the function raises or gives no pair.
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
    /// [`Failed`] if the function raises, or gives text (which would fall apart into characters).
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
    /// [`Failed`] if the function raises or gives something else.
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
    /// One call for all of a batch, as Arrow columns (`map_batches`); the result may come in parts.
    ///
    /// # Errors
    /// [`FailedBatch`] if the function raises, or gives no columns.
    fn columns(&self, batch: RecordBatch) -> Result<Vec<RecordBatch>, FailedBatch> {
        drop(batch);
        Err(FailedBatch {
            row: None,
            error: self.cannot("take columns").error,
        })
    }
    /// The same for its effects (`foreach_batch`).
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
    /// Many calls with `arity` arguments each, which lie one after another in `arguments`; one result per
    /// call (joiners). `origins`: of the records that they are about. The interpreter is attached once for
    /// all of them.
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
        // Should a port ever forget to run the body, calls must not vanish.
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
    /// A topic per record, of `(key, value, context)`; `topic_of` names the topic that a record was read
    /// from, for the context.
    ///
    /// # Errors
    /// [`Failed`] if the function raises, or gives no text.
    fn topics(
        &self,
        batch: &[Record],
        topic_of: &dyn Fn(&Origin) -> Option<String>,
        out: &mut Vec<Arc<str>>,
    ) -> Result<(), Failed> {
        let _unused = (batch, topic_of, out);
        Err(self.cannot("choose topics"))
    }
    /// Partitions per record, of `(topic, key, value, partitions)`; `to` holds the record's topic and how
    /// many partitions that has.
    ///
    /// # Errors
    /// [`Failed`] if the function raises, or gives something else.
    fn partitions(
        &self,
        batch: &[Record],
        to: &[(Arc<str>, u32)],
        out: &mut Vec<Partitions>,
    ) -> Result<(), Failed> {
        let _unused = (batch, to, out);
        Err(self.cannot("choose partitions"))
    }
    /// A time per record, of `(record, partition_time)`, for neighbours of one partition in their order.
    /// `partition_time` is the highest time of the partition before them, -1: none; it rises with the
    /// times that the function gives, but for those beyond `latest`. A negative time drops the record.
    ///
    /// # Errors
    /// [`Failed`] if the function raises, or gives no whole number.
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
    /// The watermark of a partition from each of its records on, given what it is before the first
    /// (`Watermark.custom`); `None`: what it was.
    ///
    /// # Errors
    /// [`Failed`] if the function raises or gives no number.
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
    /// What becomes of late records, of `(record, watermark)`, for records of one topic in their order. It
    /// gives no callable again.
    ///
    /// # Errors
    /// [`Failed`] if the function raises, or gives something else.
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
    /// What to do with a record that failed, if this is a handler. It gives no callable again.
    ///
    /// # Errors
    /// `User` if it raises, or gives something else.
    fn decide(&self, failure: &Failure<'_>) -> Result<Handler> {
        let _unused = failure;
        Err(self.cannot("decide about errors").error)
    }
    /// What a function answers that has no such form.
    #[doc(hidden)]
    fn cannot(&self, what: &str) -> Failed {
        Failed {
            at: 0,
            error: Error::internal(format!("the function {} can't {what}", self.name())),
        }
    }
    /// Runs `body` with the interpreter attached, so that the `call`s inside cost no attach each.
    fn scope(&self, body: &mut dyn FnMut());
}
