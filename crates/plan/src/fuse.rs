//! Which nodes may process a whole batch at a time, and which need the foreign language.
//!
//! Takes the plan with its stages, sets [`Delivery`], `foreign`, `independent_entries` and `meeting`.
//! Branches that converge below (in a node, a store that one of them writes, an exchange, or a topic
//! that several sinks write) must process the records one by one, or the order of their results would
//! depend on the size of batches. So must a node whose store is used below it: a reader below needs the
//! store as it was when the record passed. Never moves a node.

mod foreign;

use crate::compile::entries;
use crate::physical::{Delivery, Op, PhysicalNode, PhysicalPlan};
use std::collections::{BTreeMap, BTreeSet};
use stoatflow_core::{NodeId, SinkId, StageId, StoreId};

/// A resource that a branch uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Node(NodeId),
    /// A written store.
    Store(StoreId),
    /// The first sink of a topic represents all of them.
    Topic(SinkId),
}

/// All resources that a branch uses.
#[derive(Clone, Debug, Default)]
struct Marks {
    own: BTreeSet<Mark>,
    /// Stores that are read.
    reads: BTreeSet<StoreId>,
    topics: bool,
    /// A function chooses the topic: it may be any topic.
    any_topic: bool,
}

impl Marks {
    fn add(&mut self, other: &Self) {
        self.own.extend(other.own.iter().copied());
        self.reads.extend(other.reads.iter().copied());
        self.topics |= other.topics;
        self.any_topic |= other.any_topic;
    }

    fn writes(&self, store: StoreId) -> bool {
        self.own.contains(&Mark::Store(store))
    }

    fn touches(&self, store: StoreId) -> bool {
        self.writes(store) || self.reads.contains(&store)
    }

    fn meets(&self, other: &Self) -> bool {
        !self.own.is_disjoint(&other.own)
            || self.reads.iter().any(|s| other.writes(*s))
            || other.reads.iter().any(|s| self.writes(*s))
            || (self.any_topic && other.topics)
            || (other.any_topic && self.topics)
    }
}

/// Sets the fields that the `stages` pass leaves open.
pub(crate) fn fuse(plan: &mut PhysicalPlan) {
    let (marks, own_conflict) = marks(plan);
    for (i, conflict) in own_conflict.into_iter().enumerate() {
        let next = next(&plan.nodes[i].op, &plan.nodes[i].children);
        plan.nodes[i].fork = if conflict || !apart(&next, &marks) {
            Delivery::Record
        } else {
            Delivery::Batch
        };
        plan.nodes[i].foreign = foreign::foreign(plan, i);
    }
    for s in 0..plan.stages.len() {
        let stage = &plan.stages[s];
        let id = stage.id;
        let entries = entries(plan, id);
        let is_foreign = stage.nodes.iter().any(|n| plan.nodes[n.0 as usize].foreign);
        plan.stages[s].independent_entries = apart(&entries, &marks);
        let into =
            |node: &&PhysicalNode| matches!(node.op, Op::Exchange { stage: to, .. } if to == id);
        let exchanges = plan.nodes.iter().filter(into).map(|node| node.id);
        plan.stages[s].meeting = meeting(exchanges, &marks);
        plan.stages[s].foreign = is_foreign;
    }
}

/// The nodes that get a node's output, in this stage or the next.
fn next(op: &Op, children: &[NodeId]) -> Vec<NodeId> {
    match op {
        Op::Exchange { to, .. } => to.clone(),
        _ => children.to_vec(),
    }
}

/// The resources that each node and all nodes below it use, and whether its own store is used below.
/// Children have higher ids than their parents.
fn marks(plan: &PhysicalPlan) -> (Vec<Marks>, Vec<bool>) {
    let global = global_stores(plan);
    // A store is written in one stage. Other stages read it earlier or later anyway.
    let mut written: BTreeMap<StoreId, StageId> = BTreeMap::new();
    for node in &plan.nodes {
        for store in node.op.stores() {
            written.entry(store).or_insert(node.stage);
        }
    }
    let mut marks: Vec<Marks> = vec![Marks::default(); plan.nodes.len()];
    let mut conflicts = vec![false; plan.nodes.len()];
    for node in plan.nodes.iter().rev() {
        let mut all = Marks::default();
        for child in next(&node.op, &node.children) {
            all.add(&marks[child.0 as usize]);
        }
        let (writes, mut reads) = stores(&node.op, &global);
        reads.retain(|s| written.get(s) == Some(&node.stage));
        let conflict = writes.iter().any(|s| all.touches(*s));
        conflicts[node.id.0 as usize] = conflict;
        all.own.insert(Mark::Node(node.id));
        all.own.extend(writes.into_iter().map(Mark::Store));
        all.reads.extend(reads);
        if let Op::Sink { sink } = node.op {
            let topic = &plan.sinks[usize::from(sink.0)].topic;
            all.topics = true;
            all.any_topic |= topic.is_none();
            let first = plan.sinks.iter().find(|s| s.topic == *topic);
            all.own.extend(first.map(|s| Mark::Topic(s.id)));
        }
        marks[node.id.0 as usize] = all;
    }
    (marks, conflicts)
}

/// Stores that a node writes, and stores that it reads. Global stores don't count: global topics are
/// read before everything else.
fn stores(op: &Op, global: &BTreeSet<StoreId>) -> (Vec<StoreId>, Vec<StoreId>) {
    let local = |stores: Vec<StoreId>| -> Vec<StoreId> {
        stores.into_iter().filter(|s| !global.contains(s)).collect()
    };
    let reads = match op {
        Op::TableJoin { other: view, .. }
        | Op::ForeignAnswer { right: view, .. }
        | Op::ForeignJoin { left: view, .. }
        | Op::StreamTableJoin { table: view, .. } => view.stores(),
        Op::StreamJoin { other, .. } => vec![*other],
        Op::ForeignNotify { store, .. } => vec![*store],
        _ => vec![],
    };
    (local(op.stores()), local(reads))
}

fn global_stores(plan: &PhysicalPlan) -> BTreeSet<StoreId> {
    plan.sources
        .iter()
        .filter(|s| s.global)
        .flat_map(|s| &plan.nodes[s.entry.0 as usize].children)
        .filter_map(|n| match &plan.nodes[n.0 as usize].op {
            Op::TableSource { store, .. } => Some(*store),
            Op::Process { stores, .. } => stores.first().copied(),
            _ => None,
        })
        .collect()
}

fn apart(nodes: &[NodeId], marks: &[Marks]) -> bool {
    let mut seen = Marks::default();
    for node in nodes {
        let own = &marks[node.0 as usize];
        if seen.meets(own) {
            return false;
        }
        seen.add(own);
    }
    true
}

/// Groups of nodes; nodes of different groups share no resource.
fn meeting(nodes: impl Iterator<Item = NodeId>, marks: &[Marks]) -> Vec<Vec<NodeId>> {
    let mut groups: Vec<(Marks, Vec<NodeId>)> = Vec::new();
    for node in nodes {
        let mut own = (marks[node.0 as usize].clone(), vec![node]);
        // The node may join several groups.
        groups.retain_mut(|(theirs, members)| {
            let meets = theirs.meets(&own.0);
            if meets {
                own.0.add(theirs);
                own.1.append(members);
            }
            !meets
        });
        own.1.sort_unstable();
        groups.push(own);
    }
    let mut groups: Vec<Vec<NodeId>> = groups.into_iter().map(|(_, members)| members).collect();
    groups.sort_unstable();
    groups
}

#[cfg(test)]
mod tests;
