//! Whole numbers and doubles side by side, as Python sees them.
//!
//! Takes datums, returns numbers; compares a whole number with a double exactly, not by rounding it.

use std::cmp::Ordering;
use stoatflow_core::Datum;

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    /// The number in a datum; true and false are 1 and 0, as in Python.
    pub fn of(datum: &Datum) -> Option<Self> {
        match datum {
            Datum::Int(i) => Some(Self::Int(*i)),
            Datum::Float(x) => Some(Self::Float(*x)),
            Datum::Bool(b) => Some(Self::Int(i64::from(*b))),
            _ => None,
        }
    }

    /// The nearest double.
    #[allow(clippy::cast_precision_loss)] // what Python does when a whole number meets a double
    pub fn float(self) -> f64 {
        match self {
            Self::Int(i) => i as f64,
            Self::Float(x) => x,
        }
    }

    /// The order of two numbers; `None` if one of them is NaN.
    pub fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(&b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(&b),
            (Self::Int(a), Self::Float(b)) => mixed(a, b),
            (Self::Float(a), Self::Int(b)) => mixed(b, a).map(Ordering::reverse),
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // within range, and the fraction is compared afterwards
fn mixed(a: i64, b: f64) -> Option<Ordering> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0; // 2^63
    if b.is_nan() {
        return None;
    }
    if b >= BEYOND {
        return Some(Ordering::Less);
    }
    if b < -BEYOND {
        return Some(Ordering::Greater);
    }
    let whole = b.trunc();
    Some(
        a.cmp(&(whole as i64))
            .then_with(|| 0.0_f64.partial_cmp(&(b - whole)).unwrap_or(Ordering::Equal)),
    )
}
