//! Runs the passes from the user's topology to the physical plan.
//!
//! Takes the plan's bytes (or the decoded plan), returns a [`PhysicalPlan`]: decode, check, serdes,
//! names, stages, fuse, describe. All findings are reported in one error. Never touches a broker or a
//! disk.

mod explicit;

use crate::check::check;
use crate::describe::describe;
use crate::fuse::fuse;
use crate::logical::LogicalPlan;
use crate::name::name;
use crate::physical::{Op, PhysicalPlan};
use crate::problems::Problems;
use crate::serdes::serdes;
use crate::stages::cut_into_stages;
use crate::tables::tables;
pub use explicit::require_explicit_names;
use std::sync::Arc;
use stoatflow_core::{Error, Result};

/// Compiles the plan's JSON.
///
/// # Errors
/// `Incompatible` for another format version; otherwise one `Topology` error with all findings, each
/// with the user's line.
pub fn compile(json: &[u8]) -> Result<PhysicalPlan> {
    compile_plan(&LogicalPlan::decode(json)?)
}

/// Compiles a decoded plan.
///
/// # Errors
/// One `Topology` error with all findings.
pub fn compile_plan(plan: &LogicalPlan) -> Result<PhysicalPlan> {
    // Ids of sources, sinks and stores have 16 bits.
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
    let description = describe(plan, &shape, &names, &tables);
    let cut = |with_window_boundary: bool| {
        let (mut physical, source_fed) =
            cut_into_stages(plan, &shape, &names, &serdes, &tables, with_window_boundary)?;
        fuse(&mut physical);
        physical.description.clone_from(&description);
        Ok::<_, Error>((physical, source_fed))
    };
    let (mut physical, source_fed) = cut(false)?;
    if source_fed {
        physical.with_window_boundary = Some(Arc::new(cut(true)?.0));
    }
    Ok(physical)
}

/// The entry nodes of a stage: its sources, or the targets of exchanges.
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
