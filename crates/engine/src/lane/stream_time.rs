//! Stream time across lanes and restarts: which stages have clocks, and how times are stored.
//!
//! Computes from the plan what lanes need to know, and converts times to and from rows of the internal
//! store `clocks`. Operators move the clocks, in the view of their lane.

pub mod groups;
mod spread;
mod whole_tasks;

use crate::intake::source_partitions::SourcePartitions;
use crate::runtime::shared::Shared;
use bytes::{BufMut, Bytes, BytesMut};
use groups::{Groups, Tasks};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{
    ClockId, Datum, Epoch, Error, Guarantee, Result, Serde, StoreId, Task, Timestamp,
};
use stoatflow_operators::{ClockRule, Time, Times};
use stoatflow_plan::{Op, PhysicalPlan, Store, StoreKind};
use stoatflow_state::{KeyValueStore, Stored};
use whole_tasks::whole_tasks;

#[cfg(test)]
mod tests;

/// Name of the internal store: changelog `<application.id>-clocks-changelog`.
pub const STORE: &str = "clocks";
/// The clock that every record of every source moves (number 0 in plans with processors).
const APPLICATION: &str = "application";

/// The work of a stage at its barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTiming {
    /// True if it has clocks. Then lanes meet at its barrier.
    pub timed: bool,
    /// True if it has processors (which may have schedules), scheduled sources, or windows that close
    /// without input.
    pub punctuates: bool,
    /// True if it has processors with stores, and operators that may emit after lanes were released.
    /// Then lanes meet again before they continue.
    pub second_rendezvous: bool,
    /// True if it has operators that use the times that dispatch notes at each record.
    pub dispatched: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Timing {
    /// By stage.
    pub stages: Vec<StageTiming>,
    /// The clock of the whole application.
    pub application: Option<ClockId>,
    /// By node: true if it gets only records of scheduled sources, or answers to an offload. These don't
    /// advance event time.
    pub by_clock: Vec<bool>,
    /// The times that the run begins with, by clock: the last committed ones, converted to the current
    /// tasks.
    pub initial: Times,
    /// The last committed times, if the number of tasks has changed since.
    pub before: Option<Arc<Times>>,
    /// Which records move which clock.
    pub groups: Groups,
    /// By stage: the rule of each clock.
    pub rules: Vec<Vec<ClockRule>>,
    /// By node: the number of partitions of the repartition topic that an exchange stands for, if a node
    /// below needs it.
    pub tasks: Vec<Option<u16>>,
    /// The store of times; `None` without clocks.
    pub store: Option<StoreId>,
    /// Row keys by clock.
    pub keys: Arc<[Bytes]>,
    /// True if lanes need the wall-clock time with each batch.
    pub wall: bool,
    /// True if the watermark is the time (`time.semantics`).
    pub by_watermark: bool,
    /// The last committed watermark of the application.
    pub watermark: i64,
    /// By node: the number of tasks, for a node whose lanes have whole tasks and for exchanges to it.
    pub by_task: Vec<Option<u16>>,
    /// Minimum time between two passes that close windows, if it is to be that of Kafka Streams.
    pub window_emit_ms: Option<i64>,
    /// Likewise for passes that emit unmatched rows of joins.
    pub join_emit_ms: Option<i64>,
}

impl Timing {
    /// The timing of a plan, before anything was read.
    #[must_use]
    pub fn new(plan: &PhysicalPlan) -> Self {
        let application = plan
            .clocks
            .first()
            .filter(|c| c.name == APPLICATION)
            .map(|c| c.id);
        let stage = |stage: &stoatflow_plan::Stage| {
            let ops = || stage.nodes.iter().map(|n| &plan.nodes[n.0 as usize].op);
            let of_store = |s: StoreId| plan.stores[usize::from(s.0)].clock.is_some();
            let idles = |n: &stoatflow_core::NodeId| plan.nodes[n.0 as usize].idle.is_some();
            let punctuates = stage.nodes.iter().any(idles)
                || ops().any(|op| {
                    matches!(
                        op,
                        Op::Process { .. }
                            | Op::TransformValues { .. }
                            | Op::Expire { .. }
                            | Op::Scheduled { .. }
                    )
                });
            let late =
                |n: &stoatflow_core::NodeId| may_emit_after_report(plan, &plan.nodes[n.0 as usize]);
            StageTiming {
                second_rendezvous: ops().any(|op| shares_stores(plan, op))
                    && stage.nodes.iter().any(late),
                timed: punctuates
                    || stage.id.0 == 0 && application.is_some()
                    || ops()
                        .any(|op| op.clock().is_some() || op.stores().into_iter().any(of_store)),
                punctuates,
                dispatched: groups::uses_dispatch_times(plan, stage.id),
            }
        };
        let count = u16::try_from(plan.stores.len()).unwrap_or(u16::MAX);
        Self {
            stages: plan.stages.iter().map(stage).collect(),
            application,
            by_clock: plan.clock_driven_nodes(),
            initial: vec![Vec::new(); plan.clocks.len()],
            before: None,
            groups: Groups::new(plan),
            rules: Vec::new(),
            tasks: Vec::new(),
            by_task: Vec::new(),
            store: (!plan.clocks.is_empty()).then_some(StoreId(count)),
            keys: plan
                .clocks
                .iter()
                .map(|c| Bytes::copy_from_slice(c.name.as_bytes()))
                .collect(),
            wall: !plan.clocks.is_empty()
                || plan.nodes.iter().any(|n| {
                    matches!(
                        n.op,
                        Op::MapBatches { .. } | Op::ForeachBatch { .. } | Op::Offload { .. }
                    )
                }),
            by_watermark: false,
            watermark: -1,
            window_emit_ms: None,
            join_emit_ms: None,
        }
    }

    /// The internal store, numbered after those of the plan.
    ///
    /// # Errors
    /// `Topology` if the user has a store of that name.
    pub fn store_spec(&self, plan: &PhysicalPlan) -> Result<Option<Store>> {
        let Some(id) = self.store else {
            return Ok(None);
        };
        if plan.stores.iter().any(|s| s.name == STORE) {
            return Err(Error::topology(format!(
                "a store can't be called '{STORE}': that is where the engine keeps stream time"
            ))
            .hint("give the store another name"));
        }
        let bytes = || stoatflow_plan::SerdeSpec::Builtin("bytes".into());
        Ok(Some(Store {
            id,
            ordered: false,
            ..Store::new(STORE, StoreKind::KeyValue, bytes(), bytes())
        }))
    }

    /// Computes tasks and clock rules for the partitions that are read.
    pub fn divide(&mut self, plan: &PhysicalPlan, slots: &SourcePartitions, alone: bool) {
        let tasks = Tasks::new(plan, slots);
        self.rules = self.groups.rules(plan, &tasks, alone);
        self.spread(plan);
        let timed = timed_below(plan);
        // If nothing below needs time, no task is needed, which saves the murmur2 hash of each key.
        self.tasks = (tasks.of_exchanges(plan).into_iter().zip(timed))
            .map(|(tasks, timed)| tasks.filter(|_| timed))
            .collect();
        if !alone && !self.by_watermark {
            let given = (self.window_emit_ms.is_some(), self.join_emit_ms.is_some());
            self.by_task = whole_tasks(plan, &tasks, given);
        }
    }

    /// Under at-least-once the rows of times are written after the offsets, so a crash may lose the last
    /// ones. Processors that read a source directly then continue from the committed stream times of its
    /// partitions; their timers would otherwise wait for the next record. Call after [`Self::divide`].
    pub fn catch_up(&mut self, slots: &SourcePartitions, guarantee: Guarantee) {
        if self.by_watermark || guarantee != Guarantee::AtLeastOnce {
            return;
        }
        for slot in slots.iter().filter(|slot| !slot.is_answers) {
            let task = usize::from(Task::of(slot.partition.partition.0).0);
            for binding in &slot.bindings {
                for clock in &self.groups.read[usize::from(binding.source.0)] {
                    let times = &mut self.initial[usize::from(clock.0)];
                    if times.len() <= task {
                        times.resize(task + 1, Time::NONE);
                    }
                    let stream = &mut times[task].stream;
                    *stream = slot.progress.stream_time.0.max(*stream);
                }
            }
        }
    }

    /// Begins with the committed watermark and the committed stream times of the partitions. The latter
    /// matter under at-least-once, where a crash may lose their row.
    pub fn begin_with(&mut self, slots: &SourcePartitions, shared: &Shared, guarantee: Guarantee) {
        let committed = slots.iter().map(|slot| slot.progress.application);
        self.watermark = committed.max().unwrap_or(-1);
        let status = &shared.status;
        status.watermark.store(self.watermark, Relaxed);
        status.by_watermark.store(self.by_watermark, Relaxed);
        if let Some(clock) = self.application {
            let times = &mut self.initial[usize::from(clock.0)];
            if times.is_empty() {
                times.push(Time::NONE);
            }
            let time = &mut times[0];
            if !self.by_watermark && guarantee == Guarantee::AtLeastOnce {
                // Records of global tables and answers don't count for the application's time.
                let own = slots
                    .iter()
                    .filter(|slot| !slot.is_global && !slot.is_answers);
                let read = own.map(|slot| slot.progress.stream_time.0);
                time.stream = read.fold(time.stream, i64::max);
            }
            shared.request_watermark(time.newest);
        }
    }

    /// The times that are in the store when the run begins.
    #[must_use]
    pub fn committed(&self) -> &Times {
        self.before.as_deref().unwrap_or(&self.initial)
    }

    /// Reads the committed times. Call before the store is used otherwise.
    ///
    /// # Errors
    /// Errors of the store; `StateCorrupt` if a row holds no times.
    pub fn load(&mut self, store: &Arc<KeyValueStore>) -> Result<()> {
        for (key, time) in self.keys.iter().zip(&mut self.initial) {
            if let Some(row) = store.get(Epoch(0), key)? {
                *time = decode(&row.value)?;
            }
        }
        Ok(())
    }
}

fn is_timers(plan: &PhysicalPlan, store: StoreId) -> bool {
    plan.stores[usize::from(store.0)].kind == StoreKind::Timers
}

/// True for processors with stores: they may read and write the keys of all lanes.
fn shares_stores(plan: &PhysicalPlan, op: &Op) -> bool {
    match op {
        Op::Process { stores, .. } | Op::TransformValues { stores, .. } => {
            stores.iter().any(|store| !is_timers(plan, *store))
        }
        _ => false,
    }
}

/// True if a node may emit records after all lanes have reported, when some have already continued.
/// Operators that can't are listed, so that a new operator is on the safe side.
fn may_emit_after_report(plan: &PhysicalPlan, node: &stoatflow_plan::PhysicalNode) -> bool {
    let quiet = match &node.op {
        Op::Process { stores, .. } => !stores.iter().any(|store| is_timers(plan, *store)),
        Op::Source { .. }
        | Op::Filter { .. }
        | Op::FilterNot { .. }
        | Op::Map { .. }
        | Op::MapValues { .. }
        | Op::FlatMap { .. }
        | Op::FlatMapValues { .. }
        | Op::SelectKey { .. }
        | Op::Peek { .. }
        | Op::Foreach { .. }
        | Op::Merge
        | Op::Split { .. }
        | Op::Exchange { .. }
        | Op::ToStream
        | Op::Sink { .. } => true,
        _ => false,
    };
    !quiet || node.idle.is_some()
}

/// By node: true if it or a node below it has a clock. Children have higher numbers than parents.
fn timed_below(plan: &PhysicalPlan) -> Vec<bool> {
    let mut timed = vec![false; plan.nodes.len()];
    for (at, node) in plan.nodes.iter().enumerate().rev() {
        let next = match &node.op {
            Op::Exchange { to, .. } => to,
            _ => &node.children,
        };
        let of_store = |store: StoreId| {
            let store = plan.stores.get(usize::from(store.0));
            store.is_some_and(|store| store.clock.is_some())
        };
        timed[at] = node.op.clock().is_some()
            || node.op.stores().into_iter().any(of_store)
            || next.iter().any(|child| timed[child.0 as usize]);
    }
    timed
}

/// True if a row with this key holds times. Other rows say in which task something waits.
#[must_use]
pub fn is_time(key: &[u8]) -> bool {
    !key.contains(&0)
}

/// Prefix of a value with the times of several tasks.
const SEVERAL: u8 = 1;

/// The serde of a row.
pub const ROW: Serde = Serde::Bytes;

/// Encodes a row: a prefix byte, then per task 8 bytes stream time, 8 bytes mark, and 8 bytes for the
/// newest record that didn't move the time. For a single task the prefix is omitted, and so is the
/// newest record if there is none.
#[must_use]
pub fn encode(times: &[Time]) -> Stored {
    let mut bytes = BytesMut::with_capacity(1 + 24 * times.len());
    if times.len() != 1 {
        bytes.put_u8(SEVERAL);
    }
    for time in times {
        bytes.put_i64(time.stream);
        bytes.put_i64(time.mark);
        if times.len() != 1 || time.newest >= 0 {
            bytes.put_i64(time.newest);
        }
    }
    let highest = times.iter().map(|time| time.stream).max();
    Stored {
        value: Datum::Bytes(bytes.freeze()),
        // The changelog record's timestamp can't be negative.
        timestamp: Timestamp(highest.unwrap_or(0).max(0)),
    }
}

/// The stream times of a stored row (which has a timestamp in front of the value), by task.
///
/// # Errors
/// `StateCorrupt` if it is no such row.
pub(crate) fn stream_times(stored: &Bytes) -> Result<Vec<i64>> {
    let value = stored.get(8..).unwrap_or_default();
    let times = decode(&Datum::Bytes(stored.slice_ref(value)))?;
    Ok(times.iter().map(|time| time.stream).collect())
}

fn decode(value: &Datum) -> Result<Vec<Time>> {
    let number = |bytes: &[u8]| bytes.first_chunk().map(|b| i64::from_be_bytes(*b));
    let time = |bytes: &[u8]| {
        Some(Time {
            stream: number(bytes)?,
            mark: number(bytes.get(8..)?)?,
            newest: bytes.get(16..).and_then(number).unwrap_or(-1),
        })
    };
    if let Datum::Bytes(bytes) = value {
        let times = match (bytes.len(), bytes.split_first()) {
            (16 | 24, _) => time(bytes).map(|time| vec![time]),
            (_, Some((&SEVERAL, rest))) if rest.len() % 24 == 0 => {
                rest.chunks_exact(24).map(time).collect()
            }
            _ => None,
        };
        if let Some(times) = times {
            return Ok(times);
        }
    }
    Err(
        Error::state_corrupt("a row of the store of stream times holds no times")
            .hint("check that nothing else writes to the changelog topic of 'clocks'"),
    )
}
