//! Checks that the plan is a valid topology.
//!
//! Takes a decoded plan, returns what later passes need to know about each node ([`Shape`]), and adds
//! every finding to the list. Never names, never cuts stages, never decides serdes.

mod connections;
mod details;
mod expression_scope;
mod store_options;
pub(crate) mod timers;
mod topics;
mod windows;

use crate::logical::{DslCall, LogicalPlan};
use crate::problems::{Problems, place};
pub(crate) use connections::is_versioned;
use details::{details, serde_problem};
pub(crate) use windows::grace_above;

/// What a node produces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A stream of records.
    Stream,
    /// A table of updates.
    Table,
    /// A table that every lane can read.
    GlobalTable,
    /// A grouped stream, before its aggregation.
    Grouped,
    /// A grouped table, before its aggregation.
    GroupedTable,
    /// A grouped stream with time windows.
    Windowed,
    /// A grouped stream with sessions.
    SessionWindowed,
    /// Several grouped streams that share one aggregate.
    Cogrouped,
    /// Cogrouped streams with time windows.
    WindowedCogrouped,
    /// Cogrouped streams with sessions.
    SessionCogrouped,
    /// A split stream, before its branches.
    Split,
    /// A store.
    Store,
    /// Nothing: a terminal call.
    End,
    /// Invalid and already reported; findings that follow from it are not reported.
    Broken,
}

impl Kind {
    const fn words(self) -> &'static str {
        match self {
            Self::Stream => "a stream",
            Self::Table => "a table",
            Self::GlobalTable => "a global table",
            Self::Grouped => "a grouped stream",
            Self::GroupedTable => "a grouped table",
            Self::Windowed => "a windowed stream",
            Self::SessionWindowed => "a stream in sessions",
            Self::Cogrouped => "cogrouped streams",
            Self::WindowedCogrouped => "windowed cogrouped streams",
            Self::SessionCogrouped => "cogrouped streams in sessions",
            Self::Split => "a split stream",
            Self::Store => "a store",
            Self::End | Self::Broken => "nothing",
        }
    }

    /// Whether it has session windows.
    pub(crate) const fn is_session(self) -> bool {
        matches!(self, Self::SessionWindowed | Self::SessionCogrouped)
    }

    /// Whether it has time or session windows.
    pub(crate) const fn is_windowed(self) -> bool {
        self.is_session() || matches!(self, Self::Windowed | Self::WindowedCogrouped)
    }

    /// Whether it combines several grouped streams.
    pub(crate) const fn is_cogrouped(self) -> bool {
        matches!(
            self,
            Self::Cogrouped | Self::WindowedCogrouped | Self::SessionCogrouped
        )
    }
}

/// What later passes need to know about each node.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// What each node produces.
    pub(crate) kinds: Vec<Kind>,
    /// True if the key may differ from the one that chose the lane (Kafka Streams'
    /// `repartitionRequired`).
    pub(crate) rekeyed: Vec<bool>,
    /// The node that represents it: itself, or for a second `stream()` of the same topics the first one.
    pub(crate) same: Vec<usize>,
}

impl Shape {
    /// What a node produces.
    pub(crate) fn kind(&self, i: usize) -> Kind {
        self.kinds[i]
    }
}

/// Checks the plan.
pub(crate) fn check(plan: &LogicalPlan, problems: &mut Problems) -> Shape {
    let mut shape = Shape::default();
    if !plan.nodes.iter().any(|n| {
        matches!(
            n.call,
            DslCall::Stream { .. }
                | DslCall::Table { .. }
                | DslCall::GlobalTable { .. }
                | DslCall::GlobalStore { .. }
                | DslCall::Scheduled(_)
        )
    }) {
        problems.add("the topology reads nothing: begin it with builder.stream(topic) or builder.table(topic)");
    }
    for (argument, serde) in [
        ("default.key.serde", &plan.default_key),
        ("default.value.serde", &plan.default_value),
    ] {
        if let Some(what) = serde
            .as_ref()
            .and_then(|s| serde_problem(plan, argument, s))
        {
            problems.add(what);
        }
    }
    for (i, node) in plan.nodes.iter().enumerate() {
        let kind = kind_of(plan, i, &shape.kinds, problems);
        let rekeyed = kind != Kind::Broken && is_rekeyed(&node.call, kind, &shape);
        shape.kinds.push(kind);
        shape.rekeyed.push(rekeyed);
        shape.same.push(i);
        details(plan, i, problems);
        if kind != Kind::Broken {
            windows::windows(plan, &shape, i, problems);
            connections::arguments(plan, &shape, i, problems);
        }
    }
    topics::topics(plan, &mut shape, problems);
    connections::stores(plan, &shape, problems);
    timers::timers(plan, problems);
    shape
}

fn is_rekeyed(call: &DslCall, kind: Kind, shape: &Shape) -> bool {
    match call {
        // Ticks start in the first lane, whatever their key.
        DslCall::Scheduled(_)
        | DslCall::Map { .. }
        | DslCall::FlatMap { .. }
        | DslCall::SelectKey { .. }
        | DslCall::GroupBy { .. }
        | DslCall::Process {
            low_level: false, ..
        } => true,
        DslCall::Process { .. }
        | DslCall::Repartition { .. }
        | DslCall::Deduplicate { .. }
        | DslCall::Offload(_) => false,
        // A look-up by another key doesn't move the record.
        DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => {
            shape.kinds[j.other] == Kind::GlobalTable && shape.rekeyed[j.from]
        }
        _ if matches!(kind, Kind::Table | Kind::GlobalTable) => false,
        call => call.inputs().iter().any(|&from| shape.rekeyed[from]),
    }
}

/// The kinds that a call accepts, for each of its inputs.
fn accepted_kinds(call: &DslCall) -> Vec<&'static [Kind]> {
    const STREAM: &[Kind] = &[Kind::Stream];
    const TABLE: &[Kind] = &[Kind::Table];
    const STREAM_OR_TABLE: &[Kind] = &[Kind::Stream, Kind::Table];
    const GROUPED: &[Kind] = &[Kind::Grouped];
    match call {
        DslCall::Filter { .. }
        | DslCall::FilterNot { .. }
        | DslCall::MapValues { .. }
        | DslCall::GroupBy { .. } => vec![STREAM_OR_TABLE],
        DslCall::TransformValues { .. } | DslCall::Suppress { .. } | DslCall::ToStream { .. } => {
            vec![TABLE]
        }
        DslCall::Branch { .. } => vec![&[Kind::Split]],
        DslCall::WindowedBy { .. } => vec![&[Kind::Grouped, Kind::Cogrouped]],
        DslCall::EmitStrategy { .. } => vec![&[Kind::Windowed, Kind::SessionWindowed]],
        DslCall::Cogroup { other: None, .. } => vec![GROUPED],
        DslCall::Cogroup { .. } => vec![&[Kind::Cogrouped], GROUPED],
        DslCall::Count { .. } | DslCall::Reduce { .. } => vec![&[
            Kind::Grouped,
            Kind::GroupedTable,
            Kind::Windowed,
            Kind::SessionWindowed,
        ]],
        DslCall::Aggregate { .. } => vec![&[
            Kind::Grouped,
            Kind::GroupedTable,
            Kind::Windowed,
            Kind::SessionWindowed,
            Kind::Cogrouped,
            Kind::WindowedCogrouped,
            Kind::SessionCogrouped,
        ]],
        DslCall::Join(_) | DslCall::LeftJoin(_) => vec![
            STREAM_OR_TABLE,
            &[Kind::Stream, Kind::Table, Kind::GlobalTable],
        ],
        DslCall::OuterJoin(_) => vec![STREAM_OR_TABLE, STREAM_OR_TABLE],
        call => vec![STREAM; call.inputs().len()],
    }
}

fn kind_of(plan: &LogicalPlan, i: usize, kinds: &[Kind], problems: &mut Problems) -> Kind {
    let call = &plan.nodes[i].call;
    let mut broken = false;
    for (from, wanted) in call.inputs().into_iter().zip(accepted_kinds(call)) {
        match kinds.get(from) {
            None => {
                problems.at(
                    plan,
                    i,
                    format!("its input {from} is not an earlier node (there are {i} before it)"),
                );
                broken = true;
            }
            Some(Kind::Broken) => broken = true,
            Some(kind) if wanted.contains(kind) => {}
            Some(kind) => {
                let source = place(&plan.nodes[from], from);
                let hint = advice(call, *kind, wanted);
                problems.at(
                    plan,
                    i,
                    format!(
                        "needs {}, but {source} gives {}; {hint}",
                        listed(wanted),
                        kind.words()
                    ),
                );
                broken = true;
            }
        }
    }
    if broken {
        return Kind::Broken;
    }
    output_kind(call, kinds)
}

fn output_kind(call: &DslCall, kinds: &[Kind]) -> Kind {
    match call {
        DslCall::Table { .. }
        | DslCall::ToTable { .. }
        | DslCall::TransformValues { .. }
        | DslCall::Suppress { .. }
        | DslCall::Count { .. }
        | DslCall::Reduce { .. }
        | DslCall::Aggregate { .. } => Kind::Table,
        DslCall::GlobalTable { .. } => Kind::GlobalTable,
        DslCall::StateStore { .. } => Kind::Store,
        DslCall::Filter { from, .. }
        | DslCall::FilterNot { from, .. }
        | DslCall::MapValues { from, .. }
        | DslCall::Join(crate::logical::JoinArguments { from, .. })
        | DslCall::LeftJoin(crate::logical::JoinArguments { from, .. })
        | DslCall::OuterJoin(crate::logical::JoinArguments { from, .. }) => kinds[*from],
        DslCall::GroupByKey { .. } => Kind::Grouped,
        DslCall::GroupBy { from, .. } if kinds[*from] == Kind::Table => Kind::GroupedTable,
        DslCall::GroupBy { .. } => Kind::Grouped,
        DslCall::WindowedBy { from, window, .. } => {
            let session = matches!(window, crate::window::Window::Session { .. });
            match (kinds[*from], session) {
                (Kind::Cogrouped, true) => Kind::SessionCogrouped,
                (Kind::Cogrouped, false) => Kind::WindowedCogrouped,
                (_, true) => Kind::SessionWindowed,
                (_, false) => Kind::Windowed,
            }
        }
        DslCall::EmitStrategy { from, .. } => kinds[*from],
        DslCall::Cogroup { .. } => Kind::Cogrouped,
        DslCall::Split { .. } => Kind::Split,
        DslCall::Foreach { .. }
        | DslCall::ForeachBatch { .. }
        | DslCall::To { .. }
        | DslCall::GlobalStore { .. } => Kind::End,
        _ => Kind::Stream,
    }
}

fn listed(kinds: &[Kind]) -> String {
    // If a plain grouping is accepted, its windowed variants need no mention.
    let plain: Vec<&str> = kinds
        .iter()
        .filter(|k| !k.is_windowed() || !kinds.contains(&Kind::Grouped))
        .map(|k| k.words())
        .collect();
    match plain.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => plain.join(""),
    }
}

fn advice(call: &DslCall, given: Kind, wanted: &[Kind]) -> &'static str {
    let wants = |kind| wanted.contains(&kind);
    match given {
        Kind::GlobalTable => "join a stream with it, that is all a global table is for",
        Kind::Store => "give its name to a processor, in stores=",
        Kind::Split => "call .branch(...) on it, and go on with its branches",
        Kind::Table
            if matches!(
                call,
                DslCall::Count { .. } | DslCall::Reduce { .. } | DslCall::Aggregate { .. }
            ) =>
        {
            "call .group_by(...) first, or .to_stream() and .group_by_key()"
        }
        Kind::Table if wants(Kind::Stream) => "call .to_stream() on the table first",
        Kind::Table if wants(Kind::Grouped) => {
            "call .to_stream() and .group_by_key() or .group_by(...) first"
        }
        Kind::GroupedTable if wants(Kind::Grouped) => {
            "windows are for streams: call .to_stream() before the grouping"
        }
        Kind::Windowed | Kind::SessionWindowed if matches!(call, DslCall::WindowedBy { .. }) => {
            "it has windows already: leave one of them out"
        }
        Kind::WindowedCogrouped | Kind::SessionCogrouped
            if matches!(call, DslCall::EmitStrategy { .. }) =>
        {
            "cogrouped streams give every update: use .suppress(...) on the result"
        }
        Kind::Cogrouped | Kind::WindowedCogrouped | Kind::SessionCogrouped => {
            "aggregate it, with .aggregate(initializer)"
        }
        Kind::Stream if matches!(call, DslCall::ToStream { .. }) => {
            "it is a stream already: leave the call out"
        }
        Kind::Stream if matches!(call, DslCall::Suppress { .. }) => {
            "only tables hold results back: aggregate it, or call .to_table() first"
        }
        Kind::Stream if wants(Kind::Grouped) || wants(Kind::Windowed) => {
            "call .group_by_key() or .group_by(...) first"
        }
        Kind::Stream if wants(Kind::Table) => "call .to_table() first, or aggregate it",
        Kind::Stream if wants(Kind::Split) => "call .split() first",
        Kind::Grouped if wants(Kind::Windowed) => "call .windowed_by(...) first",
        Kind::Grouped if wants(Kind::Cogrouped) => "call .cogroup(...) on the first grouped stream",
        Kind::Grouped | Kind::GroupedTable | Kind::Windowed | Kind::SessionWindowed
            if wants(Kind::Table) && !wants(Kind::Stream) =>
        {
            "aggregate it first, with .count(), .reduce(...) or .aggregate(...)"
        }
        Kind::Grouped | Kind::GroupedTable | Kind::Windowed | Kind::SessionWindowed => {
            "call it before the grouping, or aggregate and call .to_stream() first"
        }
        _ => "build on what comes before it",
    }
}

#[cfg(test)]
mod tests;
