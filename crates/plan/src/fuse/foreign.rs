//! Whether a node calls the user's language: a function, a processor, or a serde of the user.

use crate::function::Function;
use crate::op::Fold;
use crate::physical::{Op, PhysicalPlan};
use crate::spec::SerdeSpec;
use crate::view::View;
use crate::window::{TimestampExtractor, WatermarkStrategy};
use stoatflow_core::Late;

pub(super) fn foreign(plan: &PhysicalPlan, i: usize) -> bool {
    let op = &plan.nodes[i].op;
    let of_stores = op.stores().iter().any(|id| {
        let s = &plan.stores[usize::from(id.0)];
        s.key.is_custom() || s.value.is_custom()
    });
    of_stores || calls(plan, op) || serdes(op).into_iter().any(SerdeSpec::is_custom)
}

fn calls(plan: &PhysicalPlan, op: &Op) -> bool {
    match op {
        Op::Process { .. } | Op::TransformValues { .. } | Op::Calls { .. } => true,
        Op::Expire { table, .. } => plan.stores[usize::from(table.0)].value.is_custom(),
        Op::Source { source } => {
            let s = &plan.sources[usize::from(source.0)];
            let watermark = s.watermark.as_ref().map(|w| w.strategy);
            s.key.is_custom()
                || s.value.is_custom()
                || matches!(s.timestamp, TimestampExtractor::Udf(_))
                || matches!(watermark, Some(WatermarkStrategy::Udf(_)))
                || matches!(s.late, Late::Call(_))
        }
        Op::Sink { sink } => {
            let s = &plan.sinks[usize::from(sink.0)];
            s.key.is_custom()
                || s.value.is_custom()
                || s.topic_function.as_ref().is_some_and(udf)
                || s.partitioner.as_ref().is_some_and(udf)
        }
        Op::Filter { function }
        | Op::FilterNot { function }
        | Op::Map { function }
        | Op::MapValues { function, .. }
        | Op::FlatMap { function }
        | Op::FlatMapValues { function, .. }
        | Op::MapBatches { function, .. }
        | Op::SelectKey { function }
        | Op::Peek { function }
        | Op::Foreach { function }
        | Op::ForeachBatch { function, .. }
        | Op::TableFilter { function, .. }
        | Op::TableMapValues { function, .. }
        | Op::TableGroupBy { function, .. }
        | Op::StreamJoin { function, .. }
        | Op::ForeignSubscribe {
            foreign_key: function,
            ..
        }
        | Op::Reduce { function, .. } => udf(function),
        Op::Split { functions } => functions.iter().any(udf),
        Op::Deduplicate { function, .. } => function.as_ref().is_some_and(udf),
        Op::Aggregate {
            initializer,
            function,
            ..
        } => udf(initializer) || udf(function),
        Op::WindowAggregate { fold, .. }
        | Op::SlidingAggregate { fold, .. }
        | Op::SessionAggregate { fold, .. } => folds(fold),
        Op::TableAggregate {
            fold, subtractor, ..
        } => folds(fold) || subtractor.as_ref().is_some_and(udf),
        Op::TableJoin {
            other, function, ..
        } => udf(function) || views(plan, other),
        Op::ForeignAnswer { right, .. } => views(plan, right),
        Op::ForeignJoin { left, function, .. } => udf(function) || views(plan, left),
        Op::StreamTableJoin {
            table, function, ..
        } => udf(function) || views(plan, table),
        Op::GlobalJoin {
            table,
            key_function,
            function,
            ..
        } => udf(key_function) || udf(function) || views(plan, table),
        Op::Offload {
            request,
            function,
            instead_of_timeout,
            instead_of_error,
            ..
        } => {
            let others = [request, instead_of_timeout, instead_of_error];
            udf(function) || others.into_iter().flatten().any(udf)
        }
        Op::OffloadAnswers { of, .. } => foreign(plan, of.0 as usize),
        Op::TableSource { .. }
        | Op::Merge
        | Op::Exchange { .. }
        | Op::Count { .. }
        | Op::TableMerge { .. }
        | Op::ForeignNotify { .. }
        | Op::Suppress { .. }
        | Op::Scheduled { .. }
        | Op::Unversioned
        | Op::ToStream => false,
    }
}

fn udf(function: &Function) -> bool {
    function.udf().is_some()
}

fn folds(fold: &Fold) -> bool {
    match fold {
        Fold::Count => false,
        Fold::Reduce { function } => udf(function),
        Fold::Aggregate {
            initializer,
            function,
            merger,
        } => udf(initializer) || udf(function) || merger.as_ref().is_some_and(udf),
    }
}

fn views(plan: &PhysicalPlan, view: &View) -> bool {
    match view {
        View::Store { store, key } => {
            let s = &plan.stores[usize::from(store.0)];
            key.is_custom() || s.key.is_custom() || s.value.is_custom()
        }
        View::Filter { of, function, .. } | View::MapValues { of, function, .. } => {
            udf(function) || views(plan, of)
        }
        View::TransformValues { .. } => true,
        View::Join {
            left,
            right,
            function,
            ..
        } => udf(function) || views(plan, left) || views(plan, right),
    }
}

/// The serdes that an operator itself uses to write.
fn serdes(op: &Op) -> Vec<&SerdeSpec> {
    match op {
        Op::Exchange { key, .. } | Op::TableGroupBy { key, .. } | Op::TableJoin { key, .. } => {
            vec![key]
        }
        Op::Suppress { key, value, .. } | Op::StreamTableJoin { key, value, .. } => {
            vec![key, value]
        }
        Op::StreamJoin {
            key,
            left_value,
            right_value,
            ..
        } => vec![key, left_value, right_value],
        Op::ForeignSubscribe {
            key,
            value,
            foreign,
            ..
        } => vec![key, value, foreign],
        Op::ForeignAnswer { key, foreign, .. } | Op::ForeignNotify { key, foreign, .. } => {
            vec![key, foreign]
        }
        Op::ForeignJoin { key, value, .. } => vec![key, value],
        Op::Offload {
            key,
            value,
            response,
            request_value,
            ..
        } => vec![key, value, response, request_value],
        _ => vec![],
    }
}
