//! Records parked by an offload, as Python objects.

use crate::convert::to_py;
use pyo3::prelude::*;
use stoatflow_operators::offload::Parked;

/// Key, value, timestamp, since, attempt, due, state, correlation.
pub type ParkedEntry<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    i64,
    i64,
    u32,
    Option<i64>,
    &'static str,
    String,
);

/// The entries, in the order of `found`.
pub fn entries<'py>(py: Python<'py>, found: &[Parked]) -> PyResult<Vec<ParkedEntry<'py>>> {
    let entry = |one: &Parked| {
        Ok((
            to_py(py, &one.key)?,
            to_py(py, &one.value)?,
            one.timestamp,
            one.since,
            one.attempt,
            one.due,
            one.state,
            one.correlation.clone(),
        ))
    };
    found.iter().map(entry).collect()
}
