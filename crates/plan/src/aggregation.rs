//! The inputs and settings of an aggregation.
//!
//! Takes the call below a grouping, returns its window, its emit strategy and its grouped streams by
//! walking up through `windowed_by`, `emit_strategy` and `cogroup`. Never decides whether that is
//! allowed.

use crate::function::Function;
use crate::logical::{DslCall, LogicalPlan};
use crate::window::Emit;
use crate::window::Window;

/// The window of a windowed grouping.
pub(crate) fn window_of(plan: &LogicalPlan, mut i: usize) -> Option<Window> {
    loop {
        match &plan.nodes[i].call {
            DslCall::WindowedBy { window, .. } => return Some(*window),
            DslCall::EmitStrategy { from, .. } => i = *from,
            _ => return None,
        }
    }
}

/// After how long without a record its windows close, and how far stream time advances then.
pub(crate) fn idle_of(plan: &LogicalPlan, mut i: usize) -> Option<(i64, i64)> {
    loop {
        match &plan.nodes[i].call {
            DslCall::WindowedBy {
                window,
                close_when_idle_ms,
                ..
            } => {
                let reach = window.retention_ms().saturating_add(1);
                return close_when_idle_ms.map(|after| (after, reach));
            }
            DslCall::EmitStrategy { from, .. } => i = *from,
            _ => return None,
        }
    }
}

/// The same for a table: that of the windowed aggregation that produces it.
pub(crate) fn idle_above(plan: &LogicalPlan, i: usize) -> Option<(i64, i64)> {
    let call = &plan.nodes[i].call;
    if let DslCall::Count { from, .. }
    | DslCall::Reduce { from, .. }
    | DslCall::Aggregate { from, .. } = call
        && window_of(plan, *from).is_some()
    {
        return idle_of(plan, *from);
    }
    let inputs = call.inputs().into_iter();
    inputs.filter_map(|from| idle_above(plan, from)).next()
}

/// Its emit strategy.
pub(crate) fn emit_of(plan: &LogicalPlan, i: usize) -> Emit {
    match &plan.nodes[i].call {
        DslCall::EmitStrategy { strategy, .. } => *strategy,
        _ => Emit::default(),
    }
}

/// The grouping itself (for a cogroup: the cogroup call that the aggregation is called on).
pub(crate) fn grouping_of(plan: &LogicalPlan, mut i: usize) -> usize {
    while let DslCall::WindowedBy { from, .. } | DslCall::EmitStrategy { from, .. } =
        &plan.nodes[i].call
    {
        i = *from;
    }
    i
}

/// The grouped streams with their aggregators, in the order in which they were added. A stream that was
/// added twice keeps its place and gets the later aggregator. For a plain grouping: the grouping itself.
pub(crate) fn members<'a>(
    plan: &'a LogicalPlan,
    i: usize,
    function: Option<&'a Function>,
) -> Vec<(usize, Option<&'a Function>)> {
    let mut at = grouping_of(plan, i);
    let mut found: Vec<(usize, Option<&Function>)> = Vec::new();
    while let DslCall::Cogroup {
        from,
        other,
        function,
    } = &plan.nodes[at].call
    {
        let own = other.unwrap_or(*from);
        found.push((own, Some(function)));
        at = *from;
        if other.is_none() {
            break;
        }
    }
    if found.is_empty() {
        return vec![(at, function)];
    }
    found.reverse();
    let mut unique: Vec<(usize, Option<&Function>)> = Vec::new();
    for (group, function) in found {
        match unique.iter_mut().find(|(g, _)| *g == group) {
            Some(known) => known.1 = function,
            None => unique.push((group, function)),
        }
    }
    unique
}
