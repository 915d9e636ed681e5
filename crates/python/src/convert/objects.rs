//! Builds plain dicts and lists from a value that has a schema.

use crate::errors::to_py_err;
use crate::lazy;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PyString};
use stoatflow_core::{Error, Result};
use stoatflow_formats::{Leaf, Maker, Value};

/// A new dict or list of a value.
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
