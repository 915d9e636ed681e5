//! A function argument of a DSL call: a callable of the host language, or a native expression or
//! aggregation.

use crate::Expression;
use crate::native_aggregation::Aggregation;
use crate::spec::AsyncSpec;
use serde::{Deserialize, Serialize};

/// A function: foreign or native.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// Index into the table of callables.
    Udf(u32),
    /// A native expression.
    Expr(Expression),
    /// A native aggregation, only for `aggregate` and `cogroup`. It initializes, adds, subtracts and
    /// merges.
    Aggregation(Box<Aggregation>),
    /// An async function: in an operator of a stream, many calls are in flight at a time.
    Async(AsyncSpec),
}

impl Function {
    /// The callable, if it is a foreign function. An async one is run to its end wherever the operator
    /// can't do anything else meanwhile.
    #[must_use]
    pub const fn udf(&self) -> Option<u32> {
        match self {
            Self::Udf(index) | Self::Async(AsyncSpec { udf: index, .. }) => Some(*index),
            Self::Expr(_) | Self::Aggregation(_) => None,
        }
    }

    /// How it is awaited, if it is async.
    #[must_use]
    pub const fn awaiting(&self) -> Option<&AsyncSpec> {
        match self {
            Self::Async(awaiting) => Some(awaiting),
            _ => None,
        }
    }
}
