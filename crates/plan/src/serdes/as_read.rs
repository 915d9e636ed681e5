//! Finds keys and values that are unchanged since a source read them.
//!
//! Takes the plan, returns a flag for each side of each node: true if no node between the streams and
//! this one changes the key or the value. Never looks at serdes: writing and reading bytes on the way
//! changes nothing.

use crate::logical::{DslCall, LogicalPlan};

/// Whether key and value of a node's output are unchanged.
type AsRead = (bool, bool);

/// Computes the flags of all nodes. The output of a table never counts: its row may come from another
/// record.
pub(super) fn as_read(plan: &LogicalPlan) -> Vec<AsRead> {
    let mut found: Vec<AsRead> = Vec::with_capacity(plan.nodes.len());
    for node in &plan.nodes {
        let own = keeps(&node.call);
        let above = node.call.inputs().into_iter();
        let above = above.map(|at| found.get(at).copied().unwrap_or_default());
        found.push(above.fold(own, |(key, value), above| {
            (key && above.0, value && above.1)
        }));
    }
    found
}

/// The sides that a call passes on unchanged.
const fn keeps(call: &DslCall) -> AsRead {
    match call {
        DslCall::Stream { .. }
        | DslCall::Filter { .. }
        | DslCall::FilterNot { .. }
        | DslCall::Peek { .. }
        | DslCall::Split { .. }
        | DslCall::Branch { .. }
        | DslCall::Merge { .. }
        | DslCall::Repartition { .. }
        | DslCall::Deduplicate { .. }
        | DslCall::To { .. } => (true, true),
        DslCall::MapValues { .. }
        | DslCall::FlatMapValues { .. }
        | DslCall::MapBatches { .. }
        | DslCall::ProcessValues { .. } => (true, false),
        DslCall::SelectKey { .. } => (false, true),
        _ => (false, false),
    }
}
