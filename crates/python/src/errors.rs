//! Converts errors between the engine and Python: kinds become classes, and a Python exception that
//! caused an error becomes its `__cause__`.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use stoatflow_core::error::ERROR_KINDS;
use stoatflow_core::{Error, ErrorKind};

/// A Python exception as the cause of an engine error.
///
/// Its text is computed once, where the exception was raised: an error may be displayed anywhere, even
/// under a lock that a thread holding the interpreter waits for.
pub struct PyCause {
    pub exception: PyErr,
    text: String,
}

impl PyCause {
    /// Computes the exception's text, which may run Python code.
    pub fn new(exception: PyErr) -> Self {
        let text = exception.to_string();
        Self { exception, text }
    }
}

impl std::fmt::Display for PyCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::fmt::Debug for PyCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PyCause").field(&self.text).finish()
    }
}

impl std::error::Error for PyCause {}

/// Converts an engine error into an exception.
#[allow(clippy::needless_pass_by_value)] // fits `map_err`
pub fn to_py_err(error: Error) -> PyErr {
    as_py_err(&error)
}

/// Converts an engine error that the engine keeps.
pub fn as_py_err(error: &Error) -> PyErr {
    Python::attach(|py| build(py, error).unwrap_or_else(|e| e))
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let classes = py.import("stoatflow.errors")?.getattr("ERRORS_BY_KIND")?;
    let class = classes.get_item(error.kind().name())?;
    let kwargs = PyDict::new(py);
    kwargs.set_item("kind", error.kind().name())?;
    kwargs.set_item("next_step", error.next_step())?;
    let at = error.coordinates();
    let coordinates = PyDict::new(py);
    for (name, value) in [
        ("function", &at.function),
        ("node", &at.node),
        ("store", &at.store),
        ("topic", &at.topic),
    ] {
        if let Some(value) = value {
            coordinates.set_item(name, value)?;
        }
    }
    for (name, value) in [
        ("partition", at.partition.map(|p| i64::from(p.0))),
        ("offset", at.offset.map(|o| o.0)),
        ("lane", at.lane.map(|l| i64::from(l.0))),
        (
            "epoch",
            at.epoch.map(|e| i64::try_from(e.0).unwrap_or(i64::MAX)),
        ),
    ] {
        if let Some(value) = value {
            coordinates.set_item(name, value)?;
        }
    }
    kwargs.set_item("coordinates", coordinates)?;
    let foreign = error.cause().and_then(|c| c.downcast_ref::<PyCause>());
    let message = match (error.cause(), foreign) {
        (Some(cause), None) => match cause.downcast_ref::<Error>() {
            Some(ours) => format!("{}: {}", error.message(), ours.brief()),
            None => format!("{}: {cause}", error.message()),
        },
        _ => error.message().to_owned(),
    };
    let exception = class.call((PyString::new(py, &message),), Some(&kwargs))?;
    let exception = PyErr::from_value(exception);
    if let Some(cause) = foreign {
        exception.set_cause(py, Some(cause.exception.clone_ref(py)));
    }
    Ok(exception)
}

/// The error for an exception of the user's code. An exception that is no `Exception` (`SystemExit`,
/// `KeyboardInterrupt`) concerns the application and not a record, so error handlers are not called.
pub fn raised(py: Python<'_>, function: &str, what: &str, exception: PyErr) -> Error {
    let kind = exception
        .get_type(py)
        .qualname()
        .map_or_else(|_| "an exception".to_owned(), |n| n.to_string());
    // Its `__str__` is user code too and may raise.
    let text = exception.value(py).str();
    let text = text.map_or_else(
        |_| "(it can't be shown)".to_owned(),
        |t| t.to_string_lossy().into_owned(),
    );
    let text = format!("{kind}: {text}");
    let mut error = Error::user(format!("{what} raised {text}"));
    if !exception.is_instance_of::<PyException>(py) {
        error = error.bypass_handlers().hint(
            "a function can't end the process: raise an error of your own for a record that is wrong, or have the \
             main thread stop the application",
        );
    }
    error
        .at(|at| at.function = Some(function.to_owned()))
        .caused_by(PyCause { exception, text })
}

/// The error for an exception of this package, with its kind; only of one that is about the data, error
/// handlers are asked. `None` for other exceptions.
pub fn of_this_package(py: Python<'_>, exception: &PyErr) -> Option<Error> {
    let value = exception.value(py);
    let text = |name: &str| -> Option<String> {
        let found = value.getattr(name).ok()?;
        Some(found.cast::<PyString>().ok()?.to_string())
    };
    let name = text("kind")?;
    let (kind, _, _) = ERROR_KINDS.iter().find(|(_, known, _)| *known == name)?;
    let error = Error::new(*kind, text("message")?).hint(text("next_step")?);
    Some(if *kind == ErrorKind::Serde {
        error
    } else {
        error.bypass_handlers()
    })
}
