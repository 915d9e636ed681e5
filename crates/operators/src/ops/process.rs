//! `process`, `process_values`, `add_processor`: runs a user's processor, one instance per lane.
//!
//! Takes batches, emits the records that the processor forwards, with a route if it has several
//! children. Owns the instance; state lives in stores. Punctuations run in the first lane, while all
//! lanes stand still: stream-time schedules for each task over its keys, wall-clock schedules over all
//! keys. Due timers are found at that cut too; they fire after it, each in the lane of its key. Never
//! calls a processor outside of `open`, `process`, `punctuate`, `advance` and `close`.

mod expiry_timers;
mod host;
mod key_task_rows;
pub(crate) mod key_tasks;
mod processor_env;
mod task_scans;
#[cfg(test)]
mod tests;
pub(crate) mod timers;

pub(crate) use expiry_timers::{ExpiryTimers, StoreExpiry, TABLE, TIMERS};
pub(crate) use host::Host;
pub(crate) use processor_env::{Connected, ProcessorEnv, expires_at};
use task_scans::TaskScans;
use timers::Due;
pub(crate) use timers::LaneTimers;

use crate::support::error_policy::{Handled, header};
use crate::support::node_context::NodeContext;
use crate::{
    Context, LaneStore, NO_ORIGIN, Operator, Processor, ProcessorSupplier, Punctuation, Role,
    RunCoordinator, Timer,
};
use std::fmt;
use std::sync::Arc;
use stoatflow_core::{Datum, Error, Record, Result, Task, Timestamp};
use stoatflow_state::{TimerView, split_timer, timer_key};

/// See the module.
pub(crate) struct Process {
    env: ProcessorEnv,
    supplier: Arc<dyn ProcessorSupplier>,
    role: Role,
    processor: Option<Box<dyn Processor>>,
    run: Arc<RunCoordinator>,
    /// Present if it is connected to timer stores.
    timers: Option<LaneTimers>,
    /// By index of its stores: the expiry of rows, if they have a ttl.
    expiries: Vec<Option<StoreExpiry>>,
    /// Scans of stores while schedules run.
    scans: TaskScans,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("supplier", &self.supplier)
            .finish_non_exhaustive()
    }
}

impl Process {
    pub fn new(env: ProcessorEnv, supplier: Arc<dyn ProcessorSupplier>, role: Role) -> Self {
        Self {
            env,
            supplier,
            role,
            processor: None,
            run: Arc::default(),
            timers: None,
            expiries: Vec::new(),
            scans: TaskScans::default(),
        }
    }

    /// Adds the expiry of its stores' rows, by index of the store.
    pub fn with_expiries(self, expiries: Vec<Option<StoreExpiry>>) -> Self {
        Self { expiries, ..self }
    }

    /// A transformer's results, one per record, with one attach for all. Nothing may be forwarded. If
    /// there are fewer results than records, a record was left out and the transformer wasn't called for
    /// those after it.
    pub fn transform(
        &mut self,
        asked: &[Record],
        results: &mut Vec<Datum>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.opened(context)?;
        let Some(processor) = self.processor.as_mut() else {
            return Ok(());
        };
        let (env, supplier) = (&self.env, &self.supplier);
        let mut lost = false;
        // If an implementation of the port ever fails to run the body, updates must not be lost
        // silently.
        let mut done = Err(Error::internal("a transformer's scope did not run"));
        supplier.scope(&mut || {
            done = asked.iter().try_for_each(|record| {
                let transform = |context: &mut Context<'_>| {
                    let made = processor.transform(record, &mut Host::new(env, context, None));
                    made.map_err(|e| env.locate(e, &record.origin, supplier.name()))
                };
                if lost {
                    return Ok(());
                }
                match env.node_context.attempt(record, context, transform)? {
                    Some(made) => results.push(made),
                    None => lost = true,
                }
                Ok(())
            });
        });
        done
    }

    /// Whether records that fail may be left out.
    pub fn is_lenient(&self) -> bool {
        self.env.node_context.is_lenient()
    }

    /// The instance; created by the first call.
    fn opened(&mut self, context: &mut Context<'_>) -> Result<&mut dyn Processor> {
        if self.processor.is_none() {
            self.run = Arc::clone(context.run);
            self.env.watch_keys(context)?;
            self.timers = LaneTimers::open(&self.env, context)?;
            for expiry in self.expiries.iter_mut().flatten() {
                expiry.open(context)?;
            }
            let (timers, expiries) = (self.timers.as_mut(), &mut self.expiries);
            let made = self.supplier.create(self.role).and_then(|mut made| {
                let host = Host::for_init(&self.env, context);
                made.init(&mut host.with_timers(timers).with_expiries(expiries))?;
                Ok(made)
            });
            let name = self.supplier.name();
            let made = made.map_err(|e| self.env.locate(e, &NO_ORIGIN, name))?;
            self.processor = Some(made);
        }
        Ok(self
            .processor
            .as_mut()
            .expect("it was made above if it was not there")
            .as_mut())
    }
}

impl Process {
    /// Processes record by record, so that records forwarded by a call that fails can be removed. What
    /// it wrote to stores stays, as in Kafka Streams.
    fn process_singly(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let Some(processor) = self.processor.as_mut() else {
            return Ok(());
        };
        let (env, supplier, timers) = (&self.env, &self.supplier, &mut self.timers);
        let expiries = &mut self.expiries;
        // If an implementation of the port ever fails to run the body, records must not be lost
        // silently.
        let mut done = Err(Error::internal("a processor's scope did not run"));
        supplier.scope(&mut || {
            done = input.drain(..).try_for_each(|record| {
                let act = |context: &mut Context<'_>, out: &mut Vec<Record>| {
                    let host = Host::new(env, context, Some(out)).with_timers(timers.as_mut());
                    let mut host = host.with_expiries(expiries);
                    processor
                        .process(std::slice::from_ref(&record), &mut host)
                        .map_err(|f| env.locate(f.error, &record.origin, supplier.name()))
                };
                undoing(&env.node_context, &record, out, context, act)
            });
        });
        done
    }
}

impl Process {
    /// Fires the timers that the cut has assigned to this lane, in order, with one attach for all.
    fn fire(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let (Some(timers), Some(processor)) = (&mut self.timers, &mut self.processor) else {
            return Ok(());
        };
        if !timers.begin(context) {
            return Ok(());
        }
        let (env, supplier, expiries) = (&self.env, &self.supplier, &mut self.expiries);
        // If an implementation of the port ever fails to run the body, timers must not be lost silently.
        let mut done = Err(Error::internal("a timer's scope did not run"));
        supplier.scope(&mut || {
            done = (|| {
                while let Some(due) = timers.next() {
                    let at = timers.store(&due);
                    let store = &env.stores[at];
                    let (epoch, wall) = (context.epoch, context.clocks.wall);
                    let LaneStore { store: kept, dirty } = context.store(store.id);
                    // Removed before the call, which may register the same timer again.
                    TimerView::new(kept, epoch)?.remove(dirty, &due.row, wall)?;
                    let parts = split_timer(&due.row);
                    let parts = parts.ok_or_else(|| Error::internal("a timer's row is none"))?;
                    let timer = Timer {
                        store: &store.name,
                        key: store.key_of(timer_key(&due.row))?,
                        at: parts.at,
                        domain: parts.domain,
                    };
                    // No record caused it: error handlers get an empty record with the timer's key and
                    // time.
                    let placeholder = Record {
                        origin: NO_ORIGIN,
                        key: timer.key.clone(),
                        timestamp: Timestamp(timer.at.max(0)),
                        ..Record::default()
                    };
                    let act = |context: &mut Context<'_>, out: &mut Vec<Record>| {
                        let now = context.clocks.task_time(env.clock, env.time, due.task);
                        let host = Host::new(env, context, Some(out)).at_timer(due.task, now);
                        let host = host.with_timers(Some(&mut *timers));
                        let mut host = host.with_expiries(expiries);
                        processor
                            .on_timer(&timer, &mut host)
                            .map_err(|e| env.locate(e, &NO_ORIGIN, supplier.name()))
                    };
                    let before = context.effects.handled.len();
                    undoing(&env.node_context, &placeholder, out, context, act)?;
                    name_key(&mut context.effects.handled[before..], &due);
                }
                Ok(())
            })();
        });
        timers.end(context.epoch);
        done
    }
}

impl Process {
    /// Runs due schedules: those of a task, over its keys, or over all keys.
    fn run_schedules(
        &mut self,
        kind: Punctuation,
        (task, now): (Option<Task>, i64),
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let node = self.env.node_context.node;
        while let Some(punctuator) = self.run.due(node, kind, (task, now)) {
            if kind == Punctuation::StreamTime && task.is_none() {
                self.env
                    .scattered()
                    .for_each(|store| self.run.note_store_without_tasks(store));
            }
            let forwards = self.role != Role::TransformValues;
            // No record caused it: error handlers get an empty record with the current time.
            let placeholder = Record {
                origin: NO_ORIGIN,
                timestamp: Timestamp(now),
                ..Record::default()
            };
            let act = |context: &mut Context<'_>, out: &mut Vec<Record>| {
                let host = Host::new(&self.env, context, forwards.then_some(out));
                let mut host = match kind {
                    Punctuation::StreamTime => host.within(task, now, &mut self.scans),
                    Punctuation::WallClock => host,
                }
                .with_timers(self.timers.as_mut())
                .with_expiries(&mut self.expiries);
                punctuator
                    .punctuate(now, &mut host)
                    .map_err(|e| self.env.locate(e, &NO_ORIGIN, self.supplier.name()))
            };
            undoing(&self.env.node_context, &placeholder, out, context, act)?;
        }
        Ok(())
    }
}

/// Adds the timer's key to its dead letters. A dead letter contains an input record; a timer has none,
/// so the key would be missing.
fn name_key(handled: &mut [Handled], due: &Due) {
    for letter in handled.iter_mut().filter_map(|one| one.letter.as_mut()) {
        letter.headers.push(header("key", timer_key(&due.row)));
    }
}

/// Attempts something that forwards records; those of a failed attempt are removed.
fn undoing(
    node_context: &NodeContext,
    record: &Record,
    out: &mut Vec<Record>,
    context: &mut Context<'_>,
    mut act: impl FnMut(&mut Context<'_>, &mut Vec<Record>) -> Result<()>,
) -> Result<()> {
    let before = (out.len(), context.effects.routes.len());
    node_context
        .attempt(record, context, |context| {
            act(context, out).inspect_err(|_| {
                out.truncate(before.0);
                context.effects.routes.truncate(before.1);
            })
        })
        .map(drop)
}

impl Operator for Process {
    fn process(
        &mut self,
        input: &mut Vec<Record>,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.opened(context)?;
        let Some(processor) = self.processor.as_mut() else {
            return Ok(());
        };
        if self.env.node_context.is_lenient() {
            return self.process_singly(input, out, context);
        }
        let host = Host::new(&self.env, context, Some(out)).with_timers(self.timers.as_mut());
        let mut host = host.with_expiries(&mut self.expiries);
        processor.process(input, &mut host).map_err(|failed| {
            let origin = input.get(failed.at).map_or(NO_ORIGIN, |r| r.origin);
            self.env.locate(failed.error, &origin, self.supplier.name())
        })?;
        input.clear();
        Ok(())
    }

    fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        self.opened(context).map(|_| ())
    }

    fn routes(&self) -> bool {
        self.env.children.len() > 1
    }

    fn punctuate(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.opened(context)?;
        for (task, now) in self.env.times(context.clocks) {
            if now >= 0 {
                self.run_schedules(Punctuation::StreamTime, (task, now), out, context)?;
                self.env.set_mark(task, now, context);
            }
        }
        self.scans.clear();
        let wall = context.clocks.wall.0;
        self.run_schedules(Punctuation::WallClock, (None, wall), out, context)?;
        if let Some(timers) = &self.timers {
            timers.cut(&self.env, context)?;
            if context.clocks.is_alone() && context.clocks.moves_with_records() {
                return self.fire(out, context);
            }
        }
        Ok(())
    }

    fn advance(&mut self, out: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        self.fire(out, context)
    }

    fn next_punctuation(&self) -> Option<i64> {
        self.run.next_wall(self.env.node_context.node)
    }

    fn close(&mut self) {
        if let Some(mut processor) = self.processor.take() {
            processor.close();
        }
    }
}
