//! `map_batches`: collects records, and calls its function with many at a time, as Arrow columns.
//!
//! Takes records, emits the rows that the function returns as records, with the key, timestamp and
//! headers of the record that each row comes from, in their order. Owns the collected records: bounded
//! in rows, bytes and time, and never held beyond the barrier, so that nothing outlives its epoch. If a
//! batch fails, the error is that of a single record if it names a row, else that of all of them. As
//! `foreach_batch` it emits no records, and its rows include topic, partition and offset, so that a
//! function can recognize rows that it is called with again after a crash. Never calls a function
//! without rows.

mod batch;
mod cells;
mod column_builder;
mod columns;
mod foreign;
mod infer;
mod iso8601;
mod layout;
mod read;
mod result;
mod schema_values;
#[cfg(test)]
mod tests;
mod unchanged_columns;
mod waiting;

pub(crate) use batch::{ErrorTexts, FOREACH, OPERATOR, Reader};
pub(crate) use columns::column;
pub(crate) use layout::{Layout, Shape, Shared, VALUE};
pub(crate) use waiting::Waiting;

use crate::support::error_policy::Outcome;
use crate::support::node_context::NodeContext;
use crate::{Context, Failed, FaultInjection, Operator, Udf};
use result::{ResultContext, values};
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result};
use stoatflow_plan::Column;

/// Maximum bytes collected by a lane: long values must not pile up beyond the admission budget.
const MOST_BYTES: usize = 4 << 20;

/// Settings of the operator.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub schema: Option<Vec<Column>>,
    pub max_rows: usize,
    pub max_wait_ms: i64,
    pub by_row: String,
    /// True if the function is called for its side effects (`foreach_batch`).
    pub sink: bool,
    pub fault: FaultInjection,
}

/// Why a batch has no result.
enum BatchError {
    /// These records failed.
    Rows(Vec<Failed>),
    /// All of them failed.
    Whole(Error),
}

/// The index of the input row that each result row comes from, and its value.
type Called = Result<Vec<(usize, Datum)>, BatchError>;

/// See the module.
#[derive(Debug)]
pub(crate) struct MapBatches {
    node_context: NodeContext,
    udf: Arc<dyn Udf>,
    settings: Settings,
    /// Records collected and not yet processed.
    collected: Vec<Record>,
    bytes: usize,
    /// Wall time by which the first of them must be emitted.
    due: Option<i64>,
    /// The columns; created with the first batch, because all lanes share the layout.
    reader: Option<Reader>,
}

impl MapBatches {
    pub fn new(node_context: NodeContext, udf: Arc<dyn Udf>, settings: Settings) -> Self {
        Self {
            node_context,
            udf,
            settings,
            collected: Vec::new(),
            bytes: 0,
            due: None,
            reader: None,
        }
    }

    fn process_all(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        if self.collected.is_empty() {
            return Ok(());
        }
        let mut rows = std::mem::take(&mut self.collected);
        self.bytes = 0;
        self.expect(None, context);
        let done = self.process_records(&mut rows, out, context);
        rows.clear();
        self.collected = rows;
        done
    }

    /// Announces the time by which a barrier is needed.
    fn expect(&mut self, due: Option<i64>, context: &Context<'_>) {
        if self.due != due {
            self.due = due;
            let place = (self.node_context.node, context.assignment.lane);
            context.run.batches.expect(place, due);
        }
    }

    /// Calls the function for these records, until all that are left have their results.
    fn process_records(
        &mut self,
        rows: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let mut attempts = 0;
        // Failures of single records, by row.
        let mut own: Vec<u32> = Vec::new();
        while !rows.is_empty() {
            match self.call(rows, context)? {
                Ok(values) => {
                    place(rows, values, out);
                    return Ok(());
                }
                Err(BatchError::Rows(failed)) => {
                    own.resize(rows.len(), 0);
                    let mut gone = vec![false; rows.len()];
                    for Failed { at, error } in failed {
                        let Some(record) = rows.get(at) else {
                            return Err(self.node_context.name_node(error));
                        };
                        let error = self.locate(error, record);
                        let before = attempts + own[at];
                        match self.node_context.handle(error, record, before, context)? {
                            Outcome::Again => own[at] += 1,
                            Outcome::Gone => gone[at] = true,
                        }
                    }
                    let mut left = gone.iter();
                    rows.retain(|_| left.next() == Some(&false));
                    let mut left = gone.iter();
                    own.retain(|_| left.next() == Some(&false));
                }
                Err(BatchError::Whole(error)) => {
                    let again = self.handle_batch_failure(error, rows, attempts, context)?;
                    attempts += 1;
                    own.clear();
                    if again {
                        continue;
                    }
                    rows.clear();
                }
            }
        }
        Ok(())
    }

    /// A batch failed as a whole: returns whether to call again; otherwise each of its records was given
    /// up.
    fn handle_batch_failure(
        &self,
        error: Error,
        rows: &mut Vec<Record>,
        attempts: u32,
        context: &mut Context<'_>,
    ) -> Result<bool> {
        let (message, next) = (error.message().to_owned(), error.next_step().to_owned());
        let (kind, count) = (error.kind(), rows.len());
        let first = self.locate(error, &rows[0]);
        if self
            .node_context
            .handle(first, &rows[0], attempts, context)?
            == Outcome::Again
        {
            return Ok(true);
        }
        let mut again = Vec::new();
        for record in rows.drain(1..) {
            let error = Error::new(kind, format!("the batch of {count} rows failed: {message}"));
            let error = self.locate(error.hint(next.clone()), &record);
            if self
                .node_context
                .handle(error, &record, attempts, context)?
                == Outcome::Again
            {
                again.push(record);
            }
        }
        // The handler may give up the first record and retry others.
        rows.clear();
        rows.append(&mut again);
        Ok(!rows.is_empty())
    }

    fn locate(&self, error: Error, record: &Record) -> Error {
        let function = error.coordinates().function.clone();
        self.node_context
            .locate_call(error, &record.origin, function.as_deref())
    }

    /// One call: for each row of the result, its value and the input row that it comes from.
    fn call(&mut self, rows: &[Record], context: &Context<'_>) -> Result<Called> {
        let Settings {
            schema,
            max_rows,
            by_row,
            sink,
            ..
        } = &self.settings;
        let sink = *sink;
        let reader = self.reader.get_or_insert_with(|| {
            let waiting = &context.run.batches;
            let shared = waiting.shared(self.node_context.node, || {
                Shared::new(Layout {
                    origins: sink,
                    ..Layout::new(schema.as_deref())
                })
            });
            let error_texts = if sink { &FOREACH } else { &OPERATOR };
            Reader::new(shared, by_row, (*max_rows).min(4096), error_texts)
        });
        let plain = foreign::plain(&*self.udf, rows, reader.has_bytes());
        let read = plain.as_deref().unwrap_or(rows);
        let batch = match reader
            .read(read, Some(&self.node_context))
            .map_err(|e| self.node_context.name_node(e))?
        {
            Ok(batch) => batch,
            Err(failed) => return Ok(Err(BatchError::Rows(failed))),
        };
        let blamed = |error: Error| {
            let name = self.udf.name().to_owned();
            error.at(|at| at.function = Some(name))
        };
        let given = (!sink).then(|| batch.clone());
        let called = if sink {
            self.udf.columns_effect(batch).map(|()| Vec::new())
        } else {
            self.udf.columns(batch)
        };
        let made = match called {
            Ok(_) if sink => return Ok(Ok(Vec::new())),
            Ok(made) => made,
            Err(failed) => {
                let error = blamed(failed.error);
                return Ok(Err(match failed.row {
                    Some(at) => BatchError::Rows(vec![Failed { at, error }]),
                    None => BatchError::Whole(error),
                }));
            }
        };
        let context = ResultContext {
            rows: rows.len(),
            by_row,
            objects: reader.objects(),
            given: given.as_ref(),
        };
        Ok(match values(context, &made) {
            Ok(Ok(values)) => Ok(values),
            Ok(Err(failed)) => Err(BatchError::Rows(
                failed
                    .into_iter()
                    .map(|Failed { at, error }| Failed {
                        at,
                        error: blamed(error),
                    })
                    .collect(),
            )),
            Err(error) => Err(BatchError::Whole(blamed(error))),
        })
    }
}

/// Puts the values into the records that they come from.
fn place(rows: &mut Vec<Record>, values: Vec<(usize, Datum)>, out: &mut Vec<Record>) {
    out.reserve(values.len());
    let mut records = rows.drain(..).enumerate();
    let mut values = values.into_iter().peekable();
    let mut current = records.next();
    while let Some((from, value)) = values.next() {
        // Row indexes never decrease: a record that was passed isn't needed again.
        while current.as_ref().is_some_and(|(at, _)| *at < from) {
            current = records.next();
        }
        let more = values.peek().is_some_and(|(next, _)| *next == from);
        if more {
            out.extend(current.as_ref().map(|(_, record)| record.with_value(value)));
        } else if let Some((_, mut record)) = current.take() {
            record.value = value;
            out.push(record);
            current = records.next();
        }
    }
}

impl Operator for MapBatches {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let now = context.clocks.wall.0;
        for record in input.drain(..) {
            if self.collected.is_empty() {
                self.expect(Some(now.saturating_add(self.settings.max_wait_ms)), context);
            }
            self.bytes += record.weight();
            self.collected.push(record);
            if self.collected.len() >= self.settings.max_rows || self.bytes >= MOST_BYTES {
                self.process_all(out, context)?;
            }
        }
        if self.due.is_some_and(|due| due <= now) {
            self.process_all(out, context)?;
        }
        Ok(())
    }

    fn barrier(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        if self.settings.fault == FaultInjection::BatchesHeldOverBarrier {
            return Ok(());
        }
        self.process_all(out, context)
    }

    fn close(&mut self) {
        self.collected.clear();
    }
}
