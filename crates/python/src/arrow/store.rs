//! The rows of a store as Arrow batches for Python.
//!
//! Takes a store request, returns columns over the C data interface. Reads with the interpreter
//! detached.

use super::{ArrowBatch, capsules};
use crate::errors::to_py_err;
use arrow_array::RecordBatch;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use stoatflow_core::Error;
use stoatflow_engine::query::StoreRequest;

/// The batches of a store. Dropping it releases the snapshot that is read.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct StoreBatches {
    batches: Mutex<stoatflow_operators::StoreBatches>,
}

impl StoreBatches {
    pub const fn new(batches: stoatflow_operators::StoreBatches) -> Self {
        Self {
            batches: Mutex::new(batches),
        }
    }
}

#[pymethods]
impl StoreBatches {
    /// The next batch; `None` after the last one.
    fn next(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        let next = py.detach(|| self.batches.lock().next_batch());
        let next = next.map_err(to_py_err)?;
        Ok(next.map(|batch| ArrowBatch { batch }))
    }

    /// The schema of all batches.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = py.detach(|| self.batches.lock().schema());
        capsules::export(py, &RecordBatch::new_empty(schema)).map(|(schema, _)| schema)
    }
}

/// A request for a store's rows; `schema` holds the columns of its values as JSON.
pub fn store_request(store: &str, schema: Option<&str>, max_rows: usize) -> PyResult<StoreRequest> {
    let schema = schema.map(serde_json::from_str).transpose();
    Ok(StoreRequest {
        store: store.to_owned(),
        schema: schema.map_err(|e| {
            to_py_err(
                Error::internal("the columns of a store are not as the engine reads them")
                    .caused_by(e),
            )
        })?,
        max_rows,
    })
}
