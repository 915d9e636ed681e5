//! Checks that each timer store belongs to one processor, and which stores may have a ttl.
//!
//! Takes the plan, adds findings. The reason: a timer calls `on_timer` of the processor that registered
//! it, and the store doesn't record which one that was. The `serdes` pass decides whether its keys are
//! those of the records.

use crate::logical::{DslCall, LogicalPlan};
use crate::problems::{Problems, place};
use crate::spec::SerdeSpec;
use crate::window::StoreKind;

/// The serde of a store's keys, if it is a timer store.
pub(crate) fn key_of_timers<'p>(plan: &'p LogicalPlan, name: &str) -> Option<&'p SerdeSpec> {
    plan.nodes.iter().find_map(|node| match &node.call {
        DslCall::StateStore {
            store,
            kind: StoreKind::Timers,
            key,
            ..
        } if store == name => Some(key),
        _ => None,
    })
}

/// Whether it is a processor's store with a ttl.
fn expires(plan: &LogicalPlan, name: &str) -> bool {
    let mut calls = plan.nodes.iter().map(|node| &node.call);
    calls.any(
        |call| matches!(call, DslCall::StateStore { store, expiry: Some(_), .. } if store == name),
    )
}

/// Checks which processors use timer stores, and that no transformer uses a store whose rows expire.
pub(super) fn timers(plan: &LogicalPlan, problems: &mut Problems) {
    let mut owners: Vec<(&str, usize)> = Vec::new();
    for (i, node) in plan.nodes.iter().enumerate() {
        let (stores, calls) = match &node.call {
            DslCall::Process { stores, .. } | DslCall::ProcessValues { stores, .. } => {
                (stores, true)
            }
            DslCall::TransformValues { stores, .. } => (stores, false),
            _ => continue,
        };
        for store in stores {
            if !calls && expires(plan, store) {
                problems.at(
                    plan,
                    i,
                    format!("can't use '{store}', whose rows expire: a transformer is also called to read its table, in other transactions; call .to_stream() and .process(...) instead, or leave ttl= out"),
                );
            }
            if key_of_timers(plan, store).is_none() {
                continue;
            }
            if !calls {
                problems.at(
                    plan,
                    i,
                    format!("can't have the timers '{store}': a transformer gives values of a table and has no on_timer; call .to_stream() and .process(...) instead"),
                );
                continue;
            }
            match owners.iter().find(|(name, at)| name == store && *at != i) {
                None => owners.push((store, i)),
                Some((_, owner)) => problems.at(
                    plan,
                    i,
                    format!(
                        "the timers '{store}' belong to {}, and timers call one processor: give this one a store of timers of its own",
                        place(&plan.nodes[*owner], *owner)
                    ),
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests;
