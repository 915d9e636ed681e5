//! Arithmetic as in Python, on 64 bits.
//!
//! Takes two datums, returns one; if either is null, so is the result. A whole number beyond 64 bits and a
//! division by zero are errors: a wrong sum must not look like a right one. Never wraps.

use super::kind;
use super::number::Number;
use stoatflow_core::{Datum, Error, Result, Text};

/// Which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
}

impl Arithmetic {
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::FloorDiv => "//",
            Self::Mod => "%",
        }
    }
}

pub(super) fn compute(how: Arithmetic, left: Datum, right: Datum) -> Result<Datum> {
    if left.is_null() || right.is_null() {
        return Ok(Datum::Null);
    }
    match (Number::of(&left), Number::of(&right)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => whole(how, a, b),
        (Some(a), Some(b)) => double(how, a.float(), b.float()).map(Datum::Float),
        _ => match (how, &left, &right) {
            (Arithmetic::Add, Datum::Str(a), Datum::Str(b)) => {
                Ok(Datum::Str(Text::from([a.as_str(), b.as_str()].concat())))
            }
            _ => Err(Error::user(format!(
                "can't compute {} {} {}",
                kind(&left),
                how.sign(),
                kind(&right)
            ))
            .hint("convert one side with .cast(\"int\"), .cast(\"float\") or .cast(\"str\")")),
        },
    }
}

fn whole(how: Arithmetic, a: i64, b: i64) -> Result<Datum> {
    if b == 0
        && matches!(
            how,
            Arithmetic::Div | Arithmetic::FloorDiv | Arithmetic::Mod
        )
    {
        return Err(by_zero(how));
    }
    let result = match how {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Sub => a.checked_sub(b),
        Arithmetic::Mul => a.checked_mul(b),
        Arithmetic::Div => return Ok(Datum::Float(true_division(a, b))),
        Arithmetic::FloorDiv => a.checked_div(b).map(|q| {
            if a % b != 0 && (a < 0) != (b < 0) {
                q - 1
            } else {
                q
            }
        }),
        // i64::MIN % -1 overflows in hardware, but the remainder is 0.
        Arithmetic::Mod => Some(a.checked_rem(b).map_or(0, |r| {
            if r != 0 && (r < 0) != (b < 0) {
                r + b
            } else {
                r
            }
        })),
    };
    result.map(Datum::Int).ok_or_else(|| {
        Error::user(format!("{a} {} {b} goes beyond 64 bits", how.sign()))
            .hint("convert one side with .cast(\"float\") if a rounded result will do")
    })
}

/// The double nearest to the true quotient, also where the operands themselves don't fit a double.
#[allow(clippy::cast_precision_loss)]
fn true_division(a: i64, b: i64) -> f64 {
    const EXACT: u64 = 1 << 53;
    let (x, y) = (a.unsigned_abs(), b.unsigned_abs());
    if x <= EXACT && y <= EXACT {
        return a as f64 / b as f64;
    }
    // Scaled so that the quotient has at least 64 bits, the last of which stands for the remainder: the
    // single rounding that follows, to 53 bits, is then correct.
    let shift = u128::from(x.max(1)).leading_zeros();
    let scaled = u128::from(x) << shift;
    let quotient = (scaled / u128::from(y)) | u128::from(scaled % u128::from(y) != 0);
    let result = quotient as f64 / 2_f64.powi(i32::try_from(shift).unwrap_or(i32::MAX));
    if (a < 0) == (b < 0) { result } else { -result }
}

fn double(how: Arithmetic, a: f64, b: f64) -> Result<f64> {
    match how {
        Arithmetic::Add => Ok(a + b),
        Arithmetic::Sub => Ok(a - b),
        Arithmetic::Mul => Ok(a * b),
        _ if b == 0.0 => Err(by_zero(how)),
        Arithmetic::Div => Ok(a / b),
        Arithmetic::Mod => Ok(floor_parts(a, b).1),
        Arithmetic::FloorDiv => Ok(floor_parts(a, b).0),
    }
}

/// Python's `divmod` of doubles: the remainder has the divisor's sign, the quotient is whole.
fn floor_parts(a: f64, b: f64) -> (f64, f64) {
    let mut rest = a % b;
    let mut quotient = (a - rest) / b;
    if rest == 0.0 {
        rest = 0.0_f64.copysign(b);
    } else if (b < 0.0) != (rest < 0.0) {
        rest += b;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0_f64.copysign(a / b), rest);
    }
    let floor = quotient.floor();
    (
        if quotient - floor > 0.5 {
            floor + 1.0
        } else {
            floor
        },
        rest,
    )
}

fn by_zero(how: Arithmetic) -> Error {
    Error::user(format!("division by zero ({})", how.sign()))
        .hint("filter such records out before, or use sf.when(divisor != 0, ..., otherwise)")
}
