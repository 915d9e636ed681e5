//! Accessors of a DSL call for later passes: its name, parents, functions, serdes and store.
//!
//! Takes a [`DslCall`], returns references into it. Never decides anything.

use crate::TimestampExtractor;
use crate::function::Function;
use crate::logical::{DslCall, JoinArguments};
use crate::materialized::{Expiry, Materialized};
use crate::spec::SerdeSpec;
use stoatflow_core::Late;

/// The JSON names of all calls, in the order of [`DslCall`].
pub const CALLS: &[&str] = &[
    "stream",
    "table",
    "global_table",
    "state_store",
    "global_store",
    "scheduled",
    "filter",
    "filter_not",
    "map",
    "map_values",
    "flat_map",
    "flat_map_values",
    "map_batches",
    "select_key",
    "peek",
    "foreach",
    "foreach_batch",
    "merge",
    "split",
    "branch",
    "repartition",
    "to_table",
    "process",
    "process_values",
    "transform_values",
    "group_by_key",
    "group_by",
    "windowed_by",
    "emit_strategy",
    "cogroup",
    "count",
    "reduce",
    "aggregate",
    "suppress",
    "join",
    "left_join",
    "outer_join",
    "deduplicate",
    "offload",
    "to_stream",
    "to",
];

impl DslCall {
    /// Its JSON name, equal to the DSL method.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stream { .. } => "stream",
            Self::Table { .. } => "table",
            Self::GlobalTable { .. } => "global_table",
            Self::StateStore { .. } => "state_store",
            Self::GlobalStore { .. } => "global_store",
            Self::Scheduled(_) => "scheduled",
            Self::Filter { .. } => "filter",
            Self::FilterNot { .. } => "filter_not",
            Self::Map { .. } => "map",
            Self::MapValues { .. } => "map_values",
            Self::FlatMap { .. } => "flat_map",
            Self::FlatMapValues { .. } => "flat_map_values",
            Self::MapBatches { .. } => "map_batches",
            Self::SelectKey { .. } => "select_key",
            Self::Peek { .. } => "peek",
            Self::Foreach { .. } => "foreach",
            Self::ForeachBatch { .. } => "foreach_batch",
            Self::Merge { .. } => "merge",
            Self::Split { .. } => "split",
            Self::Branch { .. } => "branch",
            Self::Repartition { .. } => "repartition",
            Self::ToTable { .. } => "to_table",
            Self::Process { .. } => "process",
            Self::ProcessValues { .. } => "process_values",
            Self::TransformValues { .. } => "transform_values",
            Self::GroupByKey { .. } => "group_by_key",
            Self::GroupBy { .. } => "group_by",
            Self::WindowedBy { .. } => "windowed_by",
            Self::EmitStrategy { .. } => "emit_strategy",
            Self::Cogroup { .. } => "cogroup",
            Self::Count { .. } => "count",
            Self::Reduce { .. } => "reduce",
            Self::Aggregate { .. } => "aggregate",
            Self::Suppress { .. } => "suppress",
            Self::Join(_) => "join",
            Self::LeftJoin(_) => "left_join",
            Self::OuterJoin(_) => "outer_join",
            Self::Deduplicate { .. } => "deduplicate",
            Self::Offload(_) => "offload",
            Self::ToStream { .. } => "to_stream",
            Self::To { .. } => "to",
        }
    }

    /// The arguments of a join, if it is one.
    #[must_use]
    pub const fn joining(&self) -> Option<&JoinArguments> {
        match self {
            Self::Join(j) | Self::LeftJoin(j) | Self::OuterJoin(j) => Some(j),
            _ => None,
        }
    }

    /// The earlier nodes it reads from.
    #[must_use]
    pub fn inputs(&self) -> Vec<usize> {
        match self {
            Self::Stream { .. }
            | Self::Table { .. }
            | Self::GlobalTable { .. }
            | Self::StateStore { .. }
            | Self::GlobalStore { .. }
            | Self::Scheduled(_) => vec![],
            Self::Merge { from, other } => vec![*from, *other],
            Self::Cogroup { from, other, .. } => {
                [Some(*from), *other].into_iter().flatten().collect()
            }
            Self::Join(j) | Self::LeftJoin(j) | Self::OuterJoin(j) => vec![j.from, j.other],
            Self::Offload(o) => vec![o.from],
            Self::Process { from, .. } => from.clone(),
            Self::To { from, .. } => from.all(),
            Self::Filter { from, .. }
            | Self::FilterNot { from, .. }
            | Self::Map { from, .. }
            | Self::MapValues { from, .. }
            | Self::FlatMap { from, .. }
            | Self::FlatMapValues { from, .. }
            | Self::MapBatches { from, .. }
            | Self::SelectKey { from, .. }
            | Self::Peek { from, .. }
            | Self::Foreach { from, .. }
            | Self::ForeachBatch { from, .. }
            | Self::Split { from }
            | Self::Branch { from, .. }
            | Self::Repartition { from, .. }
            | Self::ToTable { from, .. }
            | Self::ProcessValues { from, .. }
            | Self::TransformValues { from, .. }
            | Self::GroupByKey { from, .. }
            | Self::GroupBy { from, .. }
            | Self::WindowedBy { from, .. }
            | Self::EmitStrategy { from, .. }
            | Self::Count { from, .. }
            | Self::Reduce { from, .. }
            | Self::Aggregate { from, .. }
            | Self::Suppress { from, .. }
            | Self::Deduplicate { from, .. }
            | Self::ToStream { from } => vec![*from],
        }
    }

    /// The functions it calls.
    #[must_use]
    pub fn functions(&self) -> Vec<&Function> {
        match self {
            Self::Filter { function, .. }
            | Self::FilterNot { function, .. }
            | Self::Map { function, .. }
            | Self::MapValues { function, .. }
            | Self::FlatMap { function, .. }
            | Self::FlatMapValues { function, .. }
            | Self::MapBatches { function, .. }
            | Self::SelectKey { function, .. }
            | Self::Peek { function, .. }
            | Self::Foreach { function, .. }
            | Self::ForeachBatch { function, .. }
            | Self::Cogroup { function, .. }
            | Self::GroupBy { function, .. } => vec![function],
            Self::Branch { function, .. } | Self::Deduplicate { function, .. } => {
                function.iter().collect()
            }
            Self::Reduce {
                function,
                subtractor,
                ..
            } => [Some(function), subtractor.as_ref()]
                .into_iter()
                .flatten()
                .collect(),
            Self::Aggregate {
                initializer,
                function,
                subtractor,
                merger,
                ..
            } => [
                Some(initializer),
                function.as_ref(),
                subtractor.as_ref(),
                merger.as_ref(),
            ]
            .into_iter()
            .flatten()
            .collect(),
            Self::Join(j) | Self::LeftJoin(j) | Self::OuterJoin(j) => [
                j.key_function.as_ref(),
                j.foreign_key.as_ref(),
                Some(&j.function),
            ]
            .into_iter()
            .flatten()
            .collect(),
            Self::Offload(o) => [&o.request, &o.instead_of_timeout, &o.instead_of_error]
                .into_iter()
                .flatten()
                .chain([&o.function])
                .collect(),
            Self::To {
                topic_function,
                partitioner,
                ..
            } => topic_function.iter().chain(partitioner).collect(),
            _ => vec![],
        }
    }

    /// Its timestamp extractor, if it has one.
    #[must_use]
    pub const fn timestamp(&self) -> Option<&TimestampExtractor> {
        match self {
            Self::Stream { timestamp, .. }
            | Self::Table { timestamp, .. }
            | Self::GlobalTable { timestamp, .. }
            | Self::GlobalStore { timestamp, .. } => timestamp.as_ref(),
            _ => None,
        }
    }

    /// Its policy for late records, if it has one.
    #[must_use]
    pub const fn late(&self) -> Option<&Late> {
        match self {
            Self::Stream { late, .. } | Self::Table { late, .. } => late.as_ref(),
            _ => None,
        }
    }

    /// How its table is materialized, if it says so.
    #[must_use]
    pub const fn materialized(&self) -> Option<&Materialized> {
        match self {
            Self::Table { materialized, .. }
            | Self::GlobalTable { materialized, .. }
            | Self::Filter { materialized, .. }
            | Self::FilterNot { materialized, .. }
            | Self::MapValues { materialized, .. }
            | Self::ToTable { materialized, .. }
            | Self::TransformValues { materialized, .. }
            | Self::Deduplicate { materialized, .. }
            | Self::Count { materialized, .. }
            | Self::Reduce { materialized, .. }
            | Self::Aggregate { materialized, .. } => materialized.as_ref(),
            Self::Join(j) | Self::LeftJoin(j) | Self::OuterJoin(j) => j.materialized.as_ref(),
            Self::Offload(o) => o.materialized.as_ref(),
            _ => None,
        }
    }

    /// When rows of its store expire.
    #[must_use]
    pub fn expiry(&self) -> Option<&Expiry> {
        match self {
            Self::StateStore { expiry, .. } => expiry.as_ref(),
            call => call.materialized()?.expiry.as_ref(),
        }
    }

    /// The serdes it sets, with the name of the argument.
    #[must_use]
    pub fn serdes(&self) -> Vec<(&'static str, &SerdeSpec)> {
        let (key, value) = match self {
            Self::Stream { key, value, .. }
            | Self::Table { key, value, .. }
            | Self::GlobalTable { key, value, .. }
            | Self::StateStore { key, value, .. }
            | Self::GlobalStore { key, value, .. } => (Some(key), Some(value)),
            Self::GroupByKey { key, value, .. }
            | Self::GroupBy { key, value, .. }
            | Self::Repartition { key, value, .. }
            | Self::To { key, value, .. } => (key.as_ref(), value.as_ref()),
            Self::Join(j) | Self::LeftJoin(j) | Self::OuterJoin(j) => {
                (j.key.as_ref(), j.value.as_ref())
            }
            Self::Offload(o) => (o.key.as_ref(), Some(&o.response_value)),
            _ => (None, None),
        };
        let mut all = Vec::new();
        all.extend(key.map(|s| ("key", s)));
        all.extend(value.map(|s| ("value", s)));
        if let Some(other) = self.joining().and_then(|j| j.other_value.as_ref()) {
            all.push(("other", other));
        }
        if let Self::Offload(o) = self {
            all.extend(o.request_value.as_ref().map(|s| ("request_value", s)));
        }
        if let Some(m) = self.materialized() {
            all.extend(m.key.as_ref().map(|s| ("materialized key", s)));
            all.extend(m.value.as_ref().map(|s| ("materialized value", s)));
        }
        all
    }
}
