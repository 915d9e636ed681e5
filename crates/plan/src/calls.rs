//! Which calls have many of their function's calls under way at a time.
//!
//! Takes a call, gives how it is awaited: an async function of an operator of a stream that keeps nothing. A
//! table's operator and whatever folds or joins wait for each result, because the next record needs it.

use crate::check::{Kind, Shape};
use crate::logical::{Awaiting, Call, LogicalPlan};
use crate::op::Form;

/// What becomes of the results, and how they are awaited; `None`: it is called like any other function.
pub(crate) fn calls(plan: &LogicalPlan, shape: &Shape, i: usize) -> Option<(Form, Awaiting)> {
    let (form, from, function) = match &plan.nodes[i].call {
        Call::Filter { from, function, .. } => (Form::Filter, from, function),
        Call::FilterNot { from, function, .. } => (Form::FilterNot, from, function),
        Call::Map { from, function } => (Form::Map, from, function),
        Call::MapValues { from, function, .. } => (Form::MapValues, from, function),
        Call::FlatMap { from, function } => (Form::FlatMap, from, function),
        Call::FlatMapValues { from, function, .. } => (Form::FlatMapValues, from, function),
        Call::SelectKey { from, function } => (Form::SelectKey, from, function),
        Call::GroupBy { from, function, .. } => (Form::GroupBy, from, function),
        Call::Peek { from, function } => (Form::Peek, from, function),
        Call::Foreach { from, function } => (Form::Foreach, from, function),
        _ => return None,
    };
    let awaiting = function.awaiting()?;
    (shape.kinds[*from] == Kind::Stream).then_some((form, *awaiting))
}
