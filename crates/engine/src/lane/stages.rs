//! A lane's state per stage: its epoch and tick, its clocks, what it writes, and the exchanges to later
//! stages.

use super::tick::Arrivals;
use crate::lane::queue::LaneItem;
use crate::lane::stream_time::Timing;
use std::collections::VecDeque;
use stoatflow_core::{Epoch, NodeId, StageId, StoreId};
use stoatflow_operators::LaneClocks;
use stoatflow_plan::{Op, PhysicalPlan};
use stoatflow_state::Dirty;

/// The state of a lane in one stage.
#[derive(Debug)]
pub(super) struct StageState {
    /// The epoch of the records it processes.
    pub epoch: Epoch,
    /// The tick in which it sends records.
    pub tick: u64,
    /// Records from exchanges, until their tick ends.
    pub arrived: Arrivals,
    /// Items of later epochs.
    pub held: VecDeque<LaneItem>,
    /// Stores that only this stage writes.
    pub stores: Vec<StoreId>,
    /// Stores that other stages write too, possibly in another epoch; with the keys that this stage has
    /// written.
    pub shared: Vec<(StoreId, Dirty)>,
}

/// An edge to a later stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub node: NodeId,
    pub stage: StageId,
    /// True if it is sent before the others.
    pub without_topic: bool,
}

/// All exchanges, in the order in which they are sent.
pub(super) fn exchanges(plan: &PhysicalPlan) -> Vec<Exchange> {
    let of = |first: bool| {
        plan.nodes.iter().filter_map(move |n| match &n.op {
            Op::Exchange { stage, ahead, .. } if *ahead == first => Some(Exchange {
                node: n.id,
                stage: *stage,
                without_topic: first,
            }),
            _ => None,
        })
    };
    of(true).chain(of(false)).collect()
}

/// The state of all stages at the start. Stages that write the same store may be in different epochs.
/// The store of times is written by every stage with clocks, and at the end of the epoch.
pub(super) fn stage_states(plan: &PhysicalPlan, timing: &Timing) -> Vec<StageState> {
    let written: Vec<Vec<StoreId>> = plan
        .stages
        .iter()
        .zip(&timing.stages)
        .map(|(stage, of_stage)| {
            let ops = stage.nodes.iter().map(|n| &plan.nodes[n.0 as usize].op);
            let mut stores: Vec<StoreId> = ops.flat_map(Op::stores).collect();
            stores.extend(timing.store.filter(|_| of_stage.timed));
            stores.sort_unstable();
            stores.dedup();
            stores
        })
        .collect();
    let by_several = |store: &StoreId| {
        timing.store == Some(*store) || written.iter().filter(|w| w.contains(store)).count() > 1
    };
    let state = |stores: &Vec<StoreId>| StageState {
        epoch: Epoch(1),
        tick: 1,
        arrived: Arrivals::default(),
        held: VecDeque::new(),
        stores: stores.iter().copied().filter(|s| !by_several(s)).collect(),
        shared: stores
            .iter()
            .filter(|s| by_several(s))
            .map(|s| (*s, Dirty::default()))
            .collect(),
    };
    written.iter().map(state).collect()
}

/// The clocks of each stage at the start. A single lane (`alone`) whose time is moved by records, and a
/// plan without clocks, have one view for all stages.
pub(super) fn clock_views(plan: &PhysicalPlan, timing: &Timing, alone: bool) -> Vec<LaneClocks> {
    let mut view = LaneClocks::new(plan.clocks.len(), alone);
    view.by_watermark = timing.by_watermark;
    view.watermark = timing.watermark;
    view.emit_interval_ms = timing.window_emit_ms;
    // By watermark, passes run at barriers only: these are rare enough, and no pass follows the last
    // one to emit what an interval has delayed.
    if !timing.by_watermark {
        view.join_emit_interval_ms = timing.join_emit_ms;
    }
    view.rows = timing.store.map(|store| (store, timing.keys.clone()));
    view.merge(&timing.initial);
    view = view.continuing(timing.before.as_ref());
    let count = if alone && !timing.by_watermark || timing.store.is_none() {
        1
    } else {
        plan.stages.len()
    };
    let view_of = |stage: usize| match timing.rules.get(stage) {
        Some(rules) => view.clone().ruled(rules),
        None => view.clone(),
    };
    (0..count).map(view_of).collect()
}
