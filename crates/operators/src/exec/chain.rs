//! One stage for one lane: its operators, in an order in which parents come before children.
//!
//! Takes batches at an entry, gives effects (outputs, routed records, drops) through the context. Owns
//! the operators, the buffers between them (reused: a steady stream of batches allocates nothing here)
//! and a counter per node. A chain that has returned an error is in the middle of a batch: discard it
//! together with its epoch. Never waits, never knows a lane's number.

#[cfg(test)]
mod tests;

use crate::ops::joins::foreign_key::epoch_rows::LeftRows;
use crate::support::function::batch_or_single_records;
use crate::{
    ActiveNode, Context, FaultInjection, Operator, PartitionCounts, ProcessorSupplier, Udf,
};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use stoatflow_core::{ClockId, Error, NodeId, Record, Result};
use stoatflow_plan::Delivery;

/// How a chain is built.
#[derive(Clone, Debug, Default)]
pub struct ChainOptions {
    /// Record caching (`statestore.cache.max.bytes` above 0): tables forward one update per key and
    /// epoch.
    pub cached: bool,
    /// `emit.mode = barrier`: joins of tables without a store do so too.
    pub at_barrier: bool,
    /// Partition counts of topics, for sinks with a partitioner.
    pub partitions: Option<Arc<dyn PartitionCounts>>,
    /// The largest record that the producer sends, if known; checked before a record is parked.
    pub largest: Option<usize>,
    /// By node: for an exchange that replaces a topic of Kafka Streams, the number of partitions of that
    /// topic.
    pub tasks: Arc<[Option<u16>]>,
    /// By node: for a node whose lanes hold whole tasks, and for exchanges to it, the number of tasks
    /// (see [`crate::KeyAssignment`]).
    pub by_task: Arc<[Option<u16>]>,
    /// State of foreign-key joins that the stages of a lane share.
    pub left_rows: LeftRows,
    /// Where the lane shows which node it is running.
    pub active: Arc<ActiveNode>,
    /// Anything but [`FaultInjection::None`] is a test of the tests.
    pub fault: FaultInjection,
}

impl ChainOptions {
    /// The options for another lane.
    #[must_use]
    pub fn for_lane(&self) -> Self {
        Self {
            left_rows: LeftRows::default(),
            ..self.clone()
        }
    }
}

// Larger buffers are shrunk: one line of a million words must not pin its memory.
const KEEP_RECORDS: usize = 16 * 1024;

/// Attaches an interpreter while a body runs.
#[derive(Clone)]
pub(super) enum Scope {
    Udf(Arc<dyn Udf>),
    Processor(Arc<dyn ProcessorSupplier>),
}

impl Scope {
    fn run(&self, mut body: impl FnMut() -> Result<()>) -> Result<()> {
        let mut done = Err(Error::internal("a function's scope did not run"));
        match self {
            Self::Udf(udf) => udf.scope(&mut || done = body()),
            Self::Processor(supplier) => supplier.scope(&mut || done = body()),
        }
        done
    }
}

pub(super) struct Step {
    pub(super) operator: Box<dyn Operator>,
    pub(super) children: SmallVec<[usize; 2]>,
    pub(super) fork: Delivery,
    /// Set where records go one by one to functions below: the interpreter is attached once for all of
    /// them, not once for each (with several lanes each record would have to queue for it).
    pub(super) scope: Option<Scope>,
    /// True if it writes a store that a node below reads: each record goes all the way down before the
    /// next one, so that the node below sees what the store held at that record.
    pub(super) single: bool,
    /// Clocks that follow the watermark from this step on: no later step uses them.
    pub(super) clocks: SmallVec<[ClockId; 1]>,
    /// The number of tasks, if its lanes hold whole tasks. See [`crate::KeyAssignment`].
    pub(super) by_task: Option<u16>,
    pub(super) opened: bool,
    /// The operator's output.
    pub(super) out: Vec<Record>,
    /// Copies for one child when there are several.
    pub(super) share: Vec<Record>,
}

/// See the module.
pub struct Chain {
    pub(super) steps: Vec<Step>,
    pub(super) counts: Vec<(NodeId, u64)>,
    pub(super) active: Arc<ActiveNode>,
    /// Index of a node in `steps`, by its number.
    pub(super) places: Vec<Option<usize>>,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain")
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl Chain {
    /// Runs a batch from `entry` down to the ends of the stage; leaves `batch` empty, with its buffer.
    ///
    /// # Errors
    /// Errors of operators; `Internal` if `entry` is no node of this stage.
    pub fn push(
        &mut self,
        entry: NodeId,
        batch: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let Some(at) = self.place(entry) else {
            return Err(Error::internal(format!(
                "node {entry} is not in this stage"
            )));
        };
        if batch.is_empty() {
            return Ok(());
        }
        self.run(at, batch, context)
    }

    /// Ends the epoch: held-back records go down, parents first, so that what a parent releases is in
    /// its children's tables before they release theirs.
    ///
    /// # Errors
    /// Errors of operators.
    pub fn barrier(&mut self, context: &mut Context<'_>) -> Result<()> {
        self.sweep(context, |operator, out, context| {
            operator.barrier(out, context)
        })
    }

    /// Whether it has operators that hold back records that need not wait for the barrier.
    #[must_use]
    pub fn buffers(&self) -> bool {
        self.steps.iter().any(|step| step.operator.buffers())
    }

    /// Called when no input waits for the lane: records held back only because more might come go to
    /// other lanes.
    pub fn on_idle(&mut self, context: &mut Context<'_>) {
        for step in &mut self.steps {
            step.operator.on_idle(context);
        }
    }

    /// Call when stores are restored: operators that are not open yet load what they keep in memory.
    ///
    /// # Errors
    /// Errors of operators.
    pub fn open(&mut self, context: &mut Context<'_>) -> Result<()> {
        (0..self.steps.len()).try_for_each(|at| self.open_step(at, context))
    }

    /// As [`Self::open`], only for `entry` and what is below it: other nodes are opened when its data is
    /// loaded.
    ///
    /// # Errors
    /// Errors of operators.
    pub fn open_below(&mut self, entry: NodeId, context: &mut Context<'_>) -> Result<()> {
        let mut next: Vec<usize> = self.place(entry).into_iter().collect();
        while let Some(at) = next.pop() {
            self.open_step(at, context)?;
            next.extend(&self.steps[at].children);
        }
        Ok(())
    }

    fn open_step(&mut self, at: usize, context: &mut Context<'_>) -> Result<()> {
        let step = &mut self.steps[at];
        if std::mem::replace(&mut step.opened, true) {
            return Ok(());
        }
        context.assignment.by_task = step.by_task;
        step.operator.open(context)
    }

    fn place(&self, node: NodeId) -> Option<usize> {
        self.places.get(node.0 as usize).copied().flatten()
    }

    /// Runs the punctuations that are due (for one lane only, while the others stand still). Operators
    /// that are not open yet have none.
    ///
    /// # Errors
    /// Errors of operators.
    pub fn punctuate(&mut self, context: &mut Context<'_>) -> Result<()> {
        for at in 0..self.steps.len() {
            if self.steps[at].opened {
                self.turn(at, context, &mut |operator, out, context| {
                    operator.punctuate(out, context)
                })?;
            }
        }
        Ok(())
    }

    /// Emits what records of other lanes have made due in this tick, parents first.
    ///
    /// # Errors
    /// Errors of operators.
    pub fn end_tick(&mut self, context: &mut Context<'_>) -> Result<()> {
        self.sweep(context, |operator, out, context| {
            operator.end_tick(out, context)
        })
    }

    /// Emits what is due by the merged clocks, parents first. Clocks that follow the watermark are
    /// raised just before their operator's turn: what its parents emit by the same watermark is not late
    /// yet.
    ///
    /// # Errors
    /// Errors of operators.
    pub fn advance(&mut self, context: &mut Context<'_>) -> Result<()> {
        for at in 0..self.steps.len() {
            // An operator that is not open yet doesn't know what waits to be emitted, and must not mark
            // it as emitted.
            if context.clocks.by_watermark && !self.steps[at].opened {
                continue;
            }
            for clock in &self.steps[at].clocks {
                context.clocks.follow(*clock);
            }
            self.turn(at, context, &mut |operator, out, context| {
                operator.advance(out, context)
            })?;
        }
        Ok(())
    }

    /// The earliest wall time at which a punctuation is due, if any waits for one.
    #[must_use]
    pub fn next_punctuation(&self) -> Option<i64> {
        let asked = self.steps.iter().filter(|s| s.opened);
        asked.filter_map(|s| s.operator.next_punctuation()).min()
    }

    /// Closes all operators, and with them the processors.
    pub fn close(&mut self) {
        for step in &mut self.steps {
            step.operator.close();
        }
    }

    fn sweep(
        &mut self,
        context: &mut Context<'_>,
        mut turn: impl FnMut(&mut dyn Operator, &mut Vec<Record>, &mut Context<'_>) -> Result<()>,
    ) -> Result<()> {
        (0..self.steps.len()).try_for_each(|at| self.turn(at, context, &mut turn))
    }

    fn turn(
        &mut self,
        at: usize,
        context: &mut Context<'_>,
        turn: &mut impl FnMut(&mut dyn Operator, &mut Vec<Record>, &mut Context<'_>) -> Result<()>,
    ) -> Result<()> {
        let step = &mut self.steps[at];
        let mut out = std::mem::take(&mut step.out);
        context.assignment.by_task = step.by_task;
        self.active.enter(self.counts[at].0);
        turn(step.operator.as_mut(), &mut out, context)?;
        self.give(at, out, context)
    }

    /// The number of records that each node has received since the chain was built.
    #[must_use]
    pub fn counts(&self) -> &[(NodeId, u64)] {
        &self.counts
    }

    fn run(&mut self, at: usize, input: &mut Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        if self.steps[at].single && input.len() > 1 {
            // It may wait for the interpreter before the first record.
            self.active.enter(self.counts[at].0);
            return match self.steps[at].scope.clone() {
                None => self.run_singly(at, input, context),
                Some(scope) => scope.run(|| self.run_singly(at, input, context)),
            };
        }
        self.run_batch(at, input, context)
    }

    fn run_singly(
        &mut self,
        at: usize,
        input: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        batch_or_single_records(true, input, |one| self.run_batch(at, one, context))
    }

    fn run_batch(
        &mut self,
        at: usize,
        input: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        self.counts[at].1 += input.len() as u64;
        let step = &mut self.steps[at];
        // A stage has no cycles, so no node is entered again while its buffer is out.
        let mut out = std::mem::take(&mut step.out);
        context.assignment.by_task = step.by_task;
        self.active.enter(self.counts[at].0);
        step.operator.process(input, &mut out, context)?;
        self.give(at, out, context)
    }

    /// Passes `out` to the children of a node and puts the buffer back.
    fn give(&mut self, at: usize, mut out: Vec<Record>, context: &mut Context<'_>) -> Result<()> {
        let children = self.steps[at].children.len();
        if self.steps[at].operator.routes() {
            let mut routes = std::mem::take(&mut context.effects.routes);
            self.route(at, &mut out, &routes, context)?;
            routes.clear();
            context.effects.routes = routes;
            self.steps[at].out = recycled(out);
            return Ok(());
        }
        if !out.is_empty() {
            match (children, self.steps[at].fork) {
                (0, _) => out.clear(),
                (1, Delivery::Batch) => self.run(self.steps[at].children[0], &mut out, context)?,
                (_, Delivery::Batch) => self.share_batch(at, &mut out, context)?,
                (_, Delivery::Record) => match self.steps[at].scope.clone() {
                    None => self.share_records(at, &mut out, context)?,
                    Some(scope) => scope.run(|| self.share_records(at, &mut out, context))?,
                },
            }
        }
        self.steps[at].out = recycled(out);
        Ok(())
    }

    /// Passes each record to the child it is for. Neighbours for one child go together, unless the nodes
    /// below can see the order.
    fn route(
        &mut self,
        at: usize,
        out: &mut Vec<Record>,
        routes: &[u32],
        context: &mut Context<'_>,
    ) -> Result<()> {
        if out.len() != routes.len() {
            return Err(Error::internal("an operator gave records without a route"));
        }
        let children = self.steps[at].children.len();
        let by_record = self.steps[at].fork == Delivery::Record;
        let mut share = std::mem::take(&mut self.steps[at].share);
        let mut records = out.drain(..).zip(routes).peekable();
        while let Some((record, &to)) = records.next() {
            share.push(record);
            while let Some((more, _)) = records.next_if(|(_, next)| !by_record && **next == to) {
                share.push(more);
            }
            if to == crate::ALL_CHILDREN {
                for nth in 1..children {
                    let mut copy = share.clone();
                    self.run(self.steps[at].children[nth - 1], &mut copy, context)?;
                }
                if let Some(&last) = self.steps[at].children.last() {
                    self.run(last, &mut share, context)?;
                }
            } else {
                let child = self.steps[at].children.get(to as usize).copied();
                let child = child.ok_or_else(|| Error::internal("a route to no child"))?;
                self.run(child, &mut share, context)?;
            }
            share.clear();
        }
        drop(records);
        self.steps[at].share = recycled(share);
        Ok(())
    }

    fn share_batch(
        &mut self,
        at: usize,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let last = self.steps[at].children.len() - 1;
        let mut share = std::mem::take(&mut self.steps[at].share);
        for nth in 0..last {
            share.extend_from_slice(out);
            self.run(self.steps[at].children[nth], &mut share, context)?;
        }
        self.steps[at].share = recycled(share);
        self.run(self.steps[at].children[last], out, context)
    }

    fn share_records(
        &mut self,
        at: usize,
        out: &mut Vec<Record>,
        context: &mut Context<'_>,
    ) -> Result<()> {
        let last = self.steps[at].children.len() - 1;
        let mut share = std::mem::take(&mut self.steps[at].share);
        for record in out.drain(..) {
            for nth in 0..last {
                share.push(record.clone());
                self.run(self.steps[at].children[nth], &mut share, context)?;
            }
            share.push(record);
            self.run(self.steps[at].children[last], &mut share, context)?;
        }
        self.steps[at].share = recycled(share);
        Ok(())
    }
}

fn recycled(mut buffer: Vec<Record>) -> Vec<Record> {
    assert!(buffer.is_empty(), "an operator takes all of its input");
    buffer.clear();
    buffer.shrink_to(KEEP_RECORDS);
    buffer
}
