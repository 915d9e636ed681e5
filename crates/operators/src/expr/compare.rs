//! Equality and order.
//!
//! Takes two datums, returns true, false or null. Equality works between any two types, as in Python (1
//! equals 1.0, a text never equals a number, objects and arrays compare by content); order only within
//! numbers and within texts. Never converts.

use super::number::Number;
use super::{json, kind};
use std::cmp::Ordering;
use stoatflow_core::{Datum, Error, Result};

/// Which comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

pub(super) fn compare(how: Comparison, left: &Datum, right: &Datum) -> Result<Option<bool>> {
    match how {
        Comparison::Eq => equal(left, right, 0).map(Some),
        Comparison::Ne => equal(left, right, 0).map(|equal| Some(!equal)),
        _ if left.is_null() || right.is_null() => Ok(None),
        // NaN is neither less nor greater: false, not null, as in Python.
        _ => Ok(Some(order(left, right)?.is_some_and(|order| match how {
            Comparison::Lt => order.is_lt(),
            Comparison::Le => order.is_le(),
            Comparison::Gt => order.is_gt(),
            _ => order.is_ge(),
        }))),
    }
}

pub(super) fn order(left: &Datum, right: &Datum) -> Result<Option<Ordering>> {
    if let (Some(a), Some(b)) = (Number::of(left), Number::of(right)) {
        return Ok(a.order(b));
    }
    match (left, right) {
        (Datum::Str(a), Datum::Str(b)) => Ok(Some(a.cmp(b))),
        (Datum::Bytes(a), Datum::Bytes(b)) => Ok(Some(a.cmp(b))),
        _ => Err(Error::user(format!("can't order {} and {}", kind(left), kind(right)))
            .hint("convert one side with .cast(\"int\"), .cast(\"float\") or .cast(\"str\"), or filter such records out before")),
    }
}

/// Equality; `depth` counts how deep in nested values this is.
pub(super) fn equal(left: &Datum, right: &Datum, depth: usize) -> Result<bool> {
    if let (Some(a), Some(b)) = (Number::of(left), Number::of(right)) {
        return Ok(a.order(b).is_some_and(Ordering::is_eq));
    }
    match (left, right) {
        (Datum::Json(_) | Datum::List(_), Datum::Json(_) | Datum::List(_)) => {
            json::same(left, right, depth)
        }
        _ => Ok(left == right),
    }
}
