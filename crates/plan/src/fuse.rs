//! Which nodes may take a whole batch at a time, and which need the foreign language.
//!
//! Takes the cut plan, fills [`Fork`], `foreign` and `independent_entries`. Branches that meet again
//! below (in a node, a store, an exchange, or a topic that several sinks write) must see the records
//! in turn, or the order of their results would depend on the size of batches. Never moves a node.

use crate::compile::entries;
use crate::logical::{Function, SerdeSpec};
use crate::physical::{Fork, Op, PhysicalPlan};
use std::collections::BTreeSet;
use stoatflow_core::{NodeId, SinkId, StoreId};

/// What a branch touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Node(NodeId),
    Store(StoreId),
    /// The first sink of a topic stands for all of them.
    Topic(SinkId),
}

type Marks = BTreeSet<Mark>;

/// Fills in what a cut plan leaves open.
pub(crate) fn fuse(plan: &mut PhysicalPlan) {
    let marks = marks(plan);
    for i in 0..plan.nodes.len() {
        let next = next(&plan.nodes[i].op, &plan.nodes[i].children);
        plan.nodes[i].fork = if apart(&next, &marks) {
            Fork::Batch
        } else {
            Fork::Record
        };
        plan.nodes[i].foreign = foreign(plan, i);
    }
    for s in 0..plan.stages.len() {
        let stage = &plan.stages[s];
        let entries = entries(plan, stage.id);
        let is_foreign = stage.nodes.iter().any(|n| plan.nodes[n.0 as usize].foreign);
        plan.stages[s].independent_entries = apart(&entries, &marks);
        plan.stages[s].foreign = is_foreign;
    }
}

/// Who gets a node's output, in this stage or the next.
fn next(op: &Op, children: &[NodeId]) -> Vec<NodeId> {
    match op {
        Op::Exchange { to, .. } => to.clone(),
        _ => children.to_vec(),
    }
}

/// What each node and everything below it touches. Children have higher numbers than their parents.
fn marks(plan: &PhysicalPlan) -> Vec<Marks> {
    let mut marks: Vec<Marks> = vec![Marks::new(); plan.nodes.len()];
    for node in plan.nodes.iter().rev() {
        let mut own = Marks::from([Mark::Node(node.id)]);
        own.extend(node.op.store().map(Mark::Store));
        if let Op::Sink { sink } = node.op {
            let topic = &plan.sinks[usize::from(sink.0)].topic;
            own.extend(
                plan.sinks
                    .iter()
                    .find(|s| s.topic == *topic)
                    .map(|s| Mark::Topic(s.id)),
            );
        }
        for child in next(&node.op, &node.children) {
            own.extend(marks[child.0 as usize].iter().copied());
        }
        marks[node.id.0 as usize] = own;
    }
    marks
}

fn apart(nodes: &[NodeId], marks: &[Marks]) -> bool {
    let mut seen = Marks::new();
    for node in nodes {
        let own = &marks[node.0 as usize];
        if !seen.is_disjoint(own) {
            return false;
        }
        seen.extend(own.iter().copied());
    }
    true
}

/// Does it call the user's language: a function, or a serde that the user wrote?
fn foreign(plan: &PhysicalPlan, i: usize) -> bool {
    let udf = |f: &Function| matches!(f, Function::Udf(_));
    let custom = |s: &SerdeSpec| matches!(s, SerdeSpec::Custom { .. });
    let op = &plan.nodes[i].op;
    let serdes = match op {
        Op::Source { source } => {
            let s = &plan.sources[usize::from(source.0)];
            custom(&s.key) || custom(&s.value)
        }
        Op::Sink { sink } => {
            let s = &plan.sinks[usize::from(sink.0)];
            custom(&s.key) || custom(&s.value)
        }
        Op::Exchange { key, .. } => custom(key),
        op => op.store().is_some_and(|id| {
            let s = &plan.stores[usize::from(id.0)];
            custom(&s.key) || custom(&s.value)
        }),
    };
    let functions = match op {
        Op::Filter { function }
        | Op::FilterNot { function }
        | Op::Map { function }
        | Op::MapValues { function, .. }
        | Op::FlatMap { function }
        | Op::FlatMapValues { function, .. }
        | Op::SelectKey { function }
        | Op::Peek { function }
        | Op::Foreach { function }
        | Op::Reduce { function, .. } => udf(function),
        Op::Aggregate {
            initializer,
            function,
            ..
        } => udf(initializer) || udf(function),
        _ => false,
    };
    serdes || functions
}

#[cfg(test)]
mod tests;
