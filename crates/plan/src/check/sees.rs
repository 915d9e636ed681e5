//! Checks that expressions read only what is available in their position.
//!
//! Takes a call, returns findings: a joiner reads two sides, a reducer the aggregate and the new value,
//! everything else one record. Never looks at types.

use crate::function::Function;
use crate::logical::Call;
use crate::{Expression, TimestampExtractor};

/// What an expression can read in its position.
#[derive(Clone, Copy)]
enum Sees {
    /// Key, value and timestamp.
    Record,
    /// `(key, left, right)`.
    Sides,
    /// `(agg, value)`.
    Reduction,
    /// `(key, value, agg)`.
    Step,
}

impl Sees {
    const fn has(self, leaf: &Expression) -> bool {
        use Expression as E;
        match self {
            Self::Record => !matches!(leaf, E::Left | E::Right | E::Old | E::New),
            Self::Sides => !matches!(leaf, E::Value | E::Timestamp | E::Old | E::New),
            Self::Reduction => {
                !matches!(leaf, E::Key | E::Value | E::Timestamp | E::Left | E::Right)
            }
            Self::Step => !matches!(leaf, E::Timestamp | E::Left | E::Right | E::New),
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Record => "an expression here sees a record: sf.key, sf.value and sf.timestamp",
            Self::Sides => "it sees two sides: sf.key, sf.left and sf.right",
            Self::Reduction => {
                "a reducer sees two values: sf.old, the one so far, and sf.new, the one that comes in"
            }
            Self::Step => "an aggregator sees sf.key, sf.value and sf.old, the aggregate so far",
        }
    }
}

/// The functions of a call, with what each can read.
fn places(call: &Call) -> Vec<(&Function, Sees)> {
    match call {
        Call::Reduce {
            function,
            subtractor,
            ..
        } => [Some(function), subtractor.as_ref()]
            .into_iter()
            .flatten()
            .map(|function| (function, Sees::Reduction))
            .collect(),
        Call::Aggregate {
            function,
            subtractor,
            merger,
            ..
        } => [
            (function, Sees::Step),
            (subtractor, Sees::Step),
            (merger, Sees::Sides),
        ]
        .into_iter()
        .filter_map(|(function, sees)| Some((function.as_ref()?, sees)))
        .collect(),
        Call::Cogroup { function, .. } => vec![(function, Sees::Step)],
        Call::Join(j) | Call::LeftJoin(j) | Call::OuterJoin(j) => {
            let records = j.key_function.iter().chain(&j.foreign_key);
            let mut all: Vec<(&Function, Sees)> = records.map(|f| (f, Sees::Record)).collect();
            all.push((&j.function, Sees::Sides));
            all
        }
        Call::Offload(o) => {
            let instead = o.instead_of_timeout.iter().chain(&o.instead_of_error);
            let sides = instead.chain([&o.function]).map(|f| (f, Sees::Sides));
            o.request
                .iter()
                .map(|f| (f, Sees::Record))
                .chain(sides)
                .collect()
        }
        other => {
            let functions = other.functions().into_iter();
            functions.map(|f| (f, Sees::Record)).collect()
        }
    }
}

/// Problems: what its expressions read that is not available.
pub(super) fn problems(call: &Call) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(TimestampExtractor::Expr(e)) = call.timestamp() {
        found.extend(unseen(e, Sees::Record));
    }
    for (function, sees) in places(call) {
        match function {
            Function::Udf(_) | Function::Async(_) => {}
            Function::Expr(e) => found.extend(unseen(e, sees)),
            Function::Aggregation(aggregation) => {
                if !matches!(call, Call::Aggregate { .. } | Call::Cogroup { .. }) {
                    found.push(format!(
                        "can't use the aggregation {aggregation}: pass it to aggregate() or cogroup()"
                    ));
                }
                let expressions = aggregation.expressions().into_iter();
                found.extend(expressions.filter_map(|e| unseen(e, Sees::Record)));
            }
        }
    }
    found
}

fn unseen(e: &Expression, sees: Sees) -> Option<String> {
    let leaf = first(e, sees)?;
    let name = match leaf {
        Expression::Key => "sf.key",
        Expression::Value => "sf.value",
        Expression::Timestamp => "sf.timestamp",
        Expression::Left => "sf.left",
        Expression::Right => "sf.right",
        Expression::Old => "sf.old",
        _ => "sf.new",
    };
    Some(format!("reads {name}, which isn't there: {}", sees.words()))
}

fn first(e: &Expression, sees: Sees) -> Option<&Expression> {
    if !sees.has(e) {
        return Some(e);
    }
    e.args().iter().find_map(|arg| first(arg, sees))
}

#[cfg(test)]
mod tests;
