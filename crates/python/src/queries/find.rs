//! Converts the results of a query for Python.
//!
//! Takes a page from the engine, returns lists and tuples. Selected values become plain objects.

use crate::convert::to_py;
use crate::expression::plain;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use stoatflow_engine::query::{Explained, FoundPage};

/// Key, value (or the list of selected values), timestamp.
type Row<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, i64);
/// Access path, index, number of ranges, whether sorted, whether the index covers the query, rows read,
/// unreadable rows.
pub type Explanation = (&'static str, Option<String>, usize, bool, bool, u64, u64);
/// Rows, cursor of the next page, how the rows were found.
pub type PyPage<'py> = (Vec<Row<'py>>, Option<Bound<'py, PyBytes>>, Explanation);

pub fn explanation(found: &Explained) -> Explanation {
    (
        found.way,
        found.index.clone(),
        found.ranges,
        found.sorted,
        found.covering,
        found.rows_read,
        found.unreadable,
    )
}

pub fn to_py_page<'py>(py: Python<'py>, page: &FoundPage) -> PyResult<PyPage<'py>> {
    let rows = page.rows.iter().map(|row| {
        let value = match &row.selected {
            None => to_py(py, &row.value.value)?,
            Some(selected) => {
                let each = selected.iter().map(|datum| plain(py, datum));
                PyList::new(py, each.collect::<PyResult<Vec<_>>>()?)?.into_any()
            }
        };
        Ok((to_py(py, &row.key)?, value, row.value.timestamp.0))
    });
    let cursor = page.cursor.as_deref().map(|bytes| PyBytes::new(py, bytes));
    Ok((
        rows.collect::<PyResult<_>>()?,
        cursor,
        explanation(&page.explained),
    ))
}
