//! Decides which serde each source, sink, store and exchange uses.
//!
//! Takes the checked plan, returns [`Serdes`] by Kafka Streams' rules: serdes flow down from sources,
//! groupings and materializations, an operation that changes a side forgets its serde, and a side that
//! is still unknown where bytes are needed uses the plan's default or is a finding. Native expressions
//! keep what is certain about their result. The result of a callable has the type of its annotation,
//! unless there is a default.

mod aggregations;
mod annotated;
mod as_read;
mod calls;
mod expressions;
mod fitting;
mod indexes;
mod joins;
mod offload;
mod processors;
mod results;
mod settle;
mod windowed;

use crate::check::{Kind, Shape};
use crate::logical::{DslCall, LogicalPlan};
use crate::materialized::Materialized;
use crate::problems::{Problems, place};
use crate::spec::SerdeSpec;
use crate::window::Until;
pub(crate) use offload::OffloadSerdes;
use results::pair;
use windowed::in_window_of;

/// What is known about the serde of a side of a record.
#[derive(Clone, Debug, PartialEq)]
enum Side {
    /// Its serde.
    Known(SerdeSpec),
    /// Unknown, since this node.
    Lost(usize),
    /// Unknown, and already reported.
    Reported,
}

impl Side {
    fn known(&self) -> Option<&SerdeSpec> {
        match self {
            Self::Known(s) => Some(s),
            _ => None,
        }
    }
}

/// Serdes by node.
#[derive(Debug, Default)]
pub(crate) struct Serdes {
    /// Key and value serdes of sources, sinks and stores.
    pub(crate) used: Vec<Option<(SerdeSpec, SerdeSpec)>>,
    /// The serde of the key that an exchange in front of the node hashes: of groupings that are
    /// aggregated, repartitions, and processors with stores.
    pub(crate) group_key: Vec<Option<SerdeSpec>>,
    /// The serde of the keys of a table's updates (for windowed tables including the window).
    pub(crate) table_key: Vec<Option<SerdeSpec>>,
    /// Serdes of joins.
    pub(crate) join: Vec<Option<JoinSerdes>>,
    /// Key and value serdes of the inputs of async calls.
    pub(crate) called: Vec<Option<(SerdeSpec, SerdeSpec)>>,
    pub(crate) offload: Vec<Option<OffloadSerdes>>,
    /// Whether key and value are unchanged since a stream read them.
    pub(crate) as_read: Vec<(bool, bool)>,
}

/// The serdes that a join writes with.
#[derive(Clone, Debug)]
pub(crate) struct JoinSerdes {
    /// Serde of both sides' keys (by foreign key: of the left side).
    pub(crate) key: SerdeSpec,
    /// Serde of the left values.
    pub(crate) left: SerdeSpec,
    /// Serde of the right values, if both sides are streams.
    pub(crate) right: SerdeSpec,
    /// Serde of foreign keys, or of the keys of a global table.
    pub(crate) foreign: SerdeSpec,
}

/// Decides all serdes; findings are added to the list.
pub(crate) fn serdes(plan: &LogicalPlan, shape: &Shape, problems: &mut Problems) -> Serdes {
    let n = plan.nodes.len();
    let mut pass = Pass {
        plan,
        shape,
        problems,
        sides: Vec::with_capacity(n),
        serdes: Serdes {
            used: vec![None; n],
            group_key: vec![None; n],
            table_key: vec![None; n],
            join: vec![None; n],
            called: vec![None; n],
            offload: vec![None; n],
            as_read: as_read::as_read(plan),
        },
    };
    for i in 0..n {
        let sides = if shape.kinds[i] == Kind::Broken {
            (Side::Reported, Side::Reported)
        } else {
            pass.expressions(i);
            pass.async_call(i);
            let sides = pass.node(i);
            pass.indexes(i);
            pass.ttl(i);
            sides
        };
        if matches!(shape.kinds[i], Kind::Table | Kind::GlobalTable) {
            pass.serdes.table_key[i] = sides.0.known().cloned();
        }
        pass.sides.push(sides);
    }
    pass.serdes
}

struct Pass<'a> {
    plan: &'a LogicalPlan,
    shape: &'a Shape,
    problems: &'a mut Problems,
    sides: Vec<(Side, Side)>,
    serdes: Serdes,
}

impl Pass<'_> {
    fn node(&mut self, i: usize) -> (Side, Side) {
        let known = |s: &SerdeSpec| Side::Known(s.clone());
        let or = |s: &Option<SerdeSpec>, side: Side| s.clone().map_or(side, Side::Known);
        match &self.plan.nodes[i].call {
            DslCall::Stream { key, value, .. } => {
                self.serdes.used[i] = Some((key.clone(), value.clone()));
                (known(key), known(value))
            }
            DslCall::Table {
                key,
                value,
                materialized,
                ..
            }
            | DslCall::GlobalTable {
                key,
                value,
                materialized,
                ..
            } => {
                let (m_key, m_value) = given(materialized.as_ref());
                let pair = (
                    m_key.unwrap_or_else(|| key.clone()),
                    m_value.unwrap_or_else(|| value.clone()),
                );
                self.serdes.used[i] = Some(pair);
                (known(key), known(value))
            }
            DslCall::Scheduled(_) => {
                let builtin = |name: &str| Side::Known(SerdeSpec::Builtin(name.into()));
                (builtin("string"), builtin("int64"))
            }
            DslCall::StateStore { key, value, .. } | DslCall::GlobalStore { key, value, .. } => {
                self.serdes.used[i] = Some((key.clone(), value.clone()));
                (Side::Reported, Side::Reported)
            }
            DslCall::Filter {
                from, materialized, ..
            }
            | DslCall::FilterNot {
                from, materialized, ..
            } if self.shape.kinds[i] == Kind::Table => {
                let (key, value) = self.sides[*from].clone();
                self.kept_view(i, materialized.as_ref(), key, value)
            }
            DslCall::Filter { from, .. }
            | DslCall::FilterNot { from, .. }
            | DslCall::Peek { from, .. }
            | DslCall::Foreach { from, .. }
            | DslCall::ForeachBatch { from, .. }
            | DslCall::Split { from }
            | DslCall::Branch { from, .. }
            | DslCall::WindowedBy { from, .. }
            | DslCall::EmitStrategy { from, .. }
            | DslCall::ToStream { from } => self.sides[*from].clone(),
            DslCall::Cogroup { from, .. } => (self.sides[*from].0.clone(), Side::Lost(i)),
            DslCall::Repartition { from, key, value } => {
                let (k, v) = self.sides[*from].clone();
                let key = self.settle(i, "key", or(key, k), "key=");
                self.serdes.group_key[i].clone_from(&key);
                (key.map_or(Side::Reported, Side::Known), or(value, v))
            }
            DslCall::ToTable { from, materialized } => {
                let (m_key, m_value) = given(materialized.as_ref());
                let (k, v) = self.sides[*from].clone();
                let key = self.settle(i, "key", or(&m_key, k), "Materialized(key=...)");
                let value = self.settle(i, "value", or(&m_value, v), "Materialized(value=...)");
                let sides = (
                    key.clone().map_or(Side::Reported, Side::Known),
                    value.clone().map_or(Side::Reported, Side::Known),
                );
                self.serdes.used[i] = key.zip(value);
                sides
            }
            DslCall::Process { from, stores, .. } => {
                self.processor_key(i, from, stores);
                (Side::Lost(i), Side::Lost(i))
            }
            DslCall::ProcessValues { from, stores, .. } => {
                self.processor_key(i, &[*from], stores);
                (self.sides[*from].0.clone(), Side::Lost(i))
            }
            DslCall::TransformValues {
                from, materialized, ..
            } => {
                let key = self.sides[*from].0.clone();
                self.kept_view(i, materialized.as_ref(), key, Side::Lost(i))
            }
            DslCall::Suppress { from, until, .. } => {
                let (key, value) = self.sides[*from].clone();
                let windowed = |s: &SerdeSpec| {
                    matches!(
                        s,
                        SerdeSpec::TimeWindowed { .. } | SerdeSpec::SessionWindowed { .. }
                    )
                };
                if matches!(until, Until::WindowCloses { .. })
                    && key.known().is_some_and(|k| !windowed(k))
                {
                    let above = place(&self.plan.nodes[*from], *from);
                    self.problems.at(
                        self.plan,
                        i,
                        format!("waits for the window of each key to close, but the keys of {above} have no window; suppress before they are regrouped, or until a time limit"),
                    );
                }
                let k = self.settle(i, "key", key, "Materialized(key=...) to the table");
                let v = self.settle(i, "value", value, "Materialized(value=...) to the table");
                let sides = (
                    k.clone().map_or(Side::Reported, Side::Known),
                    v.clone().map_or(Side::Reported, Side::Known),
                );
                self.serdes.used[i] = k.zip(v);
                sides
            }
            DslCall::Deduplicate {
                from,
                function,
                materialized,
                ..
            } => {
                let sides = self.sides[*from].clone();
                // Only the store uses this key; every result of a function can be written as JSON.
                let key = given(materialized.as_ref())
                    .0
                    .or_else(|| match function {
                        Some(f) => self.result(i, *from, f, false).known().cloned(),
                        None => sides.0.known().cloned(),
                    })
                    .or_else(|| self.plan.default_key.clone())
                    .unwrap_or_else(|| SerdeSpec::Builtin("json".into()));
                self.serdes.group_key[i] = sides
                    .0
                    .known()
                    .cloned()
                    .or_else(|| self.plan.default_key.clone())
                    .or_else(|| Some(SerdeSpec::Builtin("json".into())));
                self.serdes.used[i] = Some((key, SerdeSpec::Builtin("bytes".into())));
                sides
            }
            DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => self.join(i, j),
            DslCall::Offload(o) => self.offload(i, o),
            DslCall::Map { from, function } => {
                let (key, value) = &self.sides[*from];
                match pair(function, key.known(), value.known()) {
                    Some((key, value)) => (
                        key.map_or(Side::Lost(i), Side::Known),
                        value.map_or(Side::Lost(i), Side::Known),
                    ),
                    None => (Side::Lost(i), Side::Lost(i)),
                }
            }
            DslCall::FlatMap { .. } => (Side::Lost(i), Side::Lost(i)),
            DslCall::MapValues {
                from,
                function,
                materialized,
                ..
            } if self.shape.kinds[i] == Kind::Table => {
                let value = self.result(i, *from, function, false);
                let key = self.sides[*from].0.clone();
                self.kept_view(i, materialized.as_ref(), key, value)
            }
            DslCall::MapValues { from, function, .. } => {
                let value = self.result(i, *from, function, false);
                (self.sides[*from].0.clone(), value)
            }
            DslCall::FlatMapValues { from, function, .. } => {
                let value = self.result(i, *from, function, true);
                (self.sides[*from].0.clone(), value)
            }
            // JSON input gives JSON output: objects of columns, or the values of one column.
            DslCall::MapBatches { from, .. } => {
                let json = SerdeSpec::Builtin("json".into());
                let value = match &self.sides[*from].1 {
                    Side::Known(serde) if *serde == json => Side::Known(json),
                    _ => Side::Lost(i),
                };
                (self.sides[*from].0.clone(), value)
            }
            DslCall::SelectKey { from, function, .. } => {
                let key = self.result(i, *from, function, false);
                (key, self.sides[*from].1.clone())
            }
            DslCall::Merge { from, other } => {
                let (a, b) = (&self.sides[*from], &self.sides[*other]);
                let both = |a: &Side, b: &Side| match (a, b) {
                    (Side::Reported, _) | (_, Side::Reported) => Side::Reported,
                    (a, b) if a == b => a.clone(),
                    _ => Side::Lost(i),
                };
                (both(&a.0, &b.0), both(&a.1, &b.1))
            }
            DslCall::GroupByKey { from, key, value } => (
                or(key, self.sides[*from].0.clone()),
                or(value, self.sides[*from].1.clone()),
            ),
            // The function returns a pair.
            DslCall::GroupBy {
                from,
                key,
                value,
                function,
            } if self.shape.kinds[*from] == Kind::Table => {
                let (k, v) = &self.sides[*from];
                let (k, v) = pair(function, k.known(), v.known()).unwrap_or_default();
                let or_lost = |side: Option<SerdeSpec>| side.map_or(Side::Lost(i), Side::Known);
                (or(key, or_lost(k)), or(value, or_lost(v)))
            }
            DslCall::GroupBy {
                from,
                function,
                key,
                value,
            } => {
                let inferred = self.result(i, *from, function, false);
                (or(key, inferred), or(value, self.sides[*from].1.clone()))
            }
            DslCall::Count { from, materialized } => {
                let value = Side::Known(SerdeSpec::Builtin("int64".into()));
                self.aggregation(i, *from, materialized.as_ref(), value)
            }
            DslCall::Reduce {
                from, materialized, ..
            } => {
                let value = self.sides[*from].1.clone();
                self.aggregation(i, *from, materialized.as_ref(), value)
            }
            DslCall::Aggregate {
                from,
                function,
                materialized,
                ..
            } => {
                let value = self.aggregate(i, *from, function.as_ref());
                self.aggregation(i, *from, materialized.as_ref(), value)
            }
            DslCall::To {
                from, key, value, ..
            } => {
                let (k, v) = self.sides[from.all()[0]].clone();
                let key = self.settle(i, "key", or(key, k), "key=");
                let value = self.settle(i, "value", or(value, v), "value=");
                self.fitting(i, from.all()[0], value.as_ref());
                self.serdes.used[i] = key.zip(value);
                (Side::Reported, Side::Reported)
            }
        }
    }

    /// A table that is a view of another one, unless its store is named.
    fn kept_view(
        &mut self,
        i: usize,
        materialized: Option<&Materialized>,
        key: Side,
        value: Side,
    ) -> (Side, Side) {
        let (m_key, m_value) = given(materialized);
        let value = m_value.map_or(value, Side::Known);
        let key = match (m_key, &key) {
            (Some(inner), Side::Known(above)) => Side::Known(in_window_of(above, inner)),
            (Some(own), _) => Side::Known(own),
            (None, _) => key,
        };
        if materialized.is_none_or(|m| m.store.is_none()) {
            return (key, value);
        }
        let k = self.settle(i, "key", key, "Materialized(key=...)");
        let v = self.settle(i, "value", value, "Materialized(value=...)");
        let side = |s: &Option<SerdeSpec>| s.clone().map_or(Side::Reported, Side::Known);
        let sides = (side(&k), side(&v));
        self.serdes.used[i] = k.zip(v);
        sides
    }
}

fn given(materialized: Option<&Materialized>) -> (Option<SerdeSpec>, Option<SerdeSpec>) {
    materialized.map_or((None, None), |m| (m.key.clone(), m.value.clone()))
}

#[cfg(test)]
mod tests;
