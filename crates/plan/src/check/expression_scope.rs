//! Checks that expressions read only what is available in their position.
//!
//! Takes a call, returns findings: a joiner reads two sides, a reducer the aggregate and the new value,
//! everything else one record. Never looks at types.

use crate::function::Function;
use crate::logical::DslCall;
use crate::{Expression, TimestampExtractor};

/// What an expression can read in its position.
#[derive(Clone, Copy)]
enum ExpressionScope {
    /// Key, value and timestamp.
    Record,
    /// `(key, left, right)`.
    Sides,
    /// `(agg, value)`.
    Reduction,
    /// `(key, value, agg)`.
    Step,
}

impl ExpressionScope {
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
fn places(call: &DslCall) -> Vec<(&Function, ExpressionScope)> {
    match call {
        DslCall::Reduce {
            function,
            subtractor,
            ..
        } => [Some(function), subtractor.as_ref()]
            .into_iter()
            .flatten()
            .map(|function| (function, ExpressionScope::Reduction))
            .collect(),
        DslCall::Aggregate {
            function,
            subtractor,
            merger,
            ..
        } => [
            (function, ExpressionScope::Step),
            (subtractor, ExpressionScope::Step),
            (merger, ExpressionScope::Sides),
        ]
        .into_iter()
        .filter_map(|(function, scope)| Some((function.as_ref()?, scope)))
        .collect(),
        DslCall::Cogroup { function, .. } => vec![(function, ExpressionScope::Step)],
        DslCall::Join(j) | DslCall::LeftJoin(j) | DslCall::OuterJoin(j) => {
            let records = j.key_function.iter().chain(&j.foreign_key);
            let mut all: Vec<(&Function, ExpressionScope)> =
                records.map(|f| (f, ExpressionScope::Record)).collect();
            all.push((&j.function, ExpressionScope::Sides));
            all
        }
        DslCall::Offload(o) => {
            let instead = o.instead_of_timeout.iter().chain(&o.instead_of_error);
            let sides = instead
                .chain([&o.function])
                .map(|f| (f, ExpressionScope::Sides));
            o.request
                .iter()
                .map(|f| (f, ExpressionScope::Record))
                .chain(sides)
                .collect()
        }
        other => {
            let functions = other.functions().into_iter();
            functions.map(|f| (f, ExpressionScope::Record)).collect()
        }
    }
}

/// Problems: what its expressions read that is not available.
pub(super) fn problems(call: &DslCall) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(TimestampExtractor::Expr(e)) = call.timestamp() {
        found.extend(unseen(e, ExpressionScope::Record));
    }
    for (function, scope) in places(call) {
        match function {
            Function::Udf(_) | Function::Async(_) => {}
            Function::Expr(e) => found.extend(unseen(e, scope)),
            Function::Aggregation(aggregation) => {
                if !matches!(call, DslCall::Aggregate { .. } | DslCall::Cogroup { .. }) {
                    found.push(format!(
                        "can't use the aggregation {aggregation}: pass it to aggregate() or cogroup()"
                    ));
                }
                let expressions = aggregation.expressions().into_iter();
                found.extend(expressions.filter_map(|e| unseen(e, ExpressionScope::Record)));
            }
        }
    }
    found
}

fn unseen(e: &Expression, scope: ExpressionScope) -> Option<String> {
    let leaf = first(e, scope)?;
    let name = match leaf {
        Expression::Key => "sf.key",
        Expression::Value => "sf.value",
        Expression::Timestamp => "sf.timestamp",
        Expression::Left => "sf.left",
        Expression::Right => "sf.right",
        Expression::Old => "sf.old",
        _ => "sf.new",
    };
    Some(format!(
        "reads {name}, which isn't there: {}",
        scope.words()
    ))
}

fn first(e: &Expression, scope: ExpressionScope) -> Option<&Expression> {
    if !scope.has(e) {
        return Some(e);
    }
    e.args().iter().find_map(|arg| first(arg, scope))
}

#[cfg(test)]
mod tests;
