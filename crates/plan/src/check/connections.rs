//! Checks that calls fit together beyond their kinds: joins, aggregations, branches and processors.
//!
//! Takes a call and the kinds of its inputs, adds findings. Never decides what the arguments mean.

use super::{Kind, Shape};
use crate::aggregation::members;
use crate::function::Function;
use crate::logical::{DslCall, JoinArguments, LogicalPlan};
use crate::native_aggregation::Aggregation;
use crate::problems::{Problems, place};
use crate::spec::SerdeSpec;
use crate::suggestion::suggestion;
use crate::tables::named_store;

/// Checks which arguments the call has, given the kinds of its inputs.
pub(super) fn arguments(plan: &LogicalPlan, shape: &Shape, i: usize, problems: &mut Problems) {
    let call = &plan.nodes[i].call;
    let mut found: Vec<String> = Vec::new();
    match call {
        DslCall::Reduce {
            from, subtractor, ..
        } => {
            found.extend(table_grouping(shape.kind(*from), subtractor.is_some()));
        }
        DslCall::Aggregate { .. } => found.extend(aggregate(plan, shape, call)),
        DslCall::Branch { from, .. } => {
            let after = (0..i).find(|&b| {
                matches!(&plan.nodes[b].call, DslCall::Branch { from: f, function: None } if f == from)
            });
            if let Some(default) = after {
                found.push(format!(
                    "comes after the default branch ({}), which takes everything: no record can reach it",
                    place(&plan.nodes[default], default)
                ));
            }
        }
        DslCall::Filter {
            from, materialized, ..
        }
        | DslCall::FilterNot {
            from, materialized, ..
        }
        | DslCall::MapValues {
            from, materialized, ..
        } if shape.kind(*from) == Kind::Stream && materialized.is_some() => {
            found.push("is called on a stream, and only tables are kept: leave store= out, or call .to_table(store=...) on the result".into());
        }
        DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => {
            found.extend(join(plan, shape, call, j));
        }
        DslCall::Suppress { from, .. } if is_versioned(plan, *from) => {
            found.push("can't hold back a versioned table, whose late updates must go on: keep the table without a history, or leave suppress out".into());
        }
        DslCall::Process { processor, .. }
        | DslCall::ProcessValues { processor, .. }
        | DslCall::TransformValues { processor, .. }
        | DslCall::GlobalStore { processor, .. }
            if *processor as usize >= plan.processors.len() =>
        {
            found.push(format!(
                "its processor {processor} is not in the table of {} processors",
                plan.processors.len()
            ));
        }
        DslCall::To {
            topic,
            topic_function,
            ..
        } if topic.is_some() == topic_function.is_some() => {
            found.push("needs a topic or a function that chooses one, and not both".into());
        }
        _ => {}
    }
    if let DslCall::Process { from, .. } = call
        && from.is_empty()
    {
        found.push("has no parent, so no record can reach it: name a source or a processor".into());
    }
    if let DslCall::To { from, .. } = call
        && from.all().is_empty()
    {
        found.push("has no parent, so no record can reach it: name a source or a processor".into());
    }
    for what in found {
        problems.at(plan, i, what);
    }
}

/// The native aggregation of an `aggregate`, if it is one; for a cogroup the combined one.
fn native(
    plan: &LogicalPlan,
    from: usize,
    function: Option<&Function>,
) -> Result<Option<Aggregation>, String> {
    let functions = members(plan, from, function).into_iter();
    let functions: Vec<&Function> = functions.filter_map(|(_, function)| function).collect();
    let native = functions.iter().filter_map(|function| match function {
        Function::Aggregation(aggregation) => Some(aggregation.as_ref()),
        _ => None,
    });
    let native: Vec<&Aggregation> = native.collect();
    if native.is_empty() {
        return Ok(None);
    }
    if native.len() < functions.len() {
        return Err("some of its streams are aggregated natively and some by functions, but they share one aggregate: use one or the other for all".into());
    }
    Ok(Aggregation::together(&native)?.into_iter().next())
}

fn aggregate(plan: &LogicalPlan, shape: &Shape, call: &DslCall) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let DslCall::Aggregate {
        from,
        function,
        subtractor,
        merger,
        materialized,
        ..
    } = call
    else {
        return found;
    };
    let kind = shape.kind(*from);
    let native = match native(plan, *from, function.as_ref()) {
        Ok(native) => native,
        Err(what) => {
            found.push(what);
            None
        }
    };
    match (&native, subtractor) {
        (Some(one), None) => {
            let not_subtractable = one
                .first_not_subtractable()
                .filter(|_| kind == Kind::GroupedTable);
            found.extend(not_subtractable.map(|kind| format!(
                "aggregates a table, whose rows change, and {} can't take the old value away again: use sum, count or avg, or functions", kind.name()
            )));
        }
        (Some(_), Some(_)) => {
            found.push("has an aggregation that takes away by itself: leave subtractor= out".into())
        }
        (None, _) => found.extend(table_grouping(kind, subtractor.is_some())),
    }
    let value = materialized.as_ref().and_then(|m| m.value.as_ref());
    let other = match value {
        Some(SerdeSpec::Builtin(name)) if name != "json" => Some(name.as_str()),
        Some(SerdeSpec::Avro { .. }) => Some("avro"),
        Some(SerdeSpec::Protobuf { .. }) => Some("protobuf"),
        Some(SerdeSpec::JsonSchema { .. }) => Some("json_schema"),
        _ => None,
    };
    if let (Some(native), Some(name)) = (&native, other)
        && native.is_state()
    {
        found.push(format!(
            "keeps more than its result, as JSON ({native}), which the serde {name} can't write: leave value= out"
        ));
    }
    if kind.is_cogrouped() && function.is_some() {
        found.push("each cogrouped stream has its own aggregator: leave this one out".into());
    }
    if !kind.is_cogrouped() && function.is_none() {
        found.push("needs an aggregator: (key, value, aggregate)".into());
    }
    if kind.is_session() && merger.is_none() && native.is_none() {
        found.push(
            "puts sessions together: add merger=, a function of (key, aggregate, other)".into(),
        );
    }
    if !kind.is_session() && merger.is_some() {
        found.push("has no sessions to put together: leave merger= out".into());
    }
    if kind.is_session() && merger.is_some() && native.is_some() {
        found.push(
            "has an aggregation that puts sessions together by itself: leave merger= out".into(),
        );
    }
    found
}

fn table_grouping(kind: Kind, subtractor: bool) -> Option<String> {
    match (kind == Kind::GroupedTable, subtractor) {
        (true, false) => Some("aggregates a table, whose rows change: add a function that takes the old value away (subtractor=)".into()),
        (false, true) => Some("aggregates a stream, from which nothing is taken away: leave subtractor= out".into()),
        _ => None,
    }
}

fn join(plan: &LogicalPlan, shape: &Shape, call: &DslCall, j: &JoinArguments) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let sides = (shape.kind(j.from), shape.kind(j.other));
    let what = match sides {
        (Kind::Stream, Kind::Stream) => "of two streams",
        (Kind::Stream, Kind::Table) => "of a stream with a table",
        (Kind::Stream, _) => "of a stream with a global table",
        (_, Kind::Table) => "of two tables",
        _ => {
            found.push(format!(
                "can't join {} with {}: call .to_stream() on the left side, or read the right side with builder.table()",
                sides.0.words(),
                sides.1.words()
            ));
            return found;
        }
    };
    let streams = sides == (Kind::Stream, Kind::Stream);
    let global = sides.1 == Kind::GlobalTable;
    let tables = sides == (Kind::Table, Kind::Table);
    if streams && j.window.is_none() {
        found.push("a join of two streams needs a window: add window=JoinWindows(...)".into());
    }
    if !streams && j.window.is_some() {
        found.push(format!("a join {what} has no window: leave it out"));
    }
    if global && j.key_function.is_none() {
        found.push(
            "needs a function (key, value) that gives the key to look up in the global table"
                .into(),
        );
    }
    if !global && j.key_function.is_some() {
        found.push(format!("a join {what} is by the key of the record: leave the key function out, or call .select_key(...) first"));
    }
    if !tables && j.foreign_key.is_some() {
        found.push("foreign keys join two tables: call .to_table() first".into());
    }
    if !tables && j.materialized.is_some() {
        found.push(format!("a join {what} gives a stream, which is not kept: leave store= out, or call .to_table(store=...) on the result"));
    }
    let by_key = tables && j.foreign_key.is_none();
    if matches!(call, DslCall::OuterJoin(_)) && !streams && !by_key {
        found.push(if tables {
            "a join by foreign key can be inner or left: the rows of the right side without a partner have no key to go by".into()
        } else {
            format!("a join {what} can be inner or left: what the table holds alone has no record to come out with")
        });
    }
    if j.grace_ms.is_some() && (sides.0 != Kind::Stream || sides.1 != Kind::Table) {
        found.push(format!("a join {what} doesn't wait: leave grace= out"));
    }
    if let (Some(grace), (Kind::Stream, Kind::Table)) = (j.grace_ms, sides) {
        match history(plan, j.other) {
            None => found.push("waits for late records of the table, so it needs a versioned table: give the table Materialized(history=...)".into()),
            Some(history) if history < grace => found.push(format!(
                "waits {grace} ms, but the table knows only the last {history} ms: give it a history of at least the grace"
            )),
            Some(_) => {}
        }
    }
    if (tables || sides.1 == Kind::Table) && !global {
        for side in [j.from, j.other] {
            if let Some(at) = suppressed(plan, shape, side) {
                found.push(format!(
                    "reads {} by key, and what it holds back can't be read; call .to_stream().to_table(store=...) on it first",
                    place(&plan.nodes[at], at)
                ));
            }
        }
    }
    found
}

/// Whether the updates of a table are versions: its store is versioned, or it is a view of such a table.
pub(crate) fn is_versioned(plan: &LogicalPlan, i: usize) -> bool {
    let call = &plan.nodes[i].call;
    match (call, call.materialized()) {
        (_, Some(m)) => m.history_ms.is_some(),
        (
            DslCall::Filter { from, .. }
            | DslCall::FilterNot { from, .. }
            | DslCall::MapValues { from, .. }
            | DslCall::TransformValues { from, .. },
            None,
        ) => is_versioned(plan, *from),
        _ => false,
    }
}

/// How long the table behind a view keeps its history.
fn history(plan: &LogicalPlan, i: usize) -> Option<i64> {
    let call = &plan.nodes[i].call;
    match call {
        DslCall::Filter {
            from, materialized, ..
        }
        | DslCall::FilterNot {
            from, materialized, ..
        }
        | DslCall::MapValues {
            from, materialized, ..
        }
        | DslCall::TransformValues {
            from, materialized, ..
        } if materialized.as_ref().is_none_or(|m| m.store.is_none()) => history(plan, *from),
        DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j)
            if j.materialized.is_none() =>
        {
            Some(history(plan, j.from)?.min(history(plan, j.other)?))
        }
        call => call.materialized().and_then(|m| m.history_ms),
    }
}

/// The `suppress` that serves the reads by key of this table, if there is one.
fn suppressed(plan: &LogicalPlan, shape: &Shape, i: usize) -> Option<usize> {
    let call = &plan.nodes[i].call;
    if shape.kind(i) != Kind::Table || named_store(call).is_some() {
        return None;
    }
    match call {
        DslCall::Suppress { .. } => Some(i),
        DslCall::Filter { from, .. }
        | DslCall::FilterNot { from, .. }
        | DslCall::MapValues { from, .. }
        | DslCall::TransformValues { from, .. } => suppressed(plan, shape, *from),
        DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j)
            if j.materialized.is_none() && j.foreign_key.is_none() =>
        {
            suppressed(plan, shape, j.from).or_else(|| suppressed(plan, shape, j.other))
        }
        _ => None,
    }
}

/// Checks that the stores of processors exist, and that declared stores are used.
pub(super) fn stores(plan: &LogicalPlan, shape: &Shape, problems: &mut Problems) {
    let mut known: Vec<&str> = Vec::new();
    for node in &plan.nodes {
        match &node.call {
            DslCall::StateStore { store, .. } | DslCall::GlobalStore { store, .. } => {
                known.push(store)
            }
            call => known.extend(named_store(call)),
        }
    }
    let used = |call: &DslCall| -> Vec<String> {
        match call {
            DslCall::Process { stores, .. }
            | DslCall::ProcessValues { stores, .. }
            | DslCall::TransformValues { stores, .. } => stores.clone(),
            _ => vec![],
        }
    };
    let mut taken: Vec<String> = Vec::new();
    for (i, node) in plan.nodes.iter().enumerate() {
        for (n, store) in used(&node.call).iter().enumerate() {
            if !known.contains(&store.as_str()) {
                let near = if known.is_empty() {
                    "the topology has no named stores".to_owned()
                } else {
                    suggestion(store, &known)
                };
                problems.at(
                    plan,
                    i,
                    format!("the store '{store}' is unknown, {near}; add it with builder.add_state_store(...)"),
                );
            }
            if let Some(later) = plan.nodes[i..]
                .iter()
                .position(|n| named_store(&n.call) == Some(store))
            {
                let other = place(&plan.nodes[i + later], i + later);
                problems.at(
                    plan,
                    i,
                    format!(
                        "the store '{store}' belongs to {other}, which comes later: call that first"
                    ),
                );
            }
            if used(&node.call)[..n].contains(store) {
                problems.at(
                    plan,
                    i,
                    format!("names the store '{store}' twice: name it once"),
                );
            }
            taken.push(store.clone());
        }
    }
    for (i, node) in plan.nodes.iter().enumerate() {
        if let DslCall::StateStore { store, .. } = &node.call
            && shape.kind(i) == Kind::Store
            && !taken.contains(store)
        {
            problems.at(
                plan,
                i,
                format!("the store '{store}' is not connected to any processor: name it in stores= of the processor that uses it, or leave it out"),
            );
        }
    }
}

#[cfg(test)]
mod tests;
