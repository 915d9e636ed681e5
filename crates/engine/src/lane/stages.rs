//! What a lane knows of its stages: how far each is, what it writes, where its records go on.
//!
//! Takes the plan, gives the state of all stages at the start and the exchanges between them. Never moves.

use super::tick::Arrivals;
use crate::lane::queue::LaneItem;
use crate::lane::stream_time::Timing;
use std::collections::VecDeque;
use stoatflow_core::{Epoch, NodeId, StageId, StoreId};
use stoatflow_plan::{Op, PhysicalPlan};
use stoatflow_state::Dirty;

/// Where a lane is in one stage.
#[derive(Debug)]
pub(super) struct StageState {
    /// The epoch whose records it processes.
    pub epoch: Epoch,
    /// The tick that it sends records in.
    pub tick: u64,
    /// Records that came through exchanges, until their tick ends.
    pub arrived: Arrivals,
    /// Items of later epochs.
    pub held: VecDeque<LaneItem>,
    /// Stores that only this stage writes.
    pub stores: Vec<StoreId>,
    /// Stores that other stages write too, which may be in another epoch: what this stage has written.
    pub shared: Vec<(StoreId, Dirty)>,
}

/// A way to a later stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub node: NodeId,
    pub stage: StageId,
    /// Does it go before those that are not?
    pub ahead: bool,
}

/// All exchanges in the order in which what a batch leaves behind is sent.
pub(super) fn exchanges(plan: &PhysicalPlan) -> Vec<Exchange> {
    let of = |first: bool| {
        plan.nodes.iter().filter_map(move |n| match &n.op {
            Op::Exchange { stage, ahead, .. } if *ahead == first => Some(Exchange {
                node: n.id,
                stage: *stage,
                ahead: first,
            }),
            _ => None,
        })
    };
    of(true).chain(of(false)).collect()
}

/// All stages at the start. A store of several stages is written in several epochs at a time; that of the times is
/// written in every stage that has any, and at the end.
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
