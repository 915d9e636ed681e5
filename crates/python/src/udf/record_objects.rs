//! Python objects that describe a record for functions that need more than its value.
//!
//! Takes a record and its topic as a Python object; returns a `RecordContext` or a `ConsumedRecord`.

use crate::convert::to_py;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyTuple};
use stoatflow_core::Record;

static RECORD_CONTEXT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// `RecordContext(topic, partition, offset, timestamp, headers)`.
pub(super) fn record_context<'py>(
    record: &Record,
    topic: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = topic.py();
    let headers = headers(py, record)?;
    let origin = &record.origin;
    RECORD_CONTEXT
        .import(py, "stoatflow.record_context", "RecordContext")?
        .call1((
            topic,
            origin.partition.0,
            origin.offset.0,
            record.timestamp.0,
            headers,
        ))
}

/// The headers of a record: pairs of a name and bytes.
pub(super) fn headers<'py>(py: Python<'py>, record: &Record) -> PyResult<Bound<'py, PyTuple>> {
    let headers = record.headers.iter().flat_map(|headers| headers.iter());
    let headers = headers.map(|h| (&*h.name, h.value.as_ref().map(|v| PyBytes::new(py, v))));
    PyTuple::new(py, headers.collect::<Vec<_>>())
}

static CONSUMED_RECORD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// `ConsumedRecord(key, value, timestamp, topic, partition, offset, headers)`.
pub(super) fn consumed_record<'py>(
    record: &Record,
    topic: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = topic.py();
    CONSUMED_RECORD
        .import(py, "stoatflow.consumed_record", "ConsumedRecord")?
        .call1((
            to_py(py, &record.key)?,
            to_py(py, &record.value)?,
            record.timestamp.0,
            topic,
            record.origin.partition.0,
            record.origin.offset.0,
            headers(py, record)?,
        ))
}
