//! Requires that the user chooses all names that reach the disk.
//!
//! Takes a compiled plan, refuses stores with generated names: such a name contains a counter of the
//! nodes before it, so the next edit of the topology would lose the state. Knows for each call which
//! argument sets the name.

use crate::op::Fold;
use crate::physical::{Op, PhysicalNode, PhysicalPlan, Store};
use crate::problems::Problems;
use crate::view::Kind;
use std::collections::BTreeSet;
use stoatflow_core::Result;

/// Refuses generated names of stores.
///
/// # Errors
/// `Topology`, with the line of each store and the argument to add.
pub fn require_explicit_names(plan: &PhysicalPlan) -> Result<()> {
    let mut problems = Problems::default();
    let mut taken: BTreeSet<String> = plan.stores.iter().map(|s| s.name.clone()).collect();
    let mut told: BTreeSet<(String, &str)> = BTreeSet::new();
    for store in plan.stores.iter().filter(|s| !s.named) {
        let node = owner(plan, store);
        let (call, argument) =
            node.map_or(("table", "store"), |n| (method(plan, n), argument(&n.op)));
        // Gets its name from the store of its windows, which is reported.
        if matches!(node.map(|n| &n.op), Some(Op::WindowAggregate { positions: Some(p), .. }) if *p == store.id)
        {
            continue;
        }
        let place = match node.and_then(|n| n.line.as_deref()) {
            Some(line) => format!("{line}: {call}()"),
            None => format!("{call}()"),
        };
        // A join has several stores, and one argument that names all of them.
        if argument == "name" && !told.insert((place.clone(), call)) {
            continue;
        }
        let base = format!(
            "{}-{call}",
            store.upstream_topics.first().map_or("my", String::as_str)
        );
        let proposal = (1..)
            .map(|n| {
                if n == 1 {
                    base.clone()
                } else {
                    format!("{base}-{n}")
                }
            })
            .find(|p| !taken.contains(p))
            .expect("one of infinitely many names is free");
        problems.add(format!(
            "{place} keeps its state in a store with the generated name '{}', which changes when the topology does; add {argument}=\"{proposal}\"",
            store.name
        ));
        taken.insert(proposal);
    }
    let listed = problems.finish();
    listed.map_err(|e| {
        e.hint("name the stores, or set ensure.explicit.naming=false if this state may be lost with the next edit")
    })
}

/// The node that owns the store: the one whose result it holds, otherwise one that writes it.
fn owner<'a>(plan: &'a PhysicalPlan, store: &Store) -> Option<&'a PhysicalNode> {
    let kept = plan.nodes.iter().find(|n| n.op.store() == Some(store.id));
    kept.or_else(|| {
        plan.nodes
            .iter()
            .find(|n| n.op.stores().contains(&store.id))
    })
}

/// The argument that names the store.
const fn argument(op: &Op) -> &'static str {
    match op {
        Op::StreamJoin { .. }
        | Op::StreamTableJoin { .. }
        | Op::ForeignAnswer { .. }
        | Op::Suppress { .. }
        | Op::Calls { .. } => "name",
        _ => "store",
    }
}

/// The method that the user called.
fn method(plan: &PhysicalPlan, node: &PhysicalNode) -> &'static str {
    let above = |wanted: fn(&Op) -> bool| {
        plan.nodes
            .iter()
            .find(|n| n.children.contains(&node.id) && wanted(&n.op))
    };
    match &node.op {
        Op::WindowAggregate { fold, .. }
        | Op::SlidingAggregate { fold, .. }
        | Op::SessionAggregate { fold, .. }
        | Op::TableAggregate { fold, .. } => match fold {
            Fold::Count => "count",
            Fold::Reduce { .. } => "reduce",
            Fold::Aggregate { .. } => "aggregate",
        },
        Op::TableSource { .. } => match above(|op| matches!(op, Op::Source { .. })) {
            Some(PhysicalNode {
                op: Op::Source { source },
                line,
                ..
            }) => {
                if plan.sources[usize::from(source.0)].global {
                    "global_table"
                } else if *line == node.line {
                    // The call that created the table also created its source.
                    "table"
                } else {
                    "to_table"
                }
            }
            _ => "to_table",
        },
        Op::StreamJoin { kind, .. }
        | Op::StreamTableJoin { kind, .. }
        | Op::ForeignAnswer { kind, .. } => join(*kind),
        Op::TableMerge { .. } => {
            let side = above(|op| matches!(op, Op::TableJoin { .. } | Op::ForeignJoin { .. }));
            match side.map(|n| &n.op) {
                Some(Op::TableJoin { kind, .. } | Op::ForeignJoin { kind, .. }) => join(*kind),
                _ => "join",
            }
        }
        Op::TableFilter { not: false, .. } => "filter",
        Op::TableFilter { .. } => "filter_not",
        Op::TableMapValues { .. } => "map_values",
        Op::Calls { form, .. } => form.method(),
        op => op.name(),
    }
}

const fn join(kind: Kind) -> &'static str {
    match kind {
        Kind::Inner => "join",
        Kind::Left => "left_join",
        Kind::Outer => "outer_join",
    }
}
