//! Which serde each source, sink, store and exchange uses.
//!
//! Takes the checked plan, gives [`Serdes`] by Kafka Streams' rules: serdes flow down from sources,
//! groupings and materializations, an operation that changes a side forgets its serde, and what is
//! still unknown where bytes are needed is the plan's default or a finding. Native expressions keep
//! what is certain of their result. Never guesses what a callable returns.

use crate::check::{Kind, Shape};
use crate::infer::{Type, infer};
use crate::logical::{Call, Function, LogicalPlan, Materialized, SerdeSpec};
use crate::problems::{Problems, place};

/// What is known of a side of a record.
#[derive(Clone, Debug, PartialEq)]
enum Side {
    /// Its serde.
    Known(SerdeSpec),
    /// Nothing, since this node.
    Lost(usize),
    /// Nothing, and that was reported already.
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
    /// Of sources, sinks and stores: key and value.
    pub(crate) used: Vec<Option<(SerdeSpec, SerdeSpec)>>,
    /// Of groupings that are aggregated: the key that an exchange hashes.
    pub(crate) group_key: Vec<Option<SerdeSpec>>,
}

/// Decides them; findings go to the list.
pub(crate) fn serdes(plan: &LogicalPlan, shape: &Shape, problems: &mut Problems) -> Serdes {
    let n = plan.nodes.len();
    let mut pass = Pass {
        plan,
        problems,
        sides: Vec::with_capacity(n),
        serdes: Serdes {
            used: vec![None; n],
            group_key: vec![None; n],
        },
    };
    for i in 0..n {
        let sides = if shape.kinds[i] == Kind::Broken {
            (Side::Reported, Side::Reported)
        } else {
            pass.node(i)
        };
        pass.sides.push(sides);
    }
    pass.serdes
}

struct Pass<'a> {
    plan: &'a LogicalPlan,
    problems: &'a mut Problems,
    sides: Vec<(Side, Side)>,
    serdes: Serdes,
}

impl Pass<'_> {
    fn node(&mut self, i: usize) -> (Side, Side) {
        let known = |s: &SerdeSpec| Side::Known(s.clone());
        let or = |s: &Option<SerdeSpec>, side: Side| s.clone().map_or(side, Side::Known);
        match &self.plan.nodes[i].call {
            Call::Stream { key, value, .. } => {
                self.serdes.used[i] = Some((key.clone(), value.clone()));
                (known(key), known(value))
            }
            Call::Table {
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
            Call::Filter { from, .. }
            | Call::FilterNot { from, .. }
            | Call::Peek { from, .. }
            | Call::Foreach { from, .. }
            | Call::ToStream { from } => self.sides[*from].clone(),
            Call::Map { .. } | Call::FlatMap { .. } => (Side::Lost(i), Side::Lost(i)),
            Call::MapValues { from, function, .. } => {
                let value = self.result(i, *from, function, false);
                (self.sides[*from].0.clone(), value)
            }
            Call::FlatMapValues { from, function, .. } => {
                let value = self.result(i, *from, function, true);
                (self.sides[*from].0.clone(), value)
            }
            Call::SelectKey { from, function, .. } => {
                let key = self.result(i, *from, function, false);
                (key, self.sides[*from].1.clone())
            }
            Call::Merge { from, other } => {
                let (a, b) = (&self.sides[*from], &self.sides[*other]);
                let both = |a: &Side, b: &Side| match (a, b) {
                    (Side::Reported, _) | (_, Side::Reported) => Side::Reported,
                    (a, b) if a == b => a.clone(),
                    _ => Side::Lost(i),
                };
                (both(&a.0, &b.0), both(&a.1, &b.1))
            }
            Call::GroupByKey { from, key, value } => (
                or(key, self.sides[*from].0.clone()),
                or(value, self.sides[*from].1.clone()),
            ),
            Call::GroupBy {
                from,
                function,
                key,
                value,
            } => {
                let inferred = self.result(i, *from, function, false);
                (or(key, inferred), or(value, self.sides[*from].1.clone()))
            }
            Call::Count { from, materialized } => {
                let value = Side::Known(SerdeSpec::Builtin("int64".into()));
                self.aggregation(i, *from, materialized.as_ref(), value)
            }
            Call::Reduce {
                from, materialized, ..
            } => {
                let value = self.sides[*from].1.clone();
                self.aggregation(i, *from, materialized.as_ref(), value)
            }
            Call::Aggregate {
                from, materialized, ..
            } => self.aggregation(i, *from, materialized.as_ref(), Side::Lost(i)),
            Call::To {
                from, key, value, ..
            } => {
                let (k, v) = self.sides[from.all()[0]].clone();
                let key = self.settle(i, "key", or(key, k), "key=");
                let value = self.settle(i, "value", or(value, v), "value=");
                self.serdes.used[i] = key.zip(value);
                (Side::Reported, Side::Reported)
            }
            // Reported as not available.
            _ => (Side::Reported, Side::Reported),
        }
    }

    /// What a function gives, if it is a native expression.
    fn result(&self, i: usize, from: usize, function: &Function, elements: bool) -> Side {
        let Function::Expr(e) = function else {
            return Side::Lost(i);
        };
        let (key, value) = &self.sides[from];
        let given = infer(e, key.known(), value.known());
        match (if elements { given.element() } else { given }, e) {
            // What hands a side through hands its history through as well.
            (Type::Unknown, crate::Expression::Key) if !elements => key.clone(),
            (Type::Unknown, crate::Expression::Value) if !elements => value.clone(),
            (given, _) => given.serde().map_or(Side::Lost(i), Side::Known),
        }
    }

    fn aggregation(
        &mut self,
        i: usize,
        from: usize,
        materialized: Option<&Materialized>,
        value: Side,
    ) -> (Side, Side) {
        let (m_key, m_value) = given(materialized);
        let group = self.sides[from].0.clone();
        let named = "key= to the grouping";
        let key = match &m_key {
            Some(key) => Some(key.clone()),
            None => self.settle(i, "key", group.clone(), named),
        };
        if key.is_none() {
            // One finding for each grouping is enough.
            self.sides[from].0 = Side::Reported;
        }
        let value = match m_value {
            Some(value) => Some(value),
            None => self.settle(i, "value", value, "Materialized(value=...)"),
        };
        if self.serdes.group_key[from].is_none() {
            let fallback = || self.plan.default_key.clone().or_else(|| m_key.clone());
            self.serdes.group_key[from] = group.known().cloned().or_else(fallback);
        }
        let side = |s: &Option<SerdeSpec>| s.clone().map_or(Side::Reported, Side::Known);
        let sides = (side(&key), side(&value));
        self.serdes.used[i] = key.zip(value);
        sides
    }

    /// The serde of a side where bytes are needed.
    fn settle(&mut self, i: usize, which: &str, side: Side, argument: &str) -> Option<SerdeSpec> {
        let default = if which == "key" {
            &self.plan.default_key
        } else {
            &self.plan.default_value
        };
        match (side, default) {
            (Side::Known(serde), _) => Some(serde),
            (_, Some(default)) => Some(default.clone()),
            (Side::Reported, None) => None,
            (Side::Lost(at), None) => {
                let why = self.why(i, at, which);
                self.problems.at(
                    self.plan,
                    i,
                    format!("doesn't know the serde of its {which}: {why}. Give {argument}"),
                );
                None
            }
        }
    }

    fn why(&self, i: usize, at: usize, which: &str) -> String {
        let node = &self.plan.nodes[at];
        let by = place(node, at);
        let function = node.call.functions().last().copied();
        match (&node.call, function) {
            (Call::Merge { .. }, _) => {
                format!("{by} joins streams whose {which} serdes differ or are unknown")
            }
            (_, Some(Function::Udf(u))) => {
                let name = &self
                    .plan
                    .functions
                    .get(*u as usize)
                    .map_or("a function", String::as_str);
                if at == i {
                    format!("the function '{name}' can return anything")
                } else {
                    format!("{by} calls '{name}', which can return anything")
                }
            }
            _ => format!("the result of the expression in {by} has no serde of its own"),
        }
    }
}

fn given(materialized: Option<&Materialized>) -> (Option<SerdeSpec>, Option<SerdeSpec>) {
    materialized.map_or((None, None), |m| (m.key.clone(), m.value.clone()))
}

#[cfg(test)]
mod tests;
