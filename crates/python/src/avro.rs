//! Values with a schema between the engine and Python: dicts of whole records, and what functions return as schemas take it.
//!
//! Takes a value that is still bytes, gives a dict or a list of the caller's own (views: [`crate::lazy`]); takes Python
//! objects, gives fields that a schema writes. Owns `AvroFormat`, with which the test driver reads and writes as the engine does.

use crate::datum::{PyDatum, from_py, to_py};
use crate::errors::{PyCause, to_py_err};
use crate::lazy;
use crate::protobuf;
use crate::steady::steady;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
};
use std::collections::BTreeMap;
use stoatflow_core::{Bytes, CustomSerde, Datum, Error, Fields, Result, Text};
use stoatflow_formats::avro::{Format, Spec};
use stoatflow_formats::{Leaf, Maker, Value};

/// A schema with what stands before the bytes of its records.
#[pyclass(frozen, module = "stoatflow._native")]
pub struct AvroFormat(Format);

#[pymethods]
impl AvroFormat {
    #[new]
    #[pyo3(signature = (schema, schema_id=None, writer_schemas=BTreeMap::new()))]
    fn new(
        schema: String,
        schema_id: Option<u32>,
        writer_schemas: BTreeMap<u32, String>,
    ) -> PyResult<Self> {
        let writers = writer_schemas
            .into_iter()
            .map(|(id, text)| (id.to_string(), text));
        let spec = Spec::new(schema, schema_id, writers.collect());
        spec.make().map(Self).map_err(to_py_err)
    }

    /// Its name in messages.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The full name of a record's schema, the type of any other.
    #[getter]
    fn title(&self) -> String {
        self.0.schema().title()
    }

    /// The bytes of a value.
    fn encode<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let encoded = from_py(value).and_then(|datum| self.0.encode(&datum));
        Ok(PyBytes::new(value.py(), &encoded.map_err(to_py_err)?))
    }

    /// What a function gets for bytes.
    fn view<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let decoded = self.0.decode(&Bytes::copy_from_slice(data));
        to_py(py, &decoded.map_err(to_py_err)?)
    }

    /// The value of bytes, plain.
    fn decode<'py>(&self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let decoded = self.0.decode(&Bytes::copy_from_slice(data));
        match decoded.map_err(to_py_err)? {
            Datum::Opaque(value) => lazy::plain(py, &*value),
            scalar => to_py(py, &scalar),
        }
    }
}

/// A dict or a list of a value, made anew.
pub fn whole<'py>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    value.make(&mut Objects(py)).map_err(|Failed(e)| e)
}

struct Objects<'py>(Python<'py>);

struct Failed(PyErr);

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self(to_py_err(error))
    }
}

impl From<PyErr> for Failed {
    fn from(error: PyErr) -> Self {
        Self(error)
    }
}

impl<'py> Maker for Objects<'py> {
    type Made = Bound<'py, PyAny>;
    type Object = Bound<'py, PyDict>;
    type Trouble = Failed;

    fn leaf(&mut self, leaf: Leaf<'_>) -> Result<Self::Made, Failed> {
        let py = self.0;
        Ok(match leaf {
            Leaf::Null => py.None().into_bound(py),
            Leaf::Bool(truth) => PyBool::new(py, truth).to_owned().into_any(),
            Leaf::Int(number) => number.into_pyobject(py).map_err(PyErr::from)?.into_any(),
            Leaf::Large(number) => number.into_pyobject(py).map_err(PyErr::from)?.into_any(),
            Leaf::Float(number) => PyFloat::new(py, number).into_any(),
            Leaf::Text(text) => PyString::new(py, text).into_any(),
            Leaf::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        })
    }

    fn list(&mut self, items: Vec<Self::Made>) -> Result<Self::Made, Failed> {
        Ok(PyList::new(self.0, items)?.into_any())
    }

    fn object(&mut self) -> Self::Object {
        PyDict::new(self.0)
    }

    fn member(
        &mut self,
        object: &mut Self::Object,
        name: &str,
        value: Self::Made,
    ) -> Result<(), Failed> {
        let name = lazy::member_name(self.0, name)?;
        Ok(object.set_item(name, value)?)
    }

    fn done(&mut self, object: Self::Object) -> Self::Made {
        object.into_any()
    }
}

/// Deeper values are almost surely cycles.
const DEEPEST: usize = 128;

/// A Python object as lists, fields and scalars.
pub fn parts(object: &Bound<'_, PyAny>) -> Result<Datum> {
    part(object, 0)
}

/// What has no form.
pub fn refused(what: &str) -> Error {
    Error::serde(format!("a schema has no form for {what}")).hint(
        "return dicts, lists, text, bytes, numbers, booleans and None; the keys of dicts are texts",
    )
}

/// The same of a part, so deep in a value.
pub fn part(object: &Bound<'_, PyAny>, depth: usize) -> Result<Datum> {
    if depth > DEEPEST {
        return Err(Error::serde("a value is nested too deeply for a schema")
            .hint("does it contain itself?"));
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        let dict = steady(dict).map_err(unreadable)?;
        let mut members = Vec::with_capacity(dict.len());
        for (name, value) in dict {
            let Ok(name) = name.cast::<PyString>() else {
                return Err(
                    Error::serde("a schema has no form for a dict whose key is not text")
                        .hint("make the keys of the dict texts"),
                );
            };
            let name = name.to_cow().map_err(unreadable)?;
            members.push((Text::from(name.as_ref()), part(&value, depth + 1)?));
        }
        return Ok(Fields(members).datum());
    }
    if let Some(parts) = lazy::parts(object, depth) {
        return parts;
    }
    if let Ok(list) = object.cast::<PyList>() {
        return items(list.iter(), depth);
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return items(tuple.iter(), depth);
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(Datum::Bytes(Bytes::from(bytes.to_vec())));
    }
    if object.cast::<PyInt>().is_ok()
        && object.cast::<PyBool>().is_err()
        && object.extract::<i64>().is_err()
    {
        if let Ok(large) = object.extract::<u64>() {
            return Ok(Datum::Json(large.to_string().into()));
        }
        return Err(
            Error::serde(format!("the whole number {object} is longer than 64 bits"))
                .hint("give a decimal as decimal.Decimal or as text"),
        );
    }
    match from_py(object)? {
        Datum::Opaque(made) if made.as_any().is::<PyDatum>() => other(object),
        // A view is what it was made of: JSON text, or a value with a schema.
        plain => Ok(plain),
    }
}

fn items<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>, depth: usize) -> Result<Datum> {
    let items = items.map(|item| part(&item, depth + 1));
    Ok(Datum::List(items.collect::<Result<_>>()?))
}

/// What has a text that a schema can take.
fn other(object: &Bound<'_, PyAny>) -> Result<Datum> {
    if let Some(message) = protobuf::serialized(object)? {
        return Ok(message);
    }
    let plain = lazy::to_python(object).map_err(unreadable)?;
    if !plain.is(object) {
        return part(&plain, 1);
    }
    let class = object.get_type();
    let name = class.fully_qualified_name().map_err(unreadable)?;
    match &*name.to_string_lossy() {
        "decimal.Decimal" | "uuid.UUID" => {
            let text = object.str().map_err(unreadable)?;
            Ok(Datum::text(text.to_string_lossy().as_ref()))
        }
        name @ ("datetime.datetime" | "datetime.date" | "datetime.time" | "datetime.timedelta") => {
            Err(Error::serde(format!("a schema writes dates and times as whole numbers, not as a {name}"))
                .hint("give the number that Avro's logical type counts, such as round(value.timestamp() * 1000) for timestamp-millis; for Protobuf's Timestamp, a dict of seconds and nanos"))
        }
        name => Err(Error::serde(format!("a schema has no form for an object of type {name}"))
            .hint("return dicts, lists, text, bytes, numbers, booleans and None")),
    }
}

#[allow(clippy::needless_pass_by_value)] // fits `map_err`
fn unreadable(exception: PyErr) -> Error {
    Error::serde("a value can't be read").caused_by(PyCause(exception))
}
