//! Functions of numbers, as Python's of the same names.
//!
//! Takes numbers, returns numbers. A whole number beyond 64 bits and a result that is no number (a root
//! of -1) are errors.

use super::args::number;
use super::number::Number;
use super::{compare, kind};
use std::cmp::Ordering;
use stoatflow_core::{Datum, Error, Result};

fn beyond(what: &str) -> Error {
    Error::user(format!("{what} goes beyond 64 bits"))
        .hint("convert it with .cast(\"float\") if a rounded result will do")
}

pub(super) fn negative(of: &Datum) -> Result<Datum> {
    Ok(match number(of)? {
        Number::Int(i) => Datum::Int(i.checked_neg().ok_or_else(|| beyond(&format!("-({i})")))?),
        Number::Float(x) => Datum::Float(-x),
    })
}

pub(super) fn absolute(of: &Datum) -> Result<Datum> {
    Ok(match number(of)? {
        Number::Int(i) => Datum::Int(
            i.checked_abs()
                .ok_or_else(|| beyond(&format!("abs({i})")))?,
        ),
        Number::Float(x) => Datum::Float(x.abs()),
    })
}

/// A double without a fraction, as a whole number.
#[allow(clippy::cast_possible_truncation)] // checked to be in range
fn as_whole(x: f64, name: &str) -> Result<Datum> {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&x) {
        Ok(Datum::Int(x as i64))
    } else {
        Err(beyond(&format!("{name}({x:?})")))
    }
}

pub(super) fn floor(of: &Datum) -> Result<Datum> {
    match number(of)? {
        Number::Int(i) => Ok(Datum::Int(i)),
        Number::Float(x) => as_whole(x.floor(), "floor"),
    }
}

pub(super) fn ceil(of: &Datum) -> Result<Datum> {
    match number(of)? {
        Number::Int(i) => Ok(Datum::Int(i)),
        Number::Float(x) => as_whole(x.ceil(), "ceil"),
    }
}

/// Ties go to the even neighbour; the exact value of the double counts, as in Python.
pub(super) fn round(of: &Datum, digits: Option<usize>) -> Result<Datum> {
    match (number(of)?, digits) {
        (Number::Int(i), _) => Ok(Datum::Int(i)),
        (Number::Float(x), None) => as_whole(x.round_ties_even(), "round"),
        (Number::Float(x), Some(_)) if !x.is_finite() => Ok(Datum::Float(x)),
        (Number::Float(x), Some(digits)) => Ok(Datum::Float(
            format!("{x:.digits$}")
                .parse()
                .expect("a number that was just written"),
        )),
    }
}

pub(super) fn sqrt(of: &Datum) -> Result<Datum> {
    let x = number(of)?.float();
    if x < 0.0 {
        return Err(
            Error::user(format!("a negative number has no square root: {x:?}"))
                .hint("use .abs(), or choose with sf.when(...)"),
        );
    }
    Ok(Datum::Float(x.sqrt()))
}

#[allow(clippy::cast_precision_loss)] // what Python does when a whole number meets a double
pub(super) fn power(base: &Datum, exponent: &Datum) -> Result<Datum> {
    let (a, b) = (number(base)?, number(exponent)?);
    if let (Number::Int(a), Number::Int(b @ 0..)) = (a, b) {
        let fits = u32::try_from(b).ok().and_then(|b| a.checked_pow(b));
        // 0, 1 and -1 have small powers, however large the exponent.
        let result = fits.or(match a {
            0 | 1 => Some(a),
            -1 => Some(if b % 2 == 0 { 1 } else { -1 }),
            _ => None,
        });
        return result
            .map(Datum::Int)
            .ok_or_else(|| beyond(&format!("{a} ** {b}")));
    }
    let (x, y) = (a.float(), b.float());
    if x == 0.0 && y < 0.0 {
        return Err(Error::user("0 has no negative power")
            .hint("filter such records out before, or choose with sf.when(...)"));
    }
    let result = x.powf(y);
    if result.is_nan() && !x.is_nan() && !y.is_nan() {
        return Err(Error::user(format!("{x:?} ** {y:?} is no real number"))
            .hint("use .abs(), or choose with sf.when(...)"));
    }
    if result.is_infinite() && x.is_finite() && y.is_finite() {
        return Err(
            Error::user(format!("{x:?} ** {y:?} is too large for a double"))
                .hint("use a smaller exponent, or choose with sf.when(...)"),
        );
    }
    Ok(Datum::Float(result))
}

/// The order of two values that are not null; an error if they can't be ordered.
pub(super) fn order(a: &Datum, b: &Datum) -> Result<Option<Ordering>> {
    compare::order(a, b)
}

/// The first of the smallest (or greatest) values.
pub(super) fn extreme(of: impl IntoIterator<Item = Datum>, wanted: Ordering) -> Result<Datum> {
    let mut best: Option<Datum> = None;
    for next in of {
        if next.is_null() {
            continue;
        }
        match &best {
            Some(so_far) if order(&next, so_far)? != Some(wanted) => {}
            Some(_) => best = Some(next),
            // A single value must be of a type with an order, too.
            None => {
                order(&next, &next)?;
                best = Some(next);
            }
        }
    }
    Ok(best.unwrap_or_default())
}

/// The value, but not below `low` and not above `high`.
pub(super) fn clip(of: Datum, low: Option<&Datum>, high: Option<&Datum>) -> Result<Datum> {
    if Number::of(&of).is_none() {
        return Err(
            Error::user(format!("a number was expected, but found {}", kind(&of)))
                .hint("convert it with .cast(\"int\") or .cast(\"float\")"),
        );
    }
    if let Some(low) = low
        && order(&of, low)? == Some(Ordering::Less)
    {
        return Ok(low.clone());
    }
    if let Some(high) = high
        && order(&of, high)? == Some(Ordering::Greater)
    {
        return Ok(high.clone());
    }
    Ok(of)
}
