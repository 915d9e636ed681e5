//! Which keys and values are still as a source read them.
//!
//! Takes the plan, gives a flag for each side of each node: nothing between the streams and the node gave
//! another key or value. Never looks at serdes: that bytes are written and read on the way changes nothing.

use crate::logical::{Call, LogicalPlan};

/// Key and value of what a node gives: are they as they were read?
type AsRead = (bool, bool);

/// Looks at all nodes. What a table gives is never counted: it may be what another record brought.
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

/// The sides that a call hands on as they are.
const fn keeps(call: &Call) -> AsRead {
    match call {
        Call::Stream { .. }
        | Call::Filter { .. }
        | Call::FilterNot { .. }
        | Call::Peek { .. }
        | Call::Split { .. }
        | Call::Branch { .. }
        | Call::Merge { .. }
        | Call::Repartition { .. }
        | Call::Deduplicate { .. }
        | Call::To { .. } => (true, true),
        Call::MapValues { .. }
        | Call::FlatMapValues { .. }
        | Call::MapBatches { .. }
        | Call::ProcessValues { .. } => (true, false),
        Call::SelectKey { .. } => (false, true),
        _ => (false, false),
    }
}
