//! The way from what the user wrote to what will run.
//!
//! Takes the plan's bytes (or the decoded plan), gives a [`PhysicalPlan`]: decode, check, serdes,
//! names, cut, fuse, describe. All findings come in one error. Never touches a broker or a disk.

use crate::check::check;
use crate::cut::cut;
use crate::describe::describe;
use crate::fuse::fuse;
use crate::logical::LogicalPlan;
use crate::name::name;
use crate::physical::{Op, PhysicalPlan};
use crate::problems::Problems;
use crate::serdes::serdes;
use crate::tables::tables;
use std::collections::BTreeSet;
use stoatflow_core::{Error, Result};

/// Compiles the plan's JSON.
///
/// # Errors
/// `Incompatible` for another format version; else one `Topology` error with all findings, each with
/// the user's line.
pub fn compile(json: &[u8]) -> Result<PhysicalPlan> {
    compile_plan(&LogicalPlan::decode(json)?)
}

/// Compiles a decoded plan.
///
/// # Errors
/// One `Topology` error with all findings.
pub fn compile_plan(plan: &LogicalPlan) -> Result<PhysicalPlan> {
    // Numbers of sources, sinks and stores have 16 bits.
    if plan.nodes.len() >= usize::from(u16::MAX) {
        let n = plan.nodes.len();
        return Err(
            Error::topology(format!("the topology has {n} nodes, 65534 is the limit"))
                .hint("split it into several applications"),
        );
    }
    let mut problems = Problems::default();
    let shape = check(plan, &mut problems);
    let serdes = serdes(plan, &shape, &mut problems);
    let names = name(plan, &shape, &mut problems);
    problems.finish()?;
    let tables = tables(plan, &shape);
    let mut physical = cut(plan, &shape, &names, &serdes, &tables);
    fuse(&mut physical);
    physical.description = describe(plan, &shape, &names, &tables);
    Ok(physical)
}

/// Refuses stores whose names were generated: such a name counts the nodes before it, so the next
/// edit of the topology would lose the state.
///
/// # Errors
/// `Topology`, with the line of each and the argument to add.
pub fn require_explicit_names(plan: &PhysicalPlan) -> Result<()> {
    let mut problems = Problems::default();
    let mut taken: BTreeSet<String> = plan.stores.iter().map(|s| s.name.clone()).collect();
    for store in plan.stores.iter().filter(|s| !s.named) {
        let node = plan.nodes.iter().find(|n| n.op.store() == Some(store.id));
        let call = node.map_or("table", |n| n.op.name());
        let place = match node.and_then(|n| n.line.as_deref()) {
            Some(line) => format!("{line}: {call}()"),
            None => format!("{call}()"),
        };
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
            "{place} keeps its state in a store with the generated name '{}', which changes when the topology does; add store=\"{proposal}\"",
            store.name
        ));
        taken.insert(proposal);
    }
    let listed = problems.finish();
    listed.map_err(|e| {
        e.hint("name the stores, or set ensure.explicit.naming=false if this state may be lost with the next edit")
    })
}

/// The entries of a stage: its sources, or the nodes that exchanges lead to.
#[must_use]
pub fn entries(plan: &PhysicalPlan, stage: stoatflow_core::StageId) -> Vec<stoatflow_core::NodeId> {
    let led = |id| {
        plan.nodes
            .iter()
            .any(|n| matches!(&n.op, Op::Exchange { to, .. } if to.contains(&id)))
    };
    plan.nodes
        .iter()
        .filter(|n| n.stage == stage && (matches!(n.op, Op::Source { .. }) || led(n.id)))
        .map(|n| n.id)
        .collect()
}

#[cfg(test)]
mod tests;
