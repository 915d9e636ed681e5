//! Evaluates an expression on one record, without a topology.
//!
//! Takes an expression as data and the parts of a record, returns the result as plain Python objects.
//! Uses the engine's own evaluation, so the result is what a topology would compute. Not on the path of
//! records.

use crate::convert::{from_py, to_py};
use crate::errors::to_py_err;
use crate::lazy;
use pyo3::prelude::*;
use pyo3::types::PyList;
use stoatflow_core::{Datum, Error, Record, Result, Timestamp};
use stoatflow_operators::expr::Compiled;
use stoatflow_plan::Expression;

/// Converts a value as if it were read from a topic: anything but a scalar becomes JSON.
fn read(object: &Bound<'_, PyAny>) -> Result<Datum> {
    match from_py(object)? {
        Datum::Opaque(object) => Ok(Datum::Json(object.to_json()?)),
        scalar => Ok(scalar),
    }
}

/// A datum as plain Python objects.
pub fn plain<'py>(py: Python<'py>, datum: &Datum) -> PyResult<Bound<'py, PyAny>> {
    match datum {
        Datum::Json(text) => lazy::plain_text(py, text),
        Datum::List(items) => {
            let items = items.iter().map(|item| plain(py, item));
            Ok(PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        other => lazy::to_python(&to_py(py, other)?),
    }
}

/// The value of an expression for a record.
#[pyfunction]
pub fn evaluate<'py>(
    py: Python<'py>,
    expression_json: &str,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
    timestamp: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let expression = Expression::decode(expression_json.as_bytes()).map_err(to_py_err)?;
    let made = || {
        let problems = expression.problems();
        if !problems.is_empty() {
            return Err(Error::topology(problems.join("; "))
                .hint("write it so that it can work for some record: no topology would take it"));
        }
        let record = Record {
            key: read(key)?,
            value: read(value)?,
            timestamp: Timestamp(timestamp),
            ..Record::default()
        };
        Compiled::new(&expression)?.eval(&record)
    };
    plain(py, &made().map_err(to_py_err)?)
}
