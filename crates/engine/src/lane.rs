//! A lane: runs the operators of all stages for the keys that hash to it.
//!
//! Takes items from its queue; sends outputs to the outbox, re-keyed records to other lanes, and its
//! sealed writes at the end of an epoch. Owns one operator chain per stage and the list of keys it
//! wrote, never the state itself (law 3). `step` never waits for another lane; it may wait for a store's
//! disk or for the interpreter.

mod barrier;
mod chains;
mod dead_letters;
pub mod dispatched;
mod effects;
mod gather;
pub(crate) mod hot_keys;
mod input;
pub mod kept_records;
mod late;
mod parts;
pub mod queue;
mod stages;
pub mod stream_time;
mod streams_headers;
mod tick;
mod times;

pub(crate) use dead_letters::with_body;

use crate::commit::outbox::LaneTimes;
use crate::index::StoreIndexes;
use crate::intake::source_partitions::SourcePartitions;
use crate::lane::queue::{Barrier, LaneItem};
use crate::lane::stream_time::Timing;
use crate::runtime::shared::Shared;
use effects::ChildNumbering;
use hot_keys::Sampler;
pub use parts::{LaneParts, OutputLimits};
use stages::{Exchange, StageState, clock_views, exchanges, stage_states};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use stoatflow_core::{End, Lane, Record, Result, StageId, StoreId};
use stoatflow_operators::{
    Chain, Effects, FaultInjection, KeyAssignment, LaneClocks, LaneStore, Steps, Times,
};
use stoatflow_plan::{Op, PhysicalPlan};
use stoatflow_protocol::Rendezvous;
use stoatflow_state::Dirty;
use tick::Arrived;

/// Added to an output's bytes in the in-flight budget: its structs in queues.
const OUTPUT_OVERHEAD: i64 = 128;

fn length(bytes: Option<&bytes::Bytes>) -> i64 {
    i64::try_from(bytes.map_or(0, bytes::Bytes::len)).unwrap_or(i64::MAX / 4)
}

/// Which operators are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    Nothing,
    /// Those that fill global tables.
    Globals,
    All,
}

/// See the module.
pub struct LaneWorker {
    id: Lane,
    shared: Arc<Shared>,
    plan: Arc<PhysicalPlan>,
    chains: Vec<Chain>,
    stores: Vec<LaneStore>,
    indexes: Vec<Option<Arc<StoreIndexes>>>,
    slots: SourcePartitions,
    sinks: Arc<[Arc<str>]>,
    limits: OutputLimits,
    batch_max: usize,
    keep_most: usize,
    keep_uncommitted: bool,
    streams_letter_headers: bool,
    stages: Vec<StageState>,
    /// Items that a barrier has released: older than anything else.
    ready: VecDeque<LaneItem>,
    /// Items from other lanes.
    inbox: VecDeque<LaneItem>,
    effects: Effects,
    timing: Arc<Timing>,
    /// The clocks of each stage, since stages may be in different epochs. A single lane whose time is
    /// moved by records (or a plan without clocks) has one view for all stages.
    views: Vec<LaneClocks>,
    assignment: KeyAssignment,
    /// Lane 0: which lanes have arrived at which stage.
    meeting: Rendezvous<Times>,
    /// Lane 0: the times of all lanes at the end of the last epoch, and those that are in the store.
    known: Times,
    kept: Times,
    /// Lane 0, by store: the key up to which expired segments were dropped.
    dropped_to: Vec<Option<bytes::Bytes>>,
    /// Lane 0, by stage: when the next punctuation is due by the clock.
    next_punctuation: Vec<Option<i64>>,
    /// The application's watermark at the last barrier.
    watermark: i64,
    opened: Opened,
    /// Stages with operators that hold records back while there is more to do.
    gathering: Vec<StageId>,
    /// True if there is an offload, which counts the records that reach it.
    may_park: bool,
    /// Records per source, while a batch is split by source.
    sorted: Vec<Vec<Record>>,
    /// Per exchange and lane: records to send.
    routes: Vec<Vec<(Vec<Record>, i64)>>,
    /// Vecs of processed batches, reused for the next records that are sent.
    buffers: Vec<Vec<Record>>,
    /// Exchange nodes, in the order of `routes`: those that are sent ahead come first.
    exchanges: Vec<Exchange>,
    /// By node: index of its exchange.
    exchange_at: Vec<usize>,
    /// By stage: a counter for exchanges that are sent ahead, and one for the others; and by exchange,
    /// the index of its counter.
    numberings: Vec<ChildNumbering>,
    numbering_of_exchange: Vec<usize>,
    /// By stage: how records sent into it in this tick move its time.
    steps: Vec<Steps>,
    /// The barrier that a stage has reached, with its tick.
    ending: Option<(u64, Barrier)>,
    /// When the lane reached the steps of the end of its epoch.
    end_times: LaneTimes,
    /// While an epoch ends: its end, and the part of it that runs.
    epoch_end_part: Option<(End, u64)>,
    to_seal: Vec<(StoreId, Dirty)>,
    fault: FaultInjection,
    /// Per node: records already added to the status.
    reported: Vec<u64>,
    /// Which records are sampled for hot keys.
    sampler: Sampler,
}

impl LaneWorker {
    /// Builds a lane that starts with epoch 1.
    #[must_use]
    pub fn new(parts: LaneParts) -> Self {
        let LaneParts {
            id,
            shared,
            plan,
            chains,
            stores,
            indexes,
            slots,
            sinks,
            limits,
            batch_max,
            keep_most,
            keep_uncommitted,
            streams_letter_headers,
            timing,
            fault,
        } = parts;
        let stages = stage_states(&plan, &timing);
        let exchanges = exchanges(&plan);
        let mut exchange_at = vec![0; plan.nodes.len()];
        for (at, exchange) in exchanges.iter().enumerate() {
            exchange_at[exchange.node.0 as usize] = at;
        }
        let lanes = shared.queues.len();
        let lane_count = u32::try_from(lanes).unwrap_or(u32::MAX);
        Self {
            views: clock_views(&plan, &timing, lanes == 1),
            meeting: Rendezvous::new(lane_count, plan.stages.len()),
            known: timing.committed().clone(),
            kept: timing.committed().clone(),
            dropped_to: vec![None; plan.stores.len()],
            next_punctuation: vec![None; plan.stages.len()],
            watermark: timing.watermark,
            opened: Opened::Nothing,
            may_park: plan
                .nodes
                .iter()
                .any(|n| matches!(n.op, Op::Offload { .. })),
            stages,
            gathering: (0..)
                .zip(&chains)
                .filter_map(|(stage, chain)| chain.buffers().then_some(StageId(stage)))
                .collect(),
            sorted: plan.sources.iter().map(|_| Vec::new()).collect(),
            buffers: Vec::new(),
            routes: exchanges
                .iter()
                .map(|_| (0..lanes).map(|_| (Vec::new(), 0)).collect())
                .collect(),
            numberings: (plan.stages.iter())
                .flat_map(|_| [ChildNumbering::new(0), ChildNumbering::new(1)])
                .collect(),
            numbering_of_exchange: (exchanges.iter())
                .map(|e| 2 * usize::from(e.stage.0) + usize::from(!e.without_topic))
                .collect(),
            steps: (timing.groups.count.iter())
                .map(|groups| Steps::new(*groups))
                .collect(),
            timing,
            ending: None,
            end_times: LaneTimes::default(),
            epoch_end_part: None,
            exchanges,
            exchange_at,
            ready: VecDeque::new(),
            inbox: VecDeque::new(),
            effects: Effects::default(),
            assignment: KeyAssignment::new(id.0, lane_count),
            to_seal: Vec::new(),
            reported: vec![0; plan.nodes.len()],
            sampler: Sampler::new(id.0),
            id,
            shared,
            plan,
            chains,
            stores,
            indexes,
            slots,
            sinks,
            limits,
            batch_max,
            keep_most,
            keep_uncommitted,
            streams_letter_headers,
            fault,
        }
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> Lane {
        self.id
    }

    /// Handles one item; false if there was none.
    ///
    /// # Errors
    /// Errors of operators and stores, with the lane among the coordinates.
    pub fn step(&mut self) -> Result<bool> {
        self.open()?;
        let queue = &self.shared.queues[self.id.0 as usize];
        queue.take_from_lanes(&mut self.inbox);
        let Some(item) = self
            .ready
            .pop_front()
            .or_else(|| self.inbox.pop_front())
            .or_else(|| queue.take_dispatched())
        else {
            return Ok(false);
        };
        let lane = self.id;
        self.handle(item)
            .and_then(|()| self.on_idle())
            .map_err(|e| e.at(|at| at.lane = Some(lane)))?;
        Ok(true)
    }

    /// Lets operators process what they held back while there was more to do.
    fn on_idle(&mut self) -> Result<()> {
        if self.gathering.is_empty() || self.has_work() {
            return Ok(());
        }
        for at in 0..self.gathering.len() {
            let stage = self.gathering[at];
            self.run(stage, |chain, context| {
                chain.on_idle(context);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Opens operators: they load the state that they keep besides the restored stores, and processors
    /// are initialised. The first step does this if the caller hasn't. While global tables are loaded,
    /// only the operators that fill them are opened.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn open(&mut self) -> Result<()> {
        if self.opened != Opened::Nothing {
            return Ok(());
        }
        let plan = Arc::clone(&self.plan);
        let globals = plan.sources.iter().filter(|s| s.global);
        let mut entries = globals.map(|s| s.entry).peekable();
        if entries.peek().is_none() {
            return self.open_all();
        }
        self.opened = Opened::Globals;
        self.set_wall(self.shared.clock.now());
        let lane = self.id;
        entries
            .try_for_each(|entry| {
                self.run(StageId(0), |chain, context| {
                    chain.open_below(entry, context)
                })
            })
            .map_err(|e| e.at(|at| at.lane = Some(lane)))
    }

    fn open_all(&mut self) -> Result<()> {
        self.opened = Opened::All;
        self.known.clone_from(&self.timing.initial);
        let lane = self.id;
        self.set_wall(self.shared.clock.now());
        for stage in 0..self.stages.len() {
            let id = StageId(u16::try_from(stage).unwrap_or(u16::MAX));
            self.run(id, |chain, context| chain.open(context))
                .map_err(|e| e.at(|at| at.lane = Some(lane)))?;
            self.note_times(stage);
        }
        Ok(())
    }

    /// Closes processors.
    pub fn close(&mut self) {
        if std::mem::replace(&mut self.opened, Opened::Nothing) != Opened::Nothing {
            self.chains.iter_mut().for_each(Chain::close);
        }
    }

    /// Lane 0: the times of all lanes at the end of the last epoch.
    #[must_use]
    pub const fn times(&self) -> &Times {
        &self.known
    }

    /// True if there is anything to do.
    #[must_use]
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty()
            || !self.inbox.is_empty()
            || !self.shared.queues[self.id.0 as usize].is_empty()
    }

    fn handle(&mut self, item: LaneItem) -> Result<()> {
        let (epoch, stage) = match &item {
            LaneItem::Input { epoch, .. } => (*epoch, StageId(0)),
            LaneItem::Tick { epoch, stage, .. } => (*epoch, *stage),
            LaneItem::Routed { .. } => {
                self.keep(item);
                return Ok(());
            }
            LaneItem::Seal { epoch } => {
                return self.seal(*epoch);
            }
            LaneItem::Open => return self.open_all(),
            // They belong to the epoch that is ending, so they are never held back.
            LaneItem::Report { .. } | LaneItem::Release { .. } | LaneItem::Pass { .. } => {
                return self.meet(item);
            }
        };
        let state = &mut self.stages[usize::from(stage.0)];
        if epoch > state.epoch {
            state.held.push_back(item);
            return Ok(());
        }
        match item {
            LaneItem::Input { mut batch, .. } => {
                let taken = self.gather_input(epoch, &mut batch);
                self.status().queued_items.fetch_sub(1 + taken, Relaxed);
                let began = self.begin(stage, batch.records.len());
                let bytes = batch.bytes;
                let done = self.input(batch);
                self.end(began, bytes);
                done
            }
            LaneItem::Tick { mark, steps, .. } => self.tick((epoch, stage), mark, steps),
            LaneItem::Open
            | LaneItem::Routed { .. }
            | LaneItem::Seal { .. }
            | LaneItem::Report { .. }
            | LaneItem::Release { .. }
            | LaneItem::Pass { .. } => Ok(()),
        }
    }

    /// Keeps routed records until their tick ends.
    fn keep(&mut self, item: LaneItem) {
        if let LaneItem::Routed {
            tick,
            from,
            stage,
            via,
            batch,
            bytes,
        } = item
        {
            let arrived = Arrived {
                from,
                via,
                batch,
                bytes,
            };
            self.stages[usize::from(stage.0)].arrived.add(tick, arrived);
        }
    }

    fn meet(&mut self, item: LaneItem) -> Result<()> {
        match item {
            LaneItem::Report {
                epoch,
                stage,
                lane,
                times,
            } => self.report((epoch, stage, lane), times),
            LaneItem::Release {
                epoch,
                stage,
                times,
                wall,
            } => self.release((epoch, stage), &times, wall),
            LaneItem::Pass { epoch, stage } => self.pass(epoch, stage),
            _ => Ok(()),
        }
    }
}
