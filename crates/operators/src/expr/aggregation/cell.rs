//! The state of one measure, and how a record changes it.
//!
//! Takes datums that are not null. Numbers are added as in Python, on 64 bits: an overflow is an error.
//! Kept values are copied, so that they don't keep their record's buffer alive. Never reads records.

use super::items::Items;
use super::sketch::Sketch;
use super::state::MeasureKind;
use crate::expr::arithmetic::{Arithmetic, compute};
use crate::expr::compare::{Comparison, compare};
use crate::expr::kind as kind_of;
use crate::expr::number::Number;
use std::sync::Arc;
use stoatflow_core::serde::json_bytes;
use stoatflow_core::{Datum, Error, Result};
use stoatflow_plan::AggregationKind as Kind;

/// A record's input for a measure.
#[derive(Debug)]
pub(crate) struct MeasureInput {
    /// The measured value; null: none.
    pub of: Datum,
    /// Its rank, if that is another value.
    pub by: Datum,
}

/// An element of a top-k list.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    pub by: Datum,
    /// Null if it is its own rank.
    pub of: Datum,
}

/// See the module. A clone is cheap: large parts are shared until one of the clones changes.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    /// Count, sum, least, greatest, first, last: the datum itself.
    Plain(Datum),
    Avg {
        sum: Datum,
        count: i64,
    },
    /// Collected values, all or distinct.
    Items(Arc<Items>),
    /// The best elements, best first.
    Top {
        best: Arc<Vec<Ranked>>,
        /// True if they are ranked by another value.
        ranked: bool,
    },
    Sketch(Arc<Sketch>),
}

impl Cell {
    pub fn add(&mut self, given: &MeasureInput, how: &MeasureKind) -> Result<()> {
        match self {
            Self::Plain(held) => {
                if let Some(new) = plain(how.kind, held, &given.of)? {
                    how.check(&new)?;
                    *held = new;
                }
            }
            Self::Avg { sum, count } => {
                *sum = added(Arithmetic::Add, sum, &given.of)?;
                *count = more(*count, 1)?;
            }
            Self::Items(items) => Items::add(items, &given.of, how)?,
            // A value without a rank is left out.
            Self::Top { ranked: true, .. } if given.by.is_null() => {}
            Self::Top { best, ranked } => {
                let (by, of) = if *ranked {
                    (given.by.clone(), given.of.clone())
                } else {
                    (given.of.clone(), Datum::Null)
                };
                rank(best, Ranked { by, of }, how)?;
            }
            Self::Sketch(sketch) => Sketch::add(sketch, &given.of)?,
        }
        Ok(())
    }

    pub fn take(&mut self, given: &MeasureInput, how: &MeasureKind) -> Result<()> {
        match self {
            Self::Plain(Datum::Int(count)) if how.kind == Kind::Count => *count = more(*count, -1)?,
            Self::Plain(sum) if how.kind == Kind::Sum => {
                *sum = added(Arithmetic::Sub, sum, &given.of)?;
            }
            Self::Avg { sum, count } => {
                *sum = added(Arithmetic::Sub, sum, &given.of)?;
                *count = more(*count, -1)?;
            }
            _ => {
                let what = how.kind.name();
                return Err(Error::internal(format!("nothing can be taken from {what}")));
            }
        }
        Ok(())
    }

    /// Merges a cell of later records.
    pub fn merge(&mut self, later: Self, how: &MeasureKind) -> Result<()> {
        match (&mut *self, later) {
            (Self::Plain(_), Self::Plain(Datum::Null)) => {}
            (Self::Plain(Datum::Int(a)), Self::Plain(Datum::Int(b))) if how.kind == Kind::Count => {
                *a = more(*a, b)?;
            }
            (Self::Plain(a), Self::Plain(b)) => {
                if let Some(new) = plain(how.kind, a, &b)? {
                    *a = new;
                }
            }
            (Self::Avg { sum, count }, Self::Avg { sum: s, count: n }) => {
                *sum = added(Arithmetic::Add, sum, &s)?;
                *count = more(*count, n)?;
            }
            (Self::Items(a), Self::Items(b)) => Items::merge(a, &b, how)?,
            (Self::Top { best, .. }, Self::Top { best: later, .. }) => {
                for one in later.iter() {
                    rank(best, one.clone(), how)?;
                }
            }
            (Self::Sketch(a), Self::Sketch(b)) => Arc::make_mut(a).merge(&b),
            _ => return Err(Error::internal("two measures of different kinds met")),
        }
        Ok(())
    }

    /// As a datum; JSON scalars become plain datums.
    pub fn datum(self) -> Result<Datum> {
        match self {
            Self::Plain(datum) => Ok(datum),
            other => {
                let mut out = Vec::new();
                other.write(&mut out)?;
                Ok(Datum::Json(out.into()))
            }
        }
    }

    /// A member of it, without writing the whole; `None`: the caller must write the whole.
    pub fn member(&self, name: &str) -> Option<Result<Datum>> {
        match (self, name) {
            (Self::Avg { sum, count }, "avg") => Some(mean(sum, *count)),
            (Self::Avg { count, .. }, "count") => Some(Ok(Datum::Int(*count))),
            (Self::Avg { sum, .. }, "sum") => Some(Ok(sum.clone())),
            (Self::Sketch(sketch), "estimate") => Some(Ok(Datum::Int(sketch.estimate()))),
            (Self::Top { best, ranked: true }, "top") => {
                let mut out = Vec::new();
                let written = list(&mut out, best.iter().map(|one| &one.of));
                Some(written.map(|()| Datum::Json(out.into())))
            }
            _ => None,
        }
    }

    /// Appends its JSON text.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Plain(datum) => out.extend_from_slice(&json_bytes(datum)?),
            Self::Avg { sum, count } => {
                out.extend_from_slice(b"{\"avg\":");
                out.extend_from_slice(&json_bytes(&mean(sum, *count)?)?);
                out.extend_from_slice(format!(",\"count\":{count},\"sum\":").as_bytes());
                out.extend_from_slice(&json_bytes(sum)?);
                out.push(b'}');
            }
            Self::Items(items) => items.write(out),
            Self::Top {
                best,
                ranked: false,
            } => list(out, best.iter().map(|one| &one.by))?,
            Self::Top { best, .. } => {
                out.extend_from_slice(b"{\"top\":");
                list(out, best.iter().map(|one| &one.of))?;
                out.extend_from_slice(b",\"by\":");
                list(out, best.iter().map(|one| &one.by))?;
                out.push(b'}');
            }
            Self::Sketch(sketch) => sketch.write(out),
        }
        Ok(())
    }

    /// About how many bytes it keeps alive.
    pub fn weight(&self) -> usize {
        match self {
            Self::Plain(datum) => 48 + datum.weight(),
            Self::Avg { .. } => 64,
            Self::Items(items) => items.weight(),
            Self::Top { best, .. } => best
                .iter()
                .map(|r| 80 + r.by.weight() + r.of.weight())
                .sum(),
            Self::Sketch(sketch) => sketch.weight(),
        }
    }
}

/// The new value of a plain measure; `None` if it doesn't change. `held` may be null: nothing yet.
pub(super) fn plain(kind: Kind, held: &Datum, given: &Datum) -> Result<Option<Datum>> {
    Ok(match kind {
        Kind::Count => match held {
            Datum::Int(count) => Some(Datum::Int(more(*count, 1)?)),
            _ => return Err(Error::internal("a count that is no number")),
        },
        Kind::Sum => Some(added(Arithmetic::Add, held, given)?),
        Kind::First => held.is_null().then(|| given.unshared()),
        Kind::Last => Some(given.unshared()),
        _ if held.is_null() => Some(given.unshared()),
        Kind::Min => before(given, held)?.then(|| given.unshared()),
        _ => before(held, given)?.then(|| given.unshared()),
    })
}

fn before(a: &Datum, b: &Datum) -> Result<bool> {
    Ok(compare(Comparison::Lt, a, b)?.unwrap_or(false))
}

/// Inserts an element by its rank, after equal ones that came earlier.
fn rank(best: &mut Arc<Vec<Ranked>>, one: Ranked, how: &MeasureKind) -> Result<()> {
    let mut at = best.len();
    while at > 0 && before(&best[at - 1].by, &one.by)? {
        at -= 1;
    }
    if at < how.size {
        how.check(&one.by)?;
        how.check(&one.of)?;
        let (by, of) = (one.by.unshared(), one.of.unshared());
        let best = Arc::make_mut(best);
        best.insert(at, Ranked { by, of });
        best.truncate(how.size);
    }
    Ok(())
}

fn added(how: Arithmetic, sum: &Datum, given: &Datum) -> Result<Datum> {
    if let (Arithmetic::Add, Datum::Int(a), Datum::Int(b)) = (how, sum, given)
        && let Some(sum) = a.checked_add(*b)
    {
        return Ok(Datum::Int(sum));
    }
    if Number::of(given).is_none() {
        return Err(
            Error::user(format!("a number was expected, but found {}", kind_of(given))).hint(
                "convert it with .cast(\"float\") or .cast(\"int\"), or leave such records out with .where(...)",
            ),
        );
    }
    match compute(how, sum.clone(), given.clone())? {
        Datum::Float(x) if !x.is_finite() => Err(Error::user(format!(
            "a sum is no finite number any more: {x}"
        ))
        .hint("leave such records out with .where(...)")),
        sum => Ok(sum),
    }
}

/// The mean; null if there are no values.
fn mean(sum: &Datum, count: i64) -> Result<Datum> {
    if count == 0 {
        return Ok(Datum::Null);
    }
    compute(Arithmetic::Div, sum.clone(), Datum::Int(count))
}

fn more(count: i64, by: i64) -> Result<i64> {
    count
        .checked_add(by)
        .ok_or_else(|| Error::user("a count went beyond 64 bits"))
}

fn list<'a>(out: &mut Vec<u8>, items: impl Iterator<Item = &'a Datum>) -> Result<()> {
    out.push(b'[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&json_bytes(item)?);
    }
    out.push(b']');
    Ok(())
}
