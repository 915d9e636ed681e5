//! The Python methods of `JsonObject`: those of a dict that don't change it.

use super::{JsonObject, Kind};
use crate::dict_items::snapshot_items;
use crate::errors::to_py_err;
use crate::lazy::scan::{Top, scan};
use crate::lazy::{not_json, plain_text, text_bytes, to_python};
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyAttributeError, PyKeyError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString, PyTuple};
use std::sync::OnceLock;
use stoatflow_core::Error;
use stoatflow_formats::near;

impl JsonObject {
    /// The `KeyError` of a dict, with a note about a similar name.
    #[cold]
    fn no_such(&self, key: &Bound<'_, PyAny>) -> PyErr {
        let error = PyKeyError::new_err((key.clone().unbind(),));
        let py = key.py();
        let meant = || -> PyResult<()> {
            let names = self.all(py)?.keys().iter();
            let names: Vec<String> = names.filter_map(|name| name.extract().ok()).collect();
            let near = near(&key.extract::<String>()?, names.iter().map(String::as_str));
            if near.starts_with("did you mean") {
                // Python 3.10 has no `add_note`; failing is fine.
                error
                    .value(py)
                    .call_method1(intern!(py, "add_note"), (near,))?;
            }
            Ok(())
        };
        let _only_a_help = meant();
        error
    }
}

/// Methods that change a dict, which a view lacks.
const CHANGES: [&str; 5] = ["clear", "pop", "popitem", "setdefault", "update"];

fn unchangeable() -> PyErr {
    PyTypeError::new_err(
        "a JsonObject can't be changed: it stands for a record that others read too. Next: make a new \
         value, v | {\"name\": ...}, or read real dicts, with decode=\"dict\" in the serde",
    )
}

/// Copies an operand of `|` into a dict: dicts, views and other mappings.
fn side<'py>(other: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let py = other.py();
    if let Ok(dict) = other.cast::<PyDict>() {
        return dict.copy().map(Some);
    }
    if let Ok(object) = other.cast_exact::<JsonObject>() {
        return object.get().all(py)?.copy().map(Some);
    }
    let Ok(mapping) = other.cast::<PyMapping>() else {
        return Ok(None);
    };
    let copy = PyDict::new(py);
    copy.update(mapping)?;
    Ok(Some(copy))
}

/// Merges two dicts; either may be missing.
fn both<'py>(
    first: Option<Bound<'py, PyDict>>,
    second: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Py<PyDict>>> {
    let Some(second) = second else {
        return Ok(first.map(Bound::unbind));
    };
    let merged = match first {
        Some(first) => first,
        None => return second.copy().map(|copy| Some(copy.unbind())),
    };
    merged.update(second.as_mapping())?;
    Ok(Some(merged.unbind()))
}

#[pymethods]
impl JsonObject {
    /// A view of the text of a JSON object.
    ///
    /// >>> sf.JsonObject.parse('{"total": 30}')["total"]
    /// 30
    #[staticmethod]
    fn parse(text: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bytes = text_bytes(text)?;
        let (top, span) = scan(&bytes).map_err(|fault| not_json(&bytes, &fault))?;
        match top {
            Top::Object(_) => {
                let mut object = Self::part(bytes.slice(span.range()));
                if let Kind::Text(text) = &mut object.kind {
                    text.whole = true;
                }
                Ok(object)
            }
            _ => Err(to_py_err(
                Error::serde("the text is JSON, but no object")
                    .hint("a JsonObject is made of a text such as '{\"a\": 1}'"),
            )),
        }
    }

    /// Converts the whole object to plain dicts and lists.
    ///
    /// >>> sf.JsonObject.parse('{"total": 30}').to_dict()
    /// {'total': 30}
    pub fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match &self.kind {
            Kind::Text(text) => return Ok(plain_text(py, &text.bytes)?.cast_into::<PyDict>()?),
            Kind::Open(source) => return Ok(source.plain(py)?.cast_into::<PyDict>()?),
            Kind::Merge { .. } => {}
        }
        let plain = PyDict::new(py);
        // Iterates safely: a function may still hold the dict that this view wraps, and change it.
        for (name, value) in snapshot_items(self.all(py)?)? {
            plain.set_item(name, to_python(&value)?)?;
        }
        Ok(plain)
    }

    /// The value of a member, or `default`.
    ///
    /// >>> order = sf.JsonObject.parse('{"total": 30}')
    /// >>> order.get("total"), order.get("tip"), order.get("tip", 0)
    /// (30, None, 0)
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(key)?.or(default))
    }

    /// The names.
    ///
    /// >>> list(sf.JsonObject.parse('{"customer": "ann", "total": 30}').keys())
    /// ['customer', 'total']
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.copy(py)?.call_method0(intern!(py, "keys"))
    }

    /// The values.
    ///
    /// >>> list(sf.JsonObject.parse('{"customer": "ann", "total": 30}').values())
    /// ['ann', 30]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.copy(py)?.call_method0(intern!(py, "values"))
    }

    /// Names and values.
    ///
    /// >>> list(sf.JsonObject.parse('{"customer": "ann", "total": 30}').items())
    /// [('customer', 'ann'), ('total', 30)]
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.copy(py)?.call_method0(intern!(py, "items"))
    }

    /// A dict of the members; nested objects and arrays stay views.
    ///
    /// >>> order = sf.JsonObject.parse('{"total": 30}')
    /// >>> mine = order.copy()
    /// >>> mine["total"] = 50
    /// >>> mine, order["total"]
    /// ({'total': 50}, 30)
    fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.all(py)?.copy()
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.find(key)?.ok_or_else(|| self.no_such(key))
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Some(all) = self.all.get() {
            return all.bind(key.py()).contains(key);
        }
        match (&self.kind, key.cast::<PyString>().map(|name| name.to_str())) {
            (Kind::Text(text), Ok(Ok(name))) => Ok(text.find(name.as_bytes()).is_some()),
            (Kind::Open(source), Ok(Ok(name))) => source.has(name),
            _ => self.all(key.py())?.contains(key),
        }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.all(py)?.try_iter()?.into_any())
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.all(py)?.call_method0(intern!(py, "__reversed__"))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let count = match (&self.kind, self.all.get()) {
            (Kind::Text(text), None) => text.count(),
            (Kind::Open(source), None) => source.count()?,
            _ => None,
        };
        match count {
            Some(count) => Ok(count),
            None => Ok(self.all(py)?.len()),
        }
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        match &self.kind {
            Kind::Text(text) => Ok(!text.members().is_empty()),
            Kind::Open(source) => Ok(!source.members()?.is_empty()),
            Kind::Merge { .. } => Ok(!self.all(py)?.is_empty()),
        }
    }

    fn __richcmp__<'py>(
        &self,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let not_implemented = || py.NotImplemented().into_bound(py);
        if !matches!(op, CompareOp::Eq | CompareOp::Ne) {
            return Ok(not_implemented());
        }
        if let Ok(object) = other.cast_exact::<Self>() {
            let other = object.get();
            if let (Some(a), Some(b)) = (self.text(), other.text())
                && a == b
            {
                let equal = matches!(op, CompareOp::Eq);
                return Ok(pyo3::types::PyBool::new(py, equal).to_owned().into_any());
            }
            return self.all(py)?.rich_compare(other.all(py)?, op);
        }
        if other.is_instance_of::<PyDict>() || other.cast::<PyMapping>().is_ok() {
            return self.all(py)?.rich_compare(other, op);
        }
        Ok(not_implemented())
    }

    fn __or__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Some(other) = side(other)? else {
            return Ok(py.NotImplemented().into_bound(py));
        };
        let kind = match &slf.get().kind {
            Kind::Text(_) | Kind::Open(_) => Kind::Merge {
                front: None,
                base: Some(slf.clone().unbind()),
                changes: Some(other.unbind()),
            },
            Kind::Merge {
                front,
                base,
                changes,
            } => {
                let changes = changes.as_ref().map(|c| c.bind(py).copy()).transpose()?;
                Kind::Merge {
                    front: front.as_ref().map(|front| front.clone_ref(py)),
                    base: base.as_ref().map(|base| base.clone_ref(py)),
                    changes: both(changes, Some(&other))?,
                }
            }
        };
        let all = OnceLock::new();
        Ok(Bound::new(py, Self { kind, all })?.into_any())
    }

    fn __ror__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Some(other) = side(other)? else {
            return Ok(py.NotImplemented().into_bound(py));
        };
        let kind = match &slf.get().kind {
            Kind::Text(_) | Kind::Open(_) => Kind::Merge {
                front: Some(other.unbind()),
                base: Some(slf.clone().unbind()),
                changes: None,
            },
            Kind::Merge {
                front,
                base,
                changes,
            } => Kind::Merge {
                front: both(Some(other), front.as_ref().map(|front| front.bind(py)))?,
                base: base.as_ref().map(|base| base.clone_ref(py)),
                changes: changes.as_ref().map(|changes| changes.clone_ref(py)),
            },
        };
        let all = OnceLock::new();
        Ok(Bound::new(py, Self { kind, all })?.into_any())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.to_dict(py)?.repr()?.to_string())
    }

    fn __setitem__(&self, _key: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(unchangeable())
    }

    fn __delitem__(&self, _key: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(unchangeable())
    }

    fn __getattr__(&self, name: &Bound<'_, PyString>) -> PyResult<Py<PyAny>> {
        let shown = name.to_cow()?;
        Err(if CHANGES.contains(&&*shown) {
            PyAttributeError::new_err(format!(
                "a JsonObject has no {shown}(): it can't be changed. Next: make a new value, \
                 v | {{\"name\": ...}}, or read real dicts, with decode=\"dict\" in the serde"
            ))
        } else {
            PyAttributeError::new_err(format!(
                "'JsonObject' object has no attribute '{shown}'. Next: members are items, v[\"{shown}\"]"
            ))
        })
    }

    fn __copy__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.copy(py)
    }

    fn __deepcopy__<'py>(
        &self,
        py: Python<'py>,
        memo: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !matches!(self.kind, Kind::Merge { .. }) {
            return Ok(self.to_dict(py)?.into_any());
        }
        // Objects that a function put in have their own way of being copied.
        let deepcopy = py.import("copy")?.getattr("deepcopy")?;
        deepcopy.call1((self.copy(py)?, memo))
    }

    /// Pickles as a dict: the process that reads it may not have StoatFlow.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let plain = PyTuple::new(py, [self.to_dict(py)?])?;
        PyTuple::new(py, [py.get_type::<PyDict>().into_any(), plain.into_any()])
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        match &self.kind {
            // Text and views of its parts hold no object that could refer back to them.
            Kind::Text(_) => {}
            Kind::Open(_) => visit.call(self.all.get())?,
            Kind::Merge { front, changes, .. } => {
                visit.call(front)?;
                visit.call(changes)?;
                visit.call(self.all.get())?;
            }
        }
        Ok(())
    }
}
