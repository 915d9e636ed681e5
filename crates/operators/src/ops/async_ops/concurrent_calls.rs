//! Makes the async calls of one batch and waits for all results (joiners).
//!
//! Takes the arguments of each row, returns the results in the order of the rows. Calls of different
//! keys run concurrently, within the bound for all lanes; those of one key follow one another, and after
//! a failure the others of its key wait until it is decided. The lane waits here, so no call outlives
//! its batch. Never calls twice for a row, unless a handler asks for it.

#[cfg(test)]
mod tests;

use super::call_queue::CallQueue;
use super::{WAIT_SLICE, bound};
use crate::port::async_udf::{Answer, Answered, Arguments, AsyncUdf, Call, Wait};
use crate::support::error_policy::Outcome;
use crate::{FaultInjection, RunCoordinator};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::serde::json_bytes;
use stoatflow_core::{Datum, Error, Result};
use stoatflow_plan::{AsyncSpec, Form};

/// A row: the key that orders its call, and the arguments of the function.
pub(crate) type Row = (Option<Bytes>, Arguments);

/// See the module.
#[derive(Debug)]
pub(crate) struct ConcurrentCalls {
    udf: Arc<dyn AsyncUdf>,
    queue: Arc<CallQueue>,
    bound: usize,
    /// True if calls are repeated without a pause.
    patient: bool,
    /// Ticket of the next batch's first call.
    next: u64,
    fault: FaultInjection,
}

/// A batch while its calls are in flight.
struct Batch {
    rows: Vec<Row>,
    results: Vec<Option<Datum>>,
    attempts: Vec<u32>,
    first: u64,
    /// Number of submitted rows, and of rows that are done.
    begun: usize,
    done: usize,
}

impl ConcurrentCalls {
    pub fn new(
        udf: Arc<dyn AsyncUdf>,
        awaiting: &AsyncSpec,
        patient: bool,
        fault: FaultInjection,
    ) -> Self {
        let in_flight = Arc::clone(udf.in_flight());
        Self {
            // A joiner returns a value, like the function of that method.
            queue: CallQueue::new(Form::MapValues, in_flight),
            bound: bound(awaiting),
            patient,
            next: 0,
            fault,
            udf,
        }
    }

    /// The function, for errors.
    pub fn name(&self) -> &str {
        self.udf.name()
    }

    /// Returns a result for each row, `None` if `decide` gave it up. `decide` gets the row, the error
    /// and the number of earlier failures; it returns what to do, and after which pause.
    pub fn call(
        &mut self,
        rows: Vec<Row>,
        run: &RunCoordinator,
        decide: impl FnMut(usize, Error, u32) -> Result<(Outcome, Duration)>,
    ) -> Result<Vec<Option<Datum>>> {
        self.call_all(rows, run, decide).inspect_err(|_| {
            // Calls still in flight are dropped.
            self.close();
            self.queue = CallQueue::new(self.queue.form, Arc::clone(self.udf.in_flight()));
        })
    }

    fn close(&self) {
        self.queue.close();
        self.udf.cancel(&self.queue);
    }

    fn call_all(
        &mut self,
        rows: Vec<Row>,
        run: &RunCoordinator,
        mut decide: impl FnMut(usize, Error, u32) -> Result<(Outcome, Duration)>,
    ) -> Result<Vec<Option<Datum>>> {
        let count = rows.len();
        let mut batch = Batch {
            results: vec![None; count],
            attempts: vec![0; count],
            first: self.next,
            begun: 0,
            done: 0,
            rows,
        };
        self.next += count as u64;
        let mut answers = VecDeque::new();
        while batch.done < count {
            self.begin(&mut batch);
            self.queue.take(&mut answers);
            if answers.is_empty() {
                if run.has_ended() {
                    return Err(Error::user(
                        "the application stopped while an async joiner was called",
                    )
                    .hint("start it again: nothing of this epoch was committed"));
                }
                let what = if batch.done < batch.begun {
                    Wait::Answer
                } else {
                    Wait::Room(self.bound)
                };
                self.udf.wait(what, &self.queue, WAIT_SLICE);
                // Failures are decided before other calls begin: a retry may need the room again.
                self.queue.take(&mut answers);
            }
            while let Some(answered) = answers.pop_front() {
                self.take(answered, &mut batch, &mut decide)?;
            }
        }
        Ok(batch.results)
    }

    /// Starts as many calls as there is room for.
    fn begin(&self, batch: &mut Batch) {
        let left = batch.rows.len() - batch.begun;
        if left == 0 {
            return;
        }
        let room = self.udf.in_flight().take(left, self.bound);
        if room == 0 {
            return;
        }
        let from = batch.begun;
        batch.begun += room;
        let (first, rows) = (batch.first + from as u64, &batch.rows[from..batch.begun]);
        let calls = (first..).zip(rows).map(|(ticket, (key, arguments))| {
            let arguments = arguments.clone();
            (key.clone(), Call { ticket, arguments })
        });
        let ready = self.queue.submit(calls);
        if !ready.is_empty() {
            self.udf.begin(ready, &self.queue);
        }
    }

    fn take(
        &self,
        answered: Answered,
        batch: &mut Batch,
        decide: &mut impl FnMut(usize, Error, u32) -> Result<(Outcome, Duration)>,
    ) -> Result<()> {
        let ticket = answered.ticket;
        let row = ticket.checked_sub(batch.first);
        let row = row.and_then(|row| usize::try_from(row).ok());
        let Some(row) = row.filter(|row| *row < batch.rows.len()) else {
            return Err(Error::internal("a joiner was answered that nobody called"));
        };
        let (ready, pause) = match answered.result {
            Ok(Answer::One(value)) => {
                let row = match self.fault {
                    FaultInjection::JoinedInAnswerOrder => batch.done,
                    _ => row,
                };
                batch.results[row] = Some(value);
                batch.done += 1;
                (None, Duration::ZERO)
            }
            Ok(other) => {
                return Err(Error::internal(format!("a joiner was answered {other:?}")));
            }
            Err(error) => match decide(row, error, batch.attempts[row])? {
                (Outcome::Again, pause) => {
                    batch.attempts[row] += 1;
                    self.queue.retry(ticket);
                    let arguments = batch.rows[row].1.clone();
                    (Some(Call { ticket, arguments }), pause)
                }
                (Outcome::Gone, _) => {
                    batch.done += 1;
                    (self.queue.go_on(ticket), Duration::ZERO)
                }
            },
        };
        match ready {
            None => {}
            Some(call) if pause.is_zero() || self.patient => {
                self.udf.begin(vec![call], &self.queue)
            }
            // Other keys continue meanwhile.
            Some(call) => self.udf.begin_later(pause, vec![call], &self.queue),
        }
        Ok(())
    }
}

impl Drop for ConcurrentCalls {
    fn drop(&mut self) {
        self.close();
    }
}

/// Bytes of a key, which order its calls. All foreign keys without a JSON form share one order, because
/// their serde is not known here.
pub(crate) fn order(key: &Datum) -> Option<Bytes> {
    match key {
        Datum::Null => None,
        Datum::Bytes(bytes) => Some(bytes.clone()),
        // All windows of a key share its order.
        Datum::Windowed(windowed) => order(&windowed.key),
        key => Some(json_bytes(key).unwrap_or_default()),
    }
}
