//! Functions of lists.
//!
//! Takes lists, returns lists and facts about them. Nulls are left out of sums, means and extremes.
//! Duplicates are found by a form of the elements that is equal exactly if the elements are, so that a
//! long list doesn't take quadratic time.

use super::arithmetic::{Arithmetic, compute};
use super::{args, canonical, kind, math, strings};
use std::cmp::Ordering;
use std::collections::HashSet;
use stoatflow_core::{Datum, Error, Result, Text};

pub(super) fn slice(of: &Datum, start: Option<i64>, stop: Option<i64>) -> Result<Datum> {
    let mut all = args::elements(of)?;
    let wanted = strings::range(all.len(), start, stop);
    Ok(Datum::List(all.drain(wanted).collect()))
}

pub(super) fn contains(of: &Datum, wanted: &Datum) -> Result<Datum> {
    for element in args::elements(of)? {
        if super::compare::equal(&element, wanted, 0)? {
            return Ok(Datum::Bool(true));
        }
    }
    Ok(Datum::Bool(false))
}

fn sum_and_count(of: &Datum) -> Result<(Datum, i64)> {
    let (mut sum, mut count) = (Datum::Int(0), 0);
    for element in args::elements(of)? {
        if element.is_null() {
            continue;
        }
        args::number(&element)?;
        sum = compute(Arithmetic::Add, sum, element)?;
        count += 1;
    }
    Ok((sum, count))
}

pub(super) fn sum(of: &Datum) -> Result<Datum> {
    Ok(sum_and_count(of)?.0)
}

pub(super) fn mean(of: &Datum) -> Result<Datum> {
    match sum_and_count(of)? {
        (_, 0) => Ok(Datum::Null),
        (sum, count) => compute(Arithmetic::Div, sum, Datum::Int(count)),
    }
}

pub(super) fn extreme(of: &Datum, wanted: Ordering) -> Result<Datum> {
    math::extreme(args::elements(of)?, wanted)
}

pub(super) fn join(of: &Datum, between: &str) -> Result<Datum> {
    let mut joined = String::new();
    for (at, element) in args::elements(of)?.iter().enumerate() {
        if at > 0 {
            joined.push_str(between);
        }
        joined.push_str(args::text(element)?.as_str());
    }
    Ok(Datum::Str(Text::from(joined)))
}

/// A stable sort; nulls come first.
pub(super) fn sort(of: &Datum, down: bool) -> Result<Datum> {
    let mut all = args::elements(of)?;
    // If all have an order with the first one, they have one with each other: numbers with numbers,
    // texts with texts.
    let mut known = all.iter().filter(|element| !element.is_null());
    if let Some(first) = known.next() {
        math::order(first, first)?;
        known.try_for_each(|element| math::order(first, element).map(drop))?;
    }
    let nan = |datum: &Datum| matches!(datum, Datum::Float(x) if x.is_nan());
    all.sort_by(|a, b| match (a.is_null(), b.is_null()) {
        (false, false) => {
            let order = math::order(a, b)
                .ok()
                .flatten()
                .unwrap_or_else(|| nan(a).cmp(&nan(b)));
            if down { order.reverse() } else { order }
        }
        (a, b) => b.cmp(&a),
    });
    Ok(Datum::List(all.into()))
}

pub(super) fn unique(of: &Datum) -> Result<Datum> {
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for element in args::elements(of)? {
        if seen.insert(canonical::form(&element)?) {
            kept.push(element);
        }
    }
    Ok(Datum::List(kept.into()))
}

pub(super) fn reverse(of: &Datum) -> Result<Datum> {
    let mut all = args::elements(of)?;
    all.reverse();
    Ok(Datum::List(all.into()))
}

/// An element by index, or a member by name; null if it doesn't exist.
pub(super) fn item(of: &Datum, which: &Datum) -> Result<Datum> {
    use sonic_rs::PointerNode;
    match which {
        Datum::Str(name) => super::json::walk(
            of.clone(),
            &[PointerNode::Key(name.as_str().to_owned().into())],
        ),
        Datum::Int(at) => match usize::try_from(*at) {
            Ok(at) => super::json::walk(of.clone(), &[PointerNode::Index(at)]),
            Err(_) => super::json::from_end(
                of.clone(),
                usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX),
            ),
        },
        other => Err(Error::user(format!(
            "an index or a name was expected, but found {}",
            kind(other)
        ))
        .hint("give a whole number for a list, a text for an object")),
    }
}
