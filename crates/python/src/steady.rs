//! Dicts of the user's, held still while they are gone through.
//!
//! Takes a dict that a function gave and may have kept; gives its items as they are now. Another
//! thread may change the dict meanwhile, which ends PyO3's iterators with a panic: without a GIL at
//! any moment, with one as soon as anything made of an item has the interpreter collect garbage,
//! whose callbacks and finalizers are Python.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A name and a value.
pub type DictItem<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// See the module.
pub fn steady<'py>(dict: &Bound<'py, PyDict>) -> PyResult<Vec<DictItem<'py>>> {
    if cfg!(Py_GIL_DISABLED) {
        // The interpreter makes a copy in one go.
        Ok(dict.copy()?.iter().collect())
    } else {
        // Counts references, and runs nothing.
        Ok(dict.iter().collect())
    }
}
