//! A stateless operator with an async function: many calls at a time, results in order by key.
//!
//! Takes batches, emits results as calls end. Results of different keys overtake each other, those of
//! one key don't. Records without a key have no order among themselves. Bounded: while twice its
//! concurrency is in flight (over all lanes together), it waits for room, but never for something that
//! only another lane's turn can do. If a barrier has waited too long, records are admitted without room,
//! so that they can be parked; then dispatch reads nothing more until the calls are within the bound
//! again.
//!
//! A barrier waits a little for calls that began in its epoch, unless calls usually take longer than
//! that. Then it parks the rest: it writes the records to a store of its own, in the same epoch. Their
//! calls continue. A result that arrives in a later epoch is emitted in that epoch, which also deletes
//! its row: both or neither. After a restart, with any number of lanes, the calls of all rows are made
//! again, before newer records of their keys. Never emits a record twice, and never waits for a call
//! longer than configured while another lane's barrier waits.

mod call_queue;
mod concurrent_calls;
mod in_flight;
mod oldest_call;
mod overload;
mod parking;
mod tally;
#[cfg(test)]
mod tests;

pub use call_queue::CallQueue;
pub(crate) use concurrent_calls::{ConcurrentCalls, order};
pub use in_flight::CallsInFlight;
pub use oldest_call::OldestCall;
pub(crate) use overload::Overload;
pub use tally::{CallCounts, Tally};

use crate::support::attach_scope::{AttachScope, is_foreign};
use crate::support::error_policy::Outcome;
use crate::support::node_context::NodeContext;
use crate::support::parked_record::Codec;
use crate::{
    Answer, Answered, Args, Arguments, AsyncUdf, Call, Context, FaultInjection, Operator,
    RunCoordinator, Wait,
};
use bytes::Bytes;
use smallvec::smallvec;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Epoch, Error, Record, Result, Serde, StoreId};
use stoatflow_plan::{AsyncSpec, Form};
use tally::Row;

/// How long a wait lasts before checking whether the run has ended.
const WAIT_SLICE: Duration = Duration::from_millis(50);
/// The last call has a weight of one in this many in the moving average of the duration of calls.
const AVERAGE_WINDOW: u32 = 8;

/// Settings of the operator.
#[derive(Debug)]
pub(crate) struct Settings {
    pub form: Form,
    pub args: Args,
    pub awaiting: AsyncSpec,
    pub store: StoreId,
    pub key: Serde,
    pub value: Serde,
    /// True if barriers wait for all calls.
    pub patient: bool,
    pub fault: FaultInjection,
}

/// Calls that may begin, by the pause before them.
type Ready = BTreeMap<Duration, Vec<Call>>;

/// Serialized parts of a record, made before its call.
#[derive(Debug, Default)]
struct Written {
    /// Bytes of its key, which order the calls; `None` for a null key.
    key: Option<Bytes>,
    /// The bytes to park, if the record holds objects: the function may change them, and has to be
    /// called with the original ones after a restart.
    parked: Option<Bytes>,
}

#[derive(Debug)]
struct Entry {
    record: Record,
    written: Written,
    /// Its row in the store, if it is parked.
    row: Option<Row>,
    attempts: u32,
}

/// See the module.
pub(crate) struct AsyncCalls {
    node_context: NodeContext,
    settings: Settings,
    codec: Codec,
    udf: Arc<dyn AsyncUdf>,
    queue: Arc<CallQueue>,
    /// Records whose calls are in flight, by ticket.
    entries: HashMap<u64, Entry>,
    /// Calls that began since the last barrier, in their order.
    fresh: Vec<u64>,
    /// Ticket of the next call.
    next: u64,
    /// Moving average of the duration of calls.
    usual: Duration,
    /// The epoch whose barrier has already waited here.
    waited: Option<Epoch>,
    answers: VecDeque<Answered>,
}

impl fmt::Debug for AsyncCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncCalls")
            .field("udf", &self.udf)
            .field("under_way", &self.entries.len())
            .finish_non_exhaustive()
    }
}

impl AsyncCalls {
    pub fn new(node_context: NodeContext, settings: Settings, udf: Arc<dyn AsyncUdf>) -> Self {
        let in_flight = Arc::clone(udf.in_flight());
        Self {
            queue: CallQueue::new(settings.form, in_flight),
            codec: Codec {
                key: settings.key.clone(),
                value: settings.value.clone(),
                node_context: node_context.clone(),
                who: "an async call",
            },
            node_context,
            settings,
            udf,
            entries: HashMap::new(),
            fresh: Vec::new(),
            next: 0,
            usual: Duration::ZERO,
            waited: None,
            answers: VecDeque::new(),
        }
    }

    /// Registers with the run.
    fn attend(&self, run: &Arc<RunCoordinator>) {
        if self.queue.set_listener(run) {
            run.overload.join(self.udf.in_flight(), self.bound());
        }
    }

    const fn bound(&self) -> usize {
        bound(&self.settings.awaiting)
    }

    /// Serializes a record before its call, so that errors surface now and not when it is parked.
    fn write(&self, record: &Record) -> Result<Written> {
        let parked = is_foreign(record).then(|| self.codec.encode(record));
        Ok(Written {
            parked: parked.transpose()?,
            key: self.codec.key.encode(&record.key)?,
        })
    }

    /// Serializes all records before the calls; leaves out those that handlers leave out.
    fn write_all(
        &self,
        input: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<Vec<(Written, Record)>> {
        let scope = AttachScope::of(&*input);
        let mut records = Vec::with_capacity(input.len());
        let mut left = input.drain(..);
        loop {
            let failed = scope.inside(|| {
                for record in left.by_ref() {
                    match self.write(&record) {
                        Ok(written) => records.push((written, record)),
                        Err(error) => return Some((error, record)),
                    }
                }
                None
            });
            let Some((error, record)) = failed else {
                break;
            };
            let again = |_: &mut Context<'_>| self.write(&record);
            if let Some(written) = self.node_context.rescue(error, &record, context, again)? {
                records.push((written, record));
            }
        }
        drop(left);
        Ok(records)
    }

    /// Starts calls for which room is taken.
    fn begin(&mut self, records: impl Iterator<Item = (Option<Row>, Written, Record)>) {
        let (entries, fresh, next) = (&mut self.entries, &mut self.fresh, &mut self.next);
        let args = self.settings.args;
        let ready = self.queue.submit(records.map(|(row, written, record)| {
            let call = Call {
                ticket: *next,
                arguments: arguments(args, &record),
            };
            *next += 1;
            if row.is_none() {
                fresh.push(call.ticket);
            }
            let key = written.key.clone();
            let entry = Entry {
                record,
                written,
                row,
                attempts: 0,
            };
            entries.insert(call.ticket, entry);
            (key, call)
        }));
        if !ready.is_empty() {
            self.udf.begin(ready, &self.queue);
        }
    }

    /// Emits the results of answered calls.
    fn collect(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.queue.take(&mut self.answers);
        let mut ready = Ready::new();
        while let Some(answered) = self.answers.pop_front() {
            self.emit(answered, &mut ready, out, context)?;
        }
        for (pause, calls) in ready {
            if pause.is_zero() {
                self.udf.begin(calls, &self.queue);
            } else {
                // Without blocking the lane, which has other calls to serve.
                self.udf.begin_later(pause, calls, &self.queue);
            }
        }
        Ok(())
    }

    fn emit(
        &mut self,
        answered: Answered,
        ready: &mut Ready,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let ticket = answered.ticket;
        let Some(mut entry) = self.entries.remove(&ticket) else {
            return Err(Error::internal(
                "an async call was answered that nobody made",
            ));
        };
        self.usual = (self.usual * (AVERAGE_WINDOW - 1) + answered.took) / AVERAGE_WINDOW;
        match answered.result {
            Ok(answer) => {
                self.unpark(&entry, context)?;
                self.make(entry.record, answer, out)
            }
            Err(error) => {
                let name = Some(self.udf.name());
                let error = self
                    .node_context
                    .locate_call(error, &entry.record.origin, name);
                let decided =
                    self.node_context
                        .decide(error, &entry.record, entry.attempts, context)?;
                match decided {
                    (Outcome::Again, pause) => {
                        entry.attempts += 1;
                        let pause = if self.settings.patient {
                            Duration::ZERO
                        } else {
                            pause
                        };
                        ready.entry(pause).or_default().push(Call {
                            ticket,
                            arguments: arguments(self.settings.args, &entry.record),
                        });
                        self.entries.insert(ticket, entry);
                        self.queue.retry(ticket);
                    }
                    (Outcome::Gone, _) => {
                        self.unpark(&entry, context)?;
                        if let Some(next) = self.queue.go_on(ticket) {
                            ready.entry(Duration::ZERO).or_default().push(next);
                        }
                    }
                }
                Ok(())
            }
        }
    }

    fn make(&self, mut record: Record, answer: Answer, out: &mut Vec<Record>) -> Result<()> {
        match (self.settings.form, answer) {
            (Form::Filter, Answer::Verdict(keep)) => out.extend(keep.then_some(record)),
            (Form::FilterNot, Answer::Verdict(drop)) => out.extend((!drop).then_some(record)),
            (Form::Peek, Answer::Done) => out.push(record),
            (Form::Foreach, Answer::Done) => {}
            (Form::MapValues, Answer::One(value)) => {
                record.value = value;
                out.push(record);
            }
            (Form::SelectKey | Form::GroupBy, Answer::One(key)) => {
                record.key = key;
                out.push(record);
            }
            (Form::Map, Answer::Pair(key, value)) => {
                (record.key, record.value) = (key, value);
                out.push(record);
            }
            (Form::FlatMapValues, Answer::Many(values)) => {
                out.extend(values.into_iter().map(|value| record.with_value(value)));
            }
            (Form::FlatMap, Answer::Pairs(pairs)) => {
                out.extend(pairs.into_iter().map(|(k, v)| record.with_pair(k, v)));
            }
            (form, answer) => {
                let method = form.method();
                let error = Error::internal(format!("{method} was answered {answer:?}"));
                return Err(self.node_context.locate(error, &record.origin));
            }
        }
        Ok(())
    }

    /// Waits for calls that began in this epoch, if they can be expected to end in time.
    fn wait(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let run = Arc::clone(context.run);
        if self.settings.patient {
            while !self.entries.is_empty() && !run.has_ended() {
                self.udf.wait(Wait::Answer, &self.queue, WAIT_SLICE);
                self.collect(out, context)?;
            }
            return Ok(());
        }
        if self.waited.replace(context.epoch) == Some(context.epoch) {
            return Ok(());
        }
        let mut left = Duration::from_millis(self.settings.awaiting.park_after_ms);
        if self.usual > left {
            return Ok(());
        }
        while !left.is_zero() && self.queue.fresh() > 0 && !run.has_ended() {
            let slice = left.min(WAIT_SLICE);
            self.udf.wait(Wait::Fresh, &self.queue, slice);
            left -= slice;
        }
        self.collect(out, context)
    }
}

/// Maximum calls in flight over all lanes: the running ones, and as many that are queued.
const fn bound(awaiting: &AsyncSpec) -> usize {
    2 * awaiting.concurrency as usize
}

/// The arguments of the function for a record.
fn arguments(args: Args, record: &Record) -> Arguments {
    let value = record.value.clone();
    match args {
        Args::Value => smallvec![value],
        Args::KeyValue => smallvec![record.key.clone(), value],
    }
}

impl Operator for AsyncCalls {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.attend(context.run);
        let (run, bound) = (Arc::clone(context.run), self.bound());
        let records = self.write_all(input, context)?;
        // Failed calls are handled first: until then they take up no room, and more calls would be
        // admitted than allowed.
        self.collect(out, context)?;
        let mut records = records.into_iter();
        while records.len() > 0 {
            let mut room = self.udf.in_flight().take(records.len(), bound);
            if room == 0 {
                // At the end of a run no one takes the results.
                if !run.has_ended() && !run.is_barrier_late() {
                    self.udf.wait(Wait::Room(bound), &self.queue, WAIT_SLICE);
                    self.collect(out, context)?;
                    continue;
                }
                room = records.len();
                self.udf.in_flight().force(room);
            }
            let taken = records.by_ref().take(room);
            self.begin(taken.map(|(written, record)| (None, written, record)));
        }
        self.collect(out, context)
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        self.attend(context.run);
        self.restore(context)
    }

    fn barrier(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.attend(context.run);
        if self.entries.is_empty() {
            return Ok(());
        }
        self.collect(out, context)?;
        self.wait(out, context)?;
        self.park(context)
    }

    fn close(&mut self) {
        self.queue.close();
        self.udf.cancel(&self.queue);
    }
}

impl Drop for AsyncCalls {
    fn drop(&mut self) {
        if !self.queue.is_closed() {
            self.close();
        }
    }
}
