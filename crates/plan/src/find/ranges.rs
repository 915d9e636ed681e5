//! The values of a field, or the keys, that can satisfy a condition.
//!
//! Takes a condition without locations, returns ranges of bytes, or nothing if it doesn't restrict the
//! field. Every value that satisfies the condition lies in the ranges.

use super::KeyOrder;
use crate::expression::{Expression as E, Literal, ScalarFunction};
use stoatflow_core::{Datum, ordered};

/// A range of bytes; the end is excluded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessRange {
    /// The start.
    pub from: Vec<u8>,
    /// The end, excluded; `None`: to the end.
    pub to: Option<Vec<u8>>,
    /// Whether it contains a single value.
    pub point: bool,
}

impl AccessRange {
    fn new(from: Vec<u8>, to: Option<Vec<u8>>) -> Self {
        Self {
            from,
            to,
            point: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }
}

/// The smallest bytes after all that have this prefix.
pub(super) fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(end)
}

/// The encoding of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// A field of an index.
    Field,
    /// The elements of a list in an index.
    Elements,
    /// Keys of a store.
    Key(KeyOrder),
}

/// A bound of a range.
#[derive(Clone, Copy)]
struct Bound {
    /// True for a lower bound, false for an upper one.
    up: bool,
    /// Whether the value itself is included.
    with: bool,
}

impl Domain {
    fn point(self, value: &Literal) -> Option<Vec<AccessRange>> {
        let (from, to) = match (self, value) {
            (Self::Field | Self::Elements, value) => {
                let from = ordered::bytes(&datum(value));
                let to = behind(&from);
                (from, to)
            }
            (Self::Key(KeyOrder::Text), Literal::Str(text)) => key(text.as_bytes()),
            (Self::Key(KeyOrder::Whole(size)), Literal::Int(n)) => match whole(*n, size) {
                Some(bytes) => key(&bytes),
                None => return Some(Vec::new()),
            },
            _ => return None,
        };
        Some(vec![AccessRange {
            from,
            to,
            point: true,
        }])
    }

    fn bound(self, value: &Literal, bound: Bound) -> Option<Vec<AccessRange>> {
        match (self, value) {
            // A comparison with null matches no row.
            (Self::Elements, _) | (_, Literal::Null) => None,
            (Self::Field, value) => {
                let at = ordered::bytes(&datum(value));
                let tag = at[0];
                let edge = if bound.up == bound.with {
                    at
                } else {
                    behind(&at)?
                };
                Some(vec![if bound.up {
                    AccessRange::new(edge, Some(vec![tag + 1]))
                } else {
                    AccessRange::new(vec![tag], Some(edge))
                }])
            }
            (Self::Key(KeyOrder::Text), Literal::Str(text)) => {
                let (at, after) = key(text.as_bytes());
                let edge = if bound.up == bound.with { at } else { after? };
                Some(vec![if bound.up {
                    AccessRange::new(edge, None)
                } else {
                    AccessRange::new(Vec::new(), Some(edge))
                }])
            }
            (Self::Key(KeyOrder::Whole(size)), Literal::Int(n)) => Some(wholes(*n, size, bound)),
            _ => None,
        }
    }

    fn begins(self, text: &str) -> Option<Vec<AccessRange>> {
        let from = match self {
            Self::Field => ordered::text_prefix(text),
            Self::Key(KeyOrder::Text) => text.as_bytes().to_vec(),
            _ => return None,
        };
        let to = behind(&from);
        Some(vec![AccessRange::new(from, to)])
    }

    fn not_null(self) -> Option<Vec<AccessRange>> {
        matches!(self, Self::Field).then(|| vec![AccessRange::new(vec![ordered::NULL + 1], None)])
    }
}

fn key(bytes: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    (bytes.to_vec(), Some([bytes, &[0]].concat()))
}

fn whole(n: i64, size: usize) -> Option<Vec<u8>> {
    match size {
        4 => Some(i32::try_from(n).ok()?.to_be_bytes().to_vec()),
        _ => Some(n.to_be_bytes().to_vec()),
    }
}

/// In the order of the bytes, negative numbers come after the others.
fn wholes(n: i64, size: usize, bound: Bound) -> Vec<AccessRange> {
    let (least, most) = match size {
        4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    let edge = match bound {
        Bound { with: true, .. } => Some(n),
        Bound { up: true, .. } => n.checked_add(1),
        Bound { up: false, .. } => n.checked_sub(1),
    };
    let Some(edge) = edge else {
        return Vec::new();
    };
    let (from, to) = if bound.up {
        (edge.max(least), most)
    } else {
        (least, edge.min(most))
    };
    let part = |from: i64, to: i64| {
        let (from_bytes, last) = (whole(from, size)?, whole(to, size)?);
        (from <= to).then(|| AccessRange::new(from_bytes, Some([last.as_slice(), &[0]].concat())))
    };
    let parts = [part(from.max(0), to), part(from, to.min(-1))];
    parts.into_iter().flatten().collect()
}

/// A constant as a datum.
#[must_use]
pub fn datum(value: &Literal) -> Datum {
    match value {
        Literal::Null => Datum::Null,
        Literal::Bool(truth) => Datum::Bool(*truth),
        Literal::Int(n) => Datum::Int(*n),
        Literal::Float(x) => Datum::Float(*x),
        Literal::Str(text) => Datum::text(text.as_str()),
    }
}

/// The ranges of `of` that a condition leaves; `None` if it doesn't restrict `of`.
#[must_use]
pub fn ranges(condition: &E, of: &E, domain: Domain) -> Option<Vec<AccessRange>> {
    let again = |condition| ranges(condition, of, domain);
    match condition {
        E::And { args } => match (again(&args[0]), again(&args[1])) {
            // The two conditions may be met by different elements, so only one of them restricts the
            // range.
            (Some(one), Some(_)) if domain == Domain::Elements => Some(one),
            (Some(one), Some(other)) => Some(both(&one, &other)),
            (one, other) => one.or(other),
        },
        E::Or { args } => Some(either([again(&args[0])?, again(&args[1])?].concat())),
        E::Call { function, args } => called(*function, args, of, domain),
        _ if domain == Domain::Elements => None,
        E::Eq { args } => domain.point(against(args, of)?.0),
        E::Lt { args } => compared(args, of, domain, false, false),
        E::Le { args } => compared(args, of, domain, false, true),
        E::Gt { args } => compared(args, of, domain, true, false),
        E::Ge { args } => compared(args, of, domain, true, true),
        E::IsNull { args } if args[0] == *of => domain.point(&Literal::Null),
        E::StrStartsWith { args, text } if args[0] == *of => domain.begins(text),
        E::Not { args } => match &args[0] {
            E::IsNull { args } if args[0] == *of => domain.not_null(),
            E::Ne { args } => domain.point(against(args, of)?.0),
            truth if truth == of => domain.point(&Literal::Bool(false)),
            _ => None,
        },
        truth if truth == of => domain.point(&Literal::Bool(true)),
        _ => None,
    }
}

fn called(
    function: ScalarFunction,
    args: &[E],
    of: &E,
    domain: Domain,
) -> Option<Vec<AccessRange>> {
    let (first, rest) = args.split_first()?;
    if first != of {
        return None;
    }
    let values: Option<Vec<&Literal>> = rest.iter().map(E::constant).collect();
    let values = values?;
    match (function, domain) {
        (ScalarFunction::ListContains, Domain::Elements) => domain.point(values.first()?),
        (_, Domain::Elements) => None,
        (ScalarFunction::IsIn, _) => {
            let points: Option<Vec<_>> = values.into_iter().map(|v| domain.point(v)).collect();
            Some(either(points?.concat()))
        }
        (ScalarFunction::Between, _) => match values.as_slice() {
            [from, to] => {
                let bound = |value, up| domain.bound(value, Bound { up, with: true });
                Some(both(&bound(from, true)?, &bound(to, false)?))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The constant that `of` is compared with, and whether it is on the left.
fn against<'e>(sides: &'e [E; 2], of: &E) -> Option<(&'e Literal, bool)> {
    match sides {
        [left, right] if left == of => Some((right.constant()?, false)),
        [left, right] if right == of => Some((left.constant()?, true)),
        _ => None,
    }
}

fn compared(
    sides: &[E; 2],
    of: &E,
    domain: Domain,
    up: bool,
    with: bool,
) -> Option<Vec<AccessRange>> {
    let (value, turned) = against(sides, of)?;
    let up = up != turned;
    domain.bound(value, Bound { up, with })
}

/// The union: sorted, with touching ranges merged.
pub(super) fn either(mut all: Vec<AccessRange>) -> Vec<AccessRange> {
    all.retain(|range| !range.is_empty());
    all.sort();
    let mut merged: Vec<AccessRange> = Vec::with_capacity(all.len());
    for range in all {
        match merged.last_mut() {
            Some(last) if last.from == range.from && last.to == range.to => {
                last.point |= range.point;
            }
            Some(last) if last.to.as_ref().is_none_or(|to| *to > range.from) => {
                if last.to.is_some() && (range.to.is_none() || range.to > last.to) {
                    last.to = range.to;
                }
                last.point = false;
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// The intersection.
pub(super) fn both(one: &[AccessRange], other: &[AccessRange]) -> Vec<AccessRange> {
    let mut found = Vec::new();
    for a in one {
        for b in other {
            let to = match (&a.to, &b.to) {
                (Some(a), Some(b)) => Some(a.min(b).clone()),
                (a, b) => a.clone().or_else(|| b.clone()),
            };
            // A point lies completely inside another range or outside of it.
            let point = a.point || b.point;
            found.push(AccessRange {
                from: a.from.clone().max(b.from.clone()),
                to,
                point,
            });
        }
    }
    either(found)
}
