//! Safe iteration over dicts that user code may change.
//!
//! Takes a dict that a function returned and may have kept; returns its items as of now. Another thread
//! may change the dict meanwhile, and PyO3's iterators panic on that: without a GIL at any moment, with
//! one as soon as converting an item triggers garbage collection, whose callbacks and finalizers are
//! Python code.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A name and a value.
pub type DictItem<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// See the module.
pub fn snapshot_items<'py>(dict: &Bound<'py, PyDict>) -> PyResult<Vec<DictItem<'py>>> {
    if cfg!(Py_GIL_DISABLED) {
        // The interpreter copies the dict atomically.
        Ok(dict.copy()?.iter().collect())
    } else {
        // Only increments reference counts, runs no Python code.
        Ok(dict.iter().collect())
    }
}
