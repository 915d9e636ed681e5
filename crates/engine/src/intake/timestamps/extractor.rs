//! Where a partition's timestamps come from.
//!
//! Computes the timestamp of a record from its own one, the partition's highest or the clock. Never
//! calls a function: the assigner calls those, a batch at a time.

use std::fmt;
use std::sync::Arc;
use stoatflow_operators::Udf;
use stoatflow_operators::expr::Compiled;

/// Where a partition's timestamps come from.
#[derive(Clone)]
pub enum Extractor {
    /// The record's own; a negative one is an error.
    FailOnInvalid,
    /// The record's own; a negative one drops the record.
    LogAndSkip,
    /// The record's own; the partition's highest instead of a negative one.
    UsePartitionTime,
    /// The clock.
    Wallclock,
    /// A native expression.
    Expression(Arc<Compiled>),
    /// A user function.
    Function(Arc<dyn Udf>),
}

impl Extractor {
    /// True if both return the same timestamps.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Function(one), Self::Function(two)) => Arc::ptr_eq(one, two),
            (Self::Expression(one), Self::Expression(two)) => one.is_same(two),
            (one, two) => std::mem::discriminant(one) == std::mem::discriminant(two),
        }
    }

    /// The timestamp of a record whose own one is `own`; `highest` is the partition's. `None` if the
    /// record has none. Not for expressions and functions.
    pub(super) fn known(&self, own: i64, highest: i64, now: impl FnOnce() -> i64) -> Option<i64> {
        match self {
            Self::FailOnInvalid => (own >= 0).then_some(own),
            Self::UsePartitionTime if own < 0 => (highest >= 0).then_some(highest),
            Self::Wallclock => Some(now()),
            _ => Some(own),
        }
    }
}

impl fmt::Debug for Extractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FailOnInvalid => "FailOnInvalid",
            Self::LogAndSkip => "LogAndSkip",
            Self::UsePartitionTime => "UsePartitionTime",
            Self::Wallclock => "Wallclock",
            Self::Expression(expression) => expression.text(),
            Self::Function(udf) => udf.name(),
        })
    }
}
