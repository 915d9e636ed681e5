//! Which calls keep several invocations of their async function in flight.
//!
//! Takes a call, returns how its function is awaited: an async function of a stateless stream operator.
//! A table's operator and an aggregation wait for each result, because the next record needs it; a join
//! waits for all rows of a batch.

#[cfg(test)]
mod tests;

use crate::check::{Kind, Shape};
use crate::function::Function;
use crate::logical::{DslCall, LogicalPlan};
use crate::op::{Form, Op};
use crate::spec::AsyncSpec;
use crate::view::View;

/// The form of the operator and how its calls are awaited; `None`: it is called like any other function.
pub(crate) fn calls(plan: &LogicalPlan, shape: &Shape, i: usize) -> Option<(Form, AsyncSpec)> {
    let (form, from, function) = match &plan.nodes[i].call {
        DslCall::Filter { from, function, .. } => (Form::Filter, from, function),
        DslCall::FilterNot { from, function, .. } => (Form::FilterNot, from, function),
        DslCall::Map { from, function } => (Form::Map, from, function),
        DslCall::MapValues { from, function, .. } => (Form::MapValues, from, function),
        DslCall::FlatMap { from, function } => (Form::FlatMap, from, function),
        DslCall::FlatMapValues { from, function, .. } => (Form::FlatMapValues, from, function),
        DslCall::SelectKey { from, function } => (Form::SelectKey, from, function),
        DslCall::GroupBy { from, function, .. } => (Form::GroupBy, from, function),
        DslCall::Peek { from, function } => (Form::Peek, from, function),
        DslCall::Foreach { from, function } => (Form::Foreach, from, function),
        _ => return None,
    };
    let awaiting = function.awaiting()?;
    (shape.kinds[*from] == Kind::Stream).then_some((form, *awaiting))
}

/// The async functions that an operator calls concurrently: those that may outlive their batch, and
/// joiners, including those of the joins through which it reads tables.
#[must_use]
pub fn side_by_side(op: &Op) -> Vec<&AsyncSpec> {
    let (own, views): (Option<&Function>, &[&View]) = match op {
        Op::Calls { awaiting, .. } => return vec![awaiting],
        Op::Offload {
            function,
            instead_of_timeout,
            instead_of_error,
            ..
        } => {
            let instead = [instead_of_timeout, instead_of_error];
            let all = std::iter::once(function).chain(instead.into_iter().flatten());
            return all.filter_map(Function::awaiting).collect();
        }
        Op::StreamJoin { function, .. } => (Some(function), &[]),
        Op::TableJoin {
            function,
            other: view,
            ..
        }
        | Op::StreamTableJoin {
            function,
            table: view,
            ..
        }
        | Op::GlobalJoin {
            function,
            table: view,
            ..
        }
        | Op::ForeignJoin {
            function,
            left: view,
            ..
        } => (Some(function), &[view]),
        Op::ForeignAnswer { right, .. } => (None, &[right]),
        _ => (None, &[]),
    };
    let own = own.and_then(Function::awaiting);
    let read = views.iter().flat_map(|view| joiners(view));
    own.into_iter().chain(read).collect()
}

fn joiners(view: &View) -> Vec<&AsyncSpec> {
    match view {
        View::Store { .. } => vec![],
        View::Filter { of, .. } | View::MapValues { of, .. } | View::TransformValues { of, .. } => {
            joiners(of)
        }
        View::Join {
            left,
            right,
            function,
            ..
        } => {
            let own = function.awaiting();
            let sides = [left, right].into_iter().flat_map(|side| joiners(side));
            own.into_iter().chain(sides).collect()
        }
    }
}
