//! The parts of windowed keys: the key within, and the start and end of its window.
//!
//! Takes a windowed key, returns its parts as they are; a window ends with what its kind calls its end.

use super::{json, kind};
use stoatflow_core::{Datum, Error, Result};
use stoatflow_plan::ScalarFunction;

/// A part of a windowed key.
pub(super) fn part(function: ScalarFunction, of: &Datum) -> Result<Datum> {
    let Datum::Windowed(windowed) = of else {
        return Err(no_window(of));
    };
    match function {
        ScalarFunction::WindowStart => Ok(Datum::Int(windowed.start)),
        ScalarFunction::WindowEnd => Ok(Datum::Int(windowed.end)),
        _ => json::settled(windowed.key.clone()),
    }
}

fn no_window(of: &Datum) -> Error {
    Error::user(format!(
        "a windowed key was expected, but {} was found",
        kind(of)
    ))
    .hint("write sf.key for a key without a window; only windowed aggregations make windowed keys")
}
