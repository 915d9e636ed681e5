//! Is the plan a topology?
//!
//! Takes a decoded plan, gives what later passes need to know of each node ([`Shape`]), and adds
//! every finding to the list. Never names, never cuts, never decides serdes.

use crate::logical::{Call, Function, LogicalPlan, SerdeSpec};
use crate::problems::{Problems, place, suggestion};
use crate::{Expression, Literal};
use indexmap::IndexMap;

/// What a node gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A stream of records.
    Stream,
    /// A table of updates.
    Table,
    /// A stream that waits for its aggregation.
    Grouped,
    /// Nothing: a terminal call.
    End,
    /// It is wrong and was reported; what follows from it is not.
    Broken,
}

impl Kind {
    const fn words(self) -> &'static str {
        match self {
            Self::Stream => "a stream",
            Self::Table => "a table",
            Self::Grouped => "a grouped stream",
            Self::End | Self::Broken => "nothing",
        }
    }
}

/// What later passes need to know of each node.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// What it gives.
    pub(crate) kinds: Vec<Kind>,
    /// May the key differ from that of the lane? (Kafka Streams' `repartitionRequired`.)
    pub(crate) rekeyed: Vec<bool>,
    /// The node that stands for it: itself, or for a second `stream()` of the same topics the first.
    pub(crate) same: Vec<usize>,
}

/// Calls that the later passes know.
const AVAILABLE: &[&str] = &[
    "stream",
    "table",
    "filter",
    "filter_not",
    "map",
    "map_values",
    "flat_map",
    "flat_map_values",
    "select_key",
    "peek",
    "foreach",
    "merge",
    "group_by_key",
    "group_by",
    "count",
    "reduce",
    "aggregate",
    "to_stream",
    "to",
];
const SERDES: &[&str] = &["bytes", "string", "int32", "int64", "double", "json"];
const CASTS: &[&str] = &["int", "float", "str", "bool", "json"];

/// Checks the plan.
pub(crate) fn check(plan: &LogicalPlan, problems: &mut Problems) -> Shape {
    let mut shape = Shape::default();
    if !plan
        .nodes
        .iter()
        .any(|n| matches!(n.call, Call::Stream { .. } | Call::Table { .. }))
    {
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
        let before = shape.kinds.len();
        let kind = kind_of(plan, i, &shape.kinds[..before], problems);
        let rekeyed = kind != Kind::Broken
            && match &node.call {
                Call::Map { .. }
                | Call::FlatMap { .. }
                | Call::SelectKey { .. }
                | Call::GroupBy { .. } => true,
                Call::Count { .. } | Call::Reduce { .. } | Call::Aggregate { .. } => false,
                call => call.inputs().iter().any(|&from| shape.rekeyed[from]),
            };
        shape.kinds.push(kind);
        shape.rekeyed.push(rekeyed);
        shape.same.push(i);
        details(plan, i, problems);
    }
    topics(plan, &mut shape, problems);
    shape
}

fn kind_of(plan: &LogicalPlan, i: usize, kinds: &[Kind], problems: &mut Problems) -> Kind {
    let call = &plan.nodes[i].call;
    let mut broken = false;
    if !AVAILABLE.contains(&call.name()) || call.needs_more() {
        problems.at(plan, i, "is not available yet");
        return Kind::Broken;
    }
    let wanted = match call {
        Call::Stream { .. } | Call::Table { .. } => Kind::End,
        Call::Count { .. } | Call::Reduce { .. } | Call::Aggregate { .. } => Kind::Grouped,
        Call::ToStream { .. } => Kind::Table,
        _ => Kind::Stream,
    };
    for from in call.inputs() {
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
            Some(kind) if *kind == wanted => {}
            Some(kind) => {
                let source = place(&plan.nodes[from], from);
                let hint = advice(*kind, wanted);
                problems.at(
                    plan,
                    i,
                    format!(
                        "needs {}, but {source} gives {}; {hint}",
                        wanted.words(),
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
    match call {
        Call::Table { .. } | Call::Count { .. } | Call::Reduce { .. } | Call::Aggregate { .. } => {
            Kind::Table
        }
        Call::GroupByKey { .. } | Call::GroupBy { .. } => Kind::Grouped,
        Call::Foreach { .. } | Call::To { .. } => Kind::End,
        _ => Kind::Stream,
    }
}

const fn advice(given: Kind, wanted: Kind) -> &'static str {
    match (given, wanted) {
        (Kind::Table, Kind::Stream) => "call .to_stream() on the table first",
        (Kind::Table, Kind::Grouped) => {
            "call .to_stream() and .group_by_key() or .group_by(...) first"
        }
        (Kind::Grouped, Kind::Stream) => {
            "call it before the grouping, or aggregate and call .to_stream() first"
        }
        (Kind::Grouped, Kind::Table) => {
            "aggregate it first, with .count(), .reduce(...) or .aggregate(...)"
        }
        (Kind::Stream, Kind::Grouped) => "call .group_by_key() or .group_by(...) first",
        (Kind::Stream, Kind::Table) => "it is a stream already: leave the call out",
        _ => "build on what comes before it",
    }
}

fn details(plan: &LogicalPlan, i: usize, problems: &mut Problems) {
    let node = &plan.nodes[i];
    for (argument, serde) in node.call.serdes() {
        if let Some(what) = serde_problem(plan, argument, serde) {
            problems.at(plan, i, what);
        }
    }
    for function in node.call.functions() {
        match function {
            Function::Udf(u) if *u as usize >= plan.functions.len() => {
                problems.at(
                    plan,
                    i,
                    format!(
                        "its function {u} is not in the table of {} functions",
                        plan.functions.len()
                    ),
                );
            }
            Function::Udf(_) => {}
            Function::Expr(e) => expression(plan, i, e, problems),
        }
    }
    if let Some(what) = node.name.as_deref().and_then(|n| name_problem("name", n)) {
        problems.at(plan, i, what);
    }
    if let Some(what) = node
        .call
        .materialized()
        .and_then(|m| m.store.as_deref())
        .and_then(|n| name_problem("store", n))
    {
        problems.at(plan, i, what);
    }
    let topics: Vec<&String> = match &node.call {
        Call::Stream { topics, .. } if topics.is_empty() => {
            problems.at(plan, i, "reads nothing: name at least one topic");
            vec![]
        }
        Call::Stream { topics, .. } => topics.iter().collect(),
        Call::Table { topic, .. }
        | Call::To {
            topic: Some(topic), ..
        } => vec![topic],
        _ => vec![],
    };
    for (n, topic) in topics.iter().enumerate() {
        if let Some(what) = name_problem("topic", topic) {
            problems.at(plan, i, what);
        }
        if topics[..n].contains(topic) {
            problems.at(
                plan,
                i,
                format!("names the topic '{topic}' twice: name it once"),
            );
        }
    }
}

/// Kafka's rules for the names of topics hold for nodes and stores too: their names become topics.
fn name_problem(what: &str, name: &str) -> Option<String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let wrong = if name.is_empty() {
        "is empty".to_owned()
    } else if name == "." || name == ".." {
        "can't be '.' or '..'".to_owned()
    } else if name.len() > 249 {
        format!("has {} characters, Kafka allows 249", name.len())
    } else if let Some(c) = name.chars().find(|c| !legal(*c)) {
        format!("holds {c:?}, but Kafka allows only letters, digits, '.', '_' and '-'")
    } else {
        return None;
    };
    Some(format!("the {what} '{name}' {wrong}"))
}

fn serde_problem(plan: &LogicalPlan, argument: &str, serde: &SerdeSpec) -> Option<String> {
    match serde {
        SerdeSpec::Builtin(name) if SERDES.contains(&name.as_str()) => None,
        SerdeSpec::Builtin(name) => {
            let java = match name.to_lowercase().as_str() {
                "long" | "i64" => Some("int64"),
                "int" | "integer" | "i32" => Some("int32"),
                "float" | "float64" | "f64" => Some("double"),
                "str" | "text" | "utf8" => Some("string"),
                _ => None,
            };
            let near = java.map_or_else(
                || suggestion(name, SERDES),
                |j| format!("did you mean '{j}'?"),
            );
            Some(format!("unknown {argument} serde '{name}', {near}"))
        }
        SerdeSpec::TimeWindowed { time_windowed, .. } => {
            serde_problem(plan, argument, time_windowed)
        }
        SerdeSpec::SessionWindowed { session_windowed } => {
            serde_problem(plan, argument, session_windowed)
        }
        SerdeSpec::Custom { custom } if (*custom as usize) < plan.serdes.len() => None,
        SerdeSpec::Custom { custom } => Some(format!(
            "its {argument} serde {custom} is not in the table of {} custom serdes",
            plan.serdes.len()
        )),
    }
}

fn expression(plan: &LogicalPlan, i: usize, e: &Expression, problems: &mut Problems) {
    match e {
        Expression::Cast { to, .. } if !CASTS.contains(&to.as_str()) => {
            problems.at(
                plan,
                i,
                format!("can't cast to '{to}', {}", suggestion(to, CASTS)),
            );
        }
        Expression::Object { names, args } if names.len() != args.len() => {
            problems.at(
                plan,
                i,
                format!(
                    "an object of {} names needs as many values, not {}",
                    names.len(),
                    args.len()
                ),
            );
        }
        Expression::Coalesce { args } if args.is_empty() => {
            problems.at(plan, i, "coalesce needs at least one argument");
        }
        Expression::Lit {
            value: Literal::Float(x),
        } if !x.is_finite() => {
            problems.at(plan, i, "a constant must be a finite number");
        }
        Expression::StrSplit { by: Some(by), .. } if by.is_empty() => {
            problems.at(
                plan,
                i,
                "can't split by an empty text: leave it out to split by white space",
            );
        }
        _ => {}
    }
    for arg in e.args() {
        expression(plan, i, arg, problems);
    }
}

/// Kafka Streams' rules for who may read a topic: equal subscriptions become one source, others collide.
fn topics(plan: &LogicalPlan, shape: &mut Shape, problems: &mut Problems) {
    let mut readers: IndexMap<&str, usize> = IndexMap::new();
    for (i, node) in plan.nodes.iter().enumerate() {
        let own: Vec<&str> = match &node.call {
            Call::Stream { topics, .. } => topics.iter().map(String::as_str).collect(),
            Call::Table { topic, .. } => vec![topic],
            _ => continue,
        };
        let mut collisions: Vec<usize> = Vec::new();
        for topic in own {
            let first = *readers.entry(topic).or_insert(i);
            if first != i && !collisions.contains(&first) {
                collisions.push(first);
            }
        }
        for first in collisions {
            match twice(&plan.nodes[first].call, &node.call) {
                Ok(()) => shape.same[i] = first,
                Err(why) => {
                    let other = place(&plan.nodes[first], first);
                    problems.at(
                        plan,
                        i,
                        format!("reads a topic that {other} reads already; {why}"),
                    );
                }
            }
        }
    }
    for (i, node) in plan.nodes.iter().enumerate() {
        if let Call::Merge { from, other } = node.call
            && shape.kinds[i] != Kind::Broken
            && shape.same[from] == shape.same[other]
        {
            problems.at(
                plan,
                i,
                "merges a stream with itself; Kafka Streams would give each record once all the same: leave it out, or use flat_map_values to double records",
            );
        }
    }
}

fn twice(first: &Call, second: &Call) -> Result<(), &'static str> {
    let (
        Call::Stream {
            topics: a,
            key: ka,
            value: va,
            reset: ra,
            ..
        },
        Call::Stream {
            topics: b,
            key: kb,
            value: vb,
            reset: rb,
            ..
        },
    ) = (first, second)
    else {
        return Err(
            "a topic is read by one table() or by stream(), not by both: use .to_stream() of the table",
        );
    };
    if a.len() != b.len() || !a.iter().all(|t| b.contains(t)) {
        return Err(
            "two streams may share all their topics or none: read each topic once and merge()",
        );
    }
    if ka != kb || va != vb {
        return Err(
            "both must read it with the same serdes: read it as bytes() and decode in each branch",
        );
    }
    if ra != rb {
        return Err("both must start it at the same place: give both the same offset reset");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
