//! Where all keys of a task must share a lane.
//!
//! Finds the nodes of a plan whose result depends on which keys share a lane: Kafka Streams iterates
//! over all rows of a task, or applies one bound to all of them. The exchanges that meet above such a
//! node, and all nodes below them up to the next exchange, are divided by task too. The price is that a
//! topic with one partition keeps only one lane busy there. So this happens only at the user's request:
//! with a bound of a suppress, or with the emit intervals of Kafka Streams.

use crate::lane::stream_time::groups::{Tasks, by_key};
use std::collections::BTreeSet;
use stoatflow_core::NodeId;
use stoatflow_plan::{Emit, Op, PhysicalPlan, SerdeSpec};

/// By node: the number of tasks, for a node whose lanes have whole tasks and for exchanges to it.
/// `given`: whether the interval between passes over windows is set, and the one between passes over
/// unmatched rows of joins.
pub fn whole_tasks(plan: &PhysicalPlan, tasks: &Tasks, given: (bool, bool)) -> Vec<Option<u16>> {
    let mut found = vec![None; plan.nodes.len()];
    let by_key = by_key(plan, &tasks.of_exchanges(plan));
    // Otherwise windows of one key may be in several tasks, and each task has its own mark up to which
    // windows were emitted.
    let fixed = |node: NodeId| tasks.of(node) == 1 || by_key[node.0 as usize];
    for group in plan.stages.iter().flat_map(|stage| &stage.meeting) {
        let below = below(plan, group);
        let asks = |node: &NodeId| {
            let given = (given.0 && fixed(*node), given.1);
            asks(&plan.nodes[node.0 as usize].op, given)
        };
        if !below.iter().any(asks)
            || group
                .iter()
                .any(|exchange| divides_windows(plan, *exchange))
        {
            continue;
        }
        for node in &below {
            found[node.0 as usize] = Some(tasks.of(*node));
        }
        for exchange in group {
            let first = leads_to(plan, *exchange).first();
            found[exchange.0 as usize] = first.map(|to| tasks.of(*to));
        }
    }
    found
}

/// True if it stands for a topic with windowed keys. All windows of a key share a lane, but are in
/// different tasks of that topic.
fn divides_windows(plan: &PhysicalPlan, exchange: NodeId) -> bool {
    let windowed = |key: &SerdeSpec| {
        matches!(
            key,
            SerdeSpec::TimeWindowed { .. } | SerdeSpec::SessionWindowed { .. }
        )
    };
    match &plan.nodes[exchange.0 as usize].op {
        Op::Exchange { key, ahead, .. } => !ahead && windowed(key),
        _ => false,
    }
}

fn leads_to(plan: &PhysicalPlan, exchange: NodeId) -> &[NodeId] {
    match &plan.nodes[exchange.0 as usize].op {
        Op::Exchange { to, .. } => to,
        _ => &[],
    }
}

const fn asks(op: &Op, (windows, joins): (bool, bool)) -> bool {
    match op {
        Op::WindowAggregate { emit, .. }
        | Op::SlidingAggregate { emit, .. }
        | Op::SessionAggregate { emit, .. } => windows && matches!(emit, Emit::OnWindowClose),
        Op::StreamJoin { pending, .. } => joins && pending.is_some(),
        Op::Suppress {
            max_records,
            max_bytes,
            ..
        } => max_records.is_some() || max_bytes.is_some(),
        _ => false,
    }
}

/// The targets of exchanges, and all nodes below them in the same stage. Exchanges out of the stage are
/// not included: their own targets determine how they distribute keys.
fn below(plan: &PhysicalPlan, exchanges: &[NodeId]) -> BTreeSet<NodeId> {
    let to = |exchange: &NodeId| leads_to(plan, *exchange).to_vec();
    let mut left: Vec<NodeId> = exchanges.iter().flat_map(to).collect();
    let mut found = BTreeSet::new();
    while let Some(node) = left.pop() {
        let node = &plan.nodes[node.0 as usize];
        if !matches!(node.op, Op::Exchange { .. }) && found.insert(node.id) {
            left.extend(&node.children);
        }
    }
    found
}
