//! What an aggregation aggregates.
//!
//! Takes the call below a grouping, gives its window, its strategy and its grouped streams by walking
//! up through `windowed_by`, `emit_strategy` and `cogroup`. Never decides whether that is allowed.

use crate::function::Function;
use crate::logical::{Call, LogicalPlan};
use crate::window::Emit;
use crate::window::Window;

/// The window of what waits for its aggregation.
pub(crate) fn window_of(plan: &LogicalPlan, mut i: usize) -> Option<Window> {
    loop {
        match &plan.nodes[i].call {
            Call::WindowedBy { window, .. } => return Some(*window),
            Call::EmitStrategy { from, .. } => i = *from,
            _ => return None,
        }
    }
}

/// How long without a record until its windows close, and how far time advances then.
pub(crate) fn idle_of(plan: &LogicalPlan, mut i: usize) -> Option<(i64, i64)> {
    loop {
        match &plan.nodes[i].call {
            Call::WindowedBy {
                window,
                close_when_idle_ms,
                ..
            } => {
                let reach = window.retention_ms().saturating_add(1);
                return close_when_idle_ms.map(|after| (after, reach));
            }
            Call::EmitStrategy { from, .. } => i = *from,
            _ => return None,
        }
    }
}

/// The same of the aggregation in windows that a table comes from.
pub(crate) fn idle_above(plan: &LogicalPlan, i: usize) -> Option<(i64, i64)> {
    let call = &plan.nodes[i].call;
    if let Call::Count { from, .. } | Call::Reduce { from, .. } | Call::Aggregate { from, .. } =
        call
        && window_of(plan, *from).is_some()
    {
        return idle_of(plan, *from);
    }
    let inputs = call.inputs().into_iter();
    inputs.filter_map(|from| idle_above(plan, from)).next()
}

/// When its results are given.
pub(crate) fn emit_of(plan: &LogicalPlan, i: usize) -> Emit {
    match &plan.nodes[i].call {
        Call::EmitStrategy { strategy, .. } => *strategy,
        _ => Emit::default(),
    }
}

/// The grouping itself (of a cogroup: the cogroup that the aggregation is called on).
pub(crate) fn grouping_of(plan: &LogicalPlan, mut i: usize) -> usize {
    while let Call::WindowedBy { from, .. } | Call::EmitStrategy { from, .. } = &plan.nodes[i].call
    {
        i = *from;
    }
    i
}

/// The grouped streams with the aggregator of each, in the order in which they were added; a stream
/// that was added twice keeps its place and gets the later aggregator. Of a plain grouping: itself.
pub(crate) fn members<'a>(
    plan: &'a LogicalPlan,
    i: usize,
    function: Option<&'a Function>,
) -> Vec<(usize, Option<&'a Function>)> {
    let mut at = grouping_of(plan, i);
    let mut found: Vec<(usize, Option<&Function>)> = Vec::new();
    while let Call::Cogroup {
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
