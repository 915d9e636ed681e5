//! Dicts of the user's, held still while they are gone through.
//!
//! Takes a dict that a function gave and may have kept; gives one whose items don't change meanwhile. With a GIL nobody
//! else runs while this crate goes through a dict, so it is the dict itself. Without one another thread may change it
//! at any moment, which ends PyO3's iterators with a panic: there it is a copy, which the interpreter makes in one go.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// See the module.
pub fn steady<'py>(dict: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    if cfg!(Py_GIL_DISABLED) {
        dict.copy()
    } else {
        Ok(dict.clone())
    }
}
