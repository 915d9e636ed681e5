//! `JsonObject`: a mapping over the text of a JSON object, or over a record with a schema.
//!
//! A view finds members where they lie, and makes a dict of all only for an iteration or many look-ups.
//! `v | {...}` is a view of both sides: written out, members that were not replaced are copied as they came.
//! Never changes.

mod merging;
mod text;
mod writing;

use super::open::OpenValue;
use super::parts::Parts;
use super::scan::Member;
use super::{given, member_name, not_json, plain_text, to_python};
use crate::errors::to_py_err;
use crate::steady::steady;
use merging::{Base, Sides};
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyAttributeError, PyKeyError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString, PyTuple};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use stoatflow_core::{Bytes, Datum, Error, Result};
use stoatflow_formats::near;
use text::ObjectText;

/// After so many look-ups a dict of all members is the cheaper way.
const ASKED_OFTEN: u32 = 32;

/// See the module.
#[pyclass(frozen, mapping, module = "stoatflow")]
pub struct JsonObject {
    kind: Kind,
    /// Its members, once all were asked for. This dict itself is never given out.
    all: OnceLock<Py<PyDict>>,
}

enum Kind {
    Text(ObjectText),
    /// What has a schema.
    Open(OpenValue),
    /// As `front | base | changes` of dicts.
    Over {
        front: Option<Py<PyDict>>,
        base: Option<Py<JsonObject>>,
        changes: Option<Py<PyDict>>,
    },
}

impl JsonObject {
    /// Of a whole text, with the places of its members.
    pub fn read(bytes: Bytes, members: Vec<Member>) -> Self {
        Self::text_of(bytes, true, OnceLock::from(members))
    }

    /// Of a part of a text that was checked.
    pub fn cut(bytes: Bytes) -> Self {
        Self::text_of(bytes, false, OnceLock::new())
    }

    fn text_of(bytes: Bytes, whole: bool, members: OnceLock<Vec<Member>>) -> Self {
        Self {
            kind: Kind::Text(ObjectText {
                bytes,
                whole,
                members,
                parts: Parts::default(),
                asked: AtomicU32::new(0),
            }),
            all: OnceLock::new(),
        }
    }

    /// Of an object with a schema.
    pub const fn open(source: OpenValue) -> Self {
        Self {
            kind: Kind::Open(source),
            all: OnceLock::new(),
        }
    }

    /// Of a dict that a function made.
    pub fn over(dict: &Bound<'_, PyDict>) -> Self {
        Self {
            kind: Kind::Over {
                front: Some(dict.clone().unbind()),
                base: None,
                changes: None,
            },
            all: OnceLock::from(dict.clone().unbind()),
        }
    }

    /// Its text, if it has one and nothing was changed.
    const fn text(&self) -> Option<&Bytes> {
        match &self.kind {
            Kind::Text(text) => Some(&text.bytes),
            _ => None,
        }
    }

    /// What it was made of, if nothing was changed.
    pub fn datum(&self) -> Option<Datum> {
        match &self.kind {
            Kind::Text(text) => Some(Datum::Json(text.bytes.clone())),
            Kind::Open(source) => Some(source.datum()),
            Kind::Over { .. } => None,
        }
    }

    pub const fn is_whole(&self) -> bool {
        match &self.kind {
            Kind::Text(text) => text.whole,
            Kind::Open(source) => source.is_whole(),
            Kind::Over { .. } => false,
        }
    }

    /// Is it of text, changed or not?
    pub fn is_json(&self) -> bool {
        match &self.kind {
            Kind::Text(_) => true,
            Kind::Open(_) => false,
            Kind::Over { base, .. } => base.as_ref().is_none_or(|base| base.get().is_json()),
        }
    }

    /// Its members for a format with a schema; `None`: its plain form says it all.
    pub fn parts(&self, py: Python<'_>, depth: usize) -> Option<Result<Datum>> {
        match &self.kind {
            Kind::Over { .. } if !matches!(self.sides().base, Some(Base::Text(_))) => {
                Some(self.sides().datum(py, depth))
            }
            _ => None,
        }
    }

    /// A dict of all members; not to be given away.
    fn all<'a, 'py>(&'a self, py: Python<'py>) -> PyResult<&'a Bound<'py, PyDict>>
    where
        'py: 'a,
    {
        if let Some(all) = self.all.get() {
            return Ok(all.bind(py));
        }
        let made = match &self.kind {
            Kind::Text(text) => text.all(py)?,
            Kind::Open(source) => {
                let made = PyDict::new(py);
                for (at, (name, value)) in source.members()?.iter().enumerate() {
                    made.set_item(
                        member_name(py, name.as_str())?,
                        source.shown(py, at, value)?,
                    )?;
                }
                made
            }
            Kind::Over {
                front,
                base,
                changes,
            } => {
                let made = match front {
                    Some(front) => front.bind(py).copy()?,
                    None => PyDict::new(py),
                };
                if let Some(base) = base {
                    made.update(base.get().all(py)?.as_mapping())?;
                }
                if let Some(changes) = changes {
                    made.update(changes.bind(py).as_mapping())?;
                }
                made
            }
        };
        // Another thread may have been faster; then its dict is the one.
        Ok(self.all.get_or_init(|| made.unbind()).bind(py))
    }

    #[inline]
    fn find<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.all.get() {
            Some(all) => all.bind(key.py()).get_item(key),
            None => self.look_for(key),
        }
    }

    fn look_for<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        match &self.kind {
            Kind::Open(source) => match key.cast::<PyString>().map(|name| name.to_str()) {
                Ok(Ok(name)) => source.member(py, name),
                _ => self.all(py)?.get_item(key),
            },
            Kind::Text(text) => {
                let name = key.cast::<PyString>().ok();
                let Some(Ok(name)) = name.map(|name| name.to_str()) else {
                    return self.all(py)?.get_item(key);
                };
                if text.asked.fetch_add(1, Relaxed) >= ASKED_OFTEN {
                    return self.all(py)?.get_item(key);
                }
                let found = text.find(name.as_bytes());
                found
                    .map(|(at, member)| text.value(py, at, member))
                    .transpose()
            }
            Kind::Over {
                front,
                base,
                changes,
            } => {
                if let Some(changes) = changes
                    && let Some(found) = changes.bind(py).get_item(key)?
                {
                    return Ok(Some(found));
                }
                if let Some(base) = base
                    && let Some(found) = base.get().find(key)?
                {
                    return Ok(Some(found));
                }
                front
                    .as_ref()
                    .map_or(Ok(None), |front| front.bind(py).get_item(key))
            }
        }
    }

    /// Compact JSON text.
    pub fn write(&self, py: Python<'_>, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        match &self.kind {
            Kind::Text(text) => {
                out.extend_from_slice(&text.bytes);
                Ok(())
            }
            Kind::Open(source) => {
                out.extend_from_slice(&source.to_json()?);
                Ok(())
            }
            Kind::Over { .. } => self.sides().write(py, out, depth),
        }
    }

    /// What it is merged of.
    fn sides(&self) -> Sides<'_> {
        let Kind::Over {
            front,
            base,
            changes,
        } = &self.kind
        else {
            return Sides::default();
        };
        let base = base.as_ref().and_then(|base| match &base.get().kind {
            Kind::Text(text) => Some(Base::Text(text)),
            Kind::Open(source) => Some(Base::Open(source)),
            // A view over a view is made of that one's sides instead.
            Kind::Over { .. } => None,
        });
        Sides {
            front: front.as_ref(),
            base,
            changes: changes.as_ref(),
        }
    }
}

impl JsonObject {
    /// As of a dict, with the name that may have been meant.
    #[cold]
    fn no_such(&self, key: &Bound<'_, PyAny>) -> PyErr {
        let error = PyKeyError::new_err((key.clone().unbind(),));
        let py = key.py();
        let meant = || -> PyResult<()> {
            let names = self.all(py)?.keys().iter();
            let names: Vec<String> = names.filter_map(|name| name.extract().ok()).collect();
            let near = near(&key.extract::<String>()?, names.iter().map(String::as_str));
            if near.starts_with("did you mean") {
                // Python 3.10 has no notes.
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

/// What changes a dict, and a view has not.
const CHANGES: [&str; 5] = ["clear", "pop", "popitem", "setdefault", "update"];

fn unchangeable() -> PyErr {
    PyTypeError::new_err(
        "a JsonObject can't be changed: it stands for a record that others read too. Next: make a new \
         value, v | {\"name\": ...}, or read real dicts, with decode=\"dict\" in the serde",
    )
}

/// A copy of what a dict can be merged with: dicts, views, other mappings.
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

/// One dict of two; either may be missing.
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
    #[staticmethod]
    fn parse(text: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bytes = given(text)?;
        let (top, span) = super::scan::scan(&bytes).map_err(|fault| not_json(&bytes, &fault))?;
        match top {
            super::Top::Object(_) => {
                let mut object = Self::cut(bytes.slice(span.range()));
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

    /// Plain dicts and lists of all of it.
    pub fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match &self.kind {
            Kind::Text(text) => return Ok(plain_text(py, &text.bytes)?.cast_into::<PyDict>()?),
            Kind::Open(source) => return Ok(source.plain(py)?.cast_into::<PyDict>()?),
            Kind::Over { .. } => {}
        }
        let plain = PyDict::new(py);
        // A function may have kept the dict that this one is a view of.
        for (name, value) in steady(self.all(py)?)? {
            plain.set_item(name, to_python(&value)?)?;
        }
        Ok(plain)
    }

    /// The value of a member, or `default`.
    #[pyo3(signature = (key, default=None, /))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(key)?.or(default))
    }

    /// The names.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.copy(py)?.call_method0(intern!(py, "keys"))
    }

    /// The values.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.copy(py)?.call_method0(intern!(py, "values"))
    }

    /// Names and values.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.copy(py)?.call_method0(intern!(py, "items"))
    }

    /// A dict of its members; what is nested stays a view.
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
            Kind::Over { .. } => Ok(!self.all(py)?.is_empty()),
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
            Kind::Text(_) | Kind::Open(_) => Kind::Over {
                front: None,
                base: Some(slf.clone().unbind()),
                changes: Some(other.unbind()),
            },
            Kind::Over {
                front,
                base,
                changes,
            } => {
                let changes = changes.as_ref().map(|c| c.bind(py).copy()).transpose()?;
                Kind::Over {
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
            Kind::Text(_) | Kind::Open(_) => Kind::Over {
                front: Some(other.unbind()),
                base: Some(slf.clone().unbind()),
                changes: None,
            },
            Kind::Over {
                front,
                base,
                changes,
            } => Kind::Over {
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
        if !matches!(self.kind, Kind::Over { .. }) {
            return Ok(self.to_dict(py)?.into_any());
        }
        // What a function put in is anything, and knows itself how it is copied.
        let deepcopy = py.import("copy")?.getattr("deepcopy")?;
        deepcopy.call1((self.copy(py)?, memo))
    }

    /// Pickled, it becomes a dict: another process may have no StoatFlow.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let plain = PyTuple::new(py, [self.to_dict(py)?])?;
        PyTuple::new(py, [py.get_type::<PyDict>().into_any(), plain.into_any()])
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        match &self.kind {
            // Text and its parts hold no object that could refer to them.
            Kind::Text(_) => {}
            Kind::Open(_) => visit.call(self.all.get())?,
            Kind::Over { front, changes, .. } => {
                visit.call(front)?;
                visit.call(changes)?;
                visit.call(self.all.get())?;
            }
        }
        Ok(())
    }
}
