//! The C data interface, in capsules: the one place with raw pointers to Arrow's structs.
//!
//! Exports a batch as two capsules; imports and validates the batches of an object that supports the
//! protocol. Moving a struct out of a capsule leaves the capsule empty, as the protocol requires, so it
//! is freed only once.

use super::refused;
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::ffi_stream::ArrayStreamReader;
use arrow_array::{
    Array, ArrayReader, ArrayRef, RecordBatch, StructArray, make_array, new_empty_array,
};
use arrow_schema::ArrowError;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

const SCHEMA: &std::ffi::CStr = c"arrow_schema";
const ARRAY: &std::ffi::CStr = c"arrow_array";
const STREAM: &std::ffi::CStr = c"arrow_array_stream";

/// Schema and columns of a batch. The capsules free them if nobody takes them.
pub fn export<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let columns = StructArray::from(batch.clone()).into_data();
    let (array, schema) =
        to_ffi(&columns).map_err(|e| refused("a batch can't be handed to Python", e))?;
    Ok((
        PyCapsule::new_with_value(py, schema, SCHEMA)?,
        PyCapsule::new_with_value(py, array, ARRAY)?,
    ))
}

/// The batches of an object; `None` if it doesn't support the protocol.
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<RecordBatch>>> {
    let py = object.py();
    if let Some(export) = object.getattr_opt(intern!(py, "__arrow_c_array__"))? {
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
            export.call0()?.extract()?;
        return import_array(&schema, &array).map(|batch| Some(vec![batch]));
    }
    if let Some(export) = object.getattr_opt(intern!(py, "__arrow_c_stream__"))? {
        let stream: Bound<'_, PyCapsule> = export.call0()?.extract()?;
        return import_stream(&stream).map(Some);
    }
    Ok(None)
}

fn import_array(
    schema: &Bound<'_, PyCapsule>,
    array: &Bound<'_, PyCapsule>,
) -> PyResult<RecordBatch> {
    let schema = schema
        .pointer_checked(Some(SCHEMA))?
        .cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: the names of the capsules say that these are the two structs, valid while the capsules live,
    // which they do: the caller holds them. The array is moved out and its capsule left empty.
    let data = unsafe {
        let array = FFI_ArrowArray::from_raw(array.as_ptr());
        from_ffi(array, schema.as_ref())
    };
    batch(&make_array(data.map_err(unreadable)?))
}

/// Validates an array from the C data interface as a batch. The import makes text views without checking
/// their bytes, and readers of text rely on valid UTF-8.
fn batch(array: &ArrayRef) -> PyResult<RecordBatch> {
    let Some(columns) = array.as_struct_opt() else {
        return Err(PyTypeError::new_err(format!(
            "the function gave an array of {}, and no batch of columns",
            array.data_type()
        )));
    };
    let data = columns.to_data();
    let mut children = data.child_data().iter();
    children
        .try_for_each(|child| child.validate_full())
        .map_err(|e| refused("the result holds what is not of its type", e))?;
    if columns.null_count() > 0 {
        return Err(PyTypeError::new_err(
            "the function gave rows that are null as a whole: drop them instead",
        ));
    }
    Ok(columns.into())
}

fn unreadable(error: ArrowError) -> PyErr {
    refused("the result's columns can't be read", error)
}

fn import_stream(stream: &Bound<'_, PyCapsule>) -> PyResult<Vec<RecordBatch>> {
    let stream = stream.pointer_checked(Some(STREAM))?;
    // SAFETY: the name of the capsule says that this is the struct, valid while the capsule lives, which it
    // does: the caller holds it. It is moved out and the capsule left empty.
    let reader = unsafe { ArrayStreamReader::from_raw(stream.as_ptr().cast()) };
    let reader = reader.map_err(unreadable)?;
    let columns = Arc::clone(reader.field());
    let batches = reader.map(|array| batch(&array.map_err(unreadable)?));
    let mut batches = batches.collect::<PyResult<Vec<_>>>()?;
    if batches.is_empty() {
        // No rows, but the columns are known.
        batches.push(batch(&new_empty_array(columns.data_type()))?);
    }
    Ok(batches)
}
