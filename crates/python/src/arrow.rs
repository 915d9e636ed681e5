//! Calls user functions with columnar batches and takes their results.
//!
//! Takes an Arrow batch, passes it to Python as a `pyarrow.RecordBatch` over the C data interface, calls
//! the function, and takes its result from any library that supports the interface. Nothing is copied:
//! both sides share the buffers. Holds the interpreter only during the call; the engine converts to and
//! from JSON.

mod capsules;
mod store;

use crate::errors::to_py_err;
use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCapsule;
use stoatflow_core::Error;
use stoatflow_operators::FailedBatch;

pub use store::{StoreBatches, store_request};

/// A batch of records as columns, which `pyarrow.record_batch` and others read without a copy.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct ArrowBatch {
    batch: RecordBatch,
}

#[pymethods]
impl ArrowBatch {
    /// The schema and the columns, for the C data interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The protocol lets a producer return its own schema; a caller that requested another one casts.
        let _unused = requested_schema;
        capsules::export(py, &self.batch)
    }

    /// The schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsules::export(py, &self.batch).map(|(schema, _)| schema)
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }
}

static RECORD_BATCH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static ROW_ERROR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Calls a function with a batch and returns its columns. `raised` turns its exception into an error.
pub fn call(
    callable: &Bound<'_, PyAny>,
    batch: RecordBatch,
    raised: impl Fn(PyErr) -> Error,
) -> Result<Vec<RecordBatch>, FailedBatch> {
    let whole = |error: Error| FailedBatch { row: None, error };
    let result = call_raw(callable, batch, &raised)?;
    match capsules::import(&result) {
        Ok(Some(batches)) => Ok(batches),
        Ok(None) => Err(whole(no_columns(&result))),
        Err(e) => Err(whole(raised(e))),
    }
}

/// Calls a function with a batch and returns whatever object it returned.
pub fn call_raw<'py>(
    callable: &Bound<'py, PyAny>,
    batch: RecordBatch,
    raised: impl Fn(PyErr) -> Error,
) -> Result<Bound<'py, PyAny>, FailedBatch> {
    let py = callable.py();
    let rows = batch.num_rows();
    let whole = |error: Error| FailedBatch { row: None, error };
    let shown = || -> PyResult<Bound<'_, PyAny>> {
        let make = RECORD_BATCH.import(py, "pyarrow", "record_batch")?;
        make.call1((ArrowBatch { batch },))
    };
    let shown = shown().map_err(|e| {
        whole(raised(e).hint(
            "batches are shown as pyarrow's: pip install 'stoatflow[arrow]' (pyarrow 14 or newer)",
        ))
    })?;
    callable.call1((shown,)).map_err(|e| FailedBatch {
        row: row_of(py, &e).filter(|row| *row < rows),
        error: raised(e),
    })
}

/// The row that a `RowError` names.
fn row_of(py: Python<'_>, exception: &PyErr) -> Option<usize> {
    let class = ROW_ERROR.import(py, "stoatflow.arrow", "RowError").ok()?;
    if !exception.is_instance(py, class) {
        return None;
    }
    exception.value(py).getattr("row").ok()?.extract().ok()
}

fn no_columns(result: &Bound<'_, PyAny>) -> Error {
    let kind = result.get_type().qualname();
    let kind = kind.map_or_else(|_| "an object".to_owned(), |name| name.to_string());
    Error::user(format!(
        "the function of map_batches must return columns, it returned {kind}"
    ))
    .hint("return a pyarrow.RecordBatch or Table, or a frame of Polars or pandas")
}

/// An operation that the C data interface rejected, as an exception.
fn refused(what: &str, cause: impl std::error::Error + Send + Sync + 'static) -> PyErr {
    to_py_err(Error::user(what.to_owned()).caused_by(cause))
}
