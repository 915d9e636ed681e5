//! `JsonArray`: a sequence view of a JSON array's text, or of a list with a schema.
//!
//! An item becomes a Python object when it is read; iteration converts all of them. `v + [x]` returns a
//! list, in which nested objects and arrays stay views. Immutable.

use super::nested_views::NestedViews;
use super::open::OpenValue;
use super::scan::{Scanner, Span};
use super::{not_json, part, plain_text, text_bytes, to_python};
use crate::convert::json;
use crate::errors::to_py_err;
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyAttributeError, PyIndexError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyString, PyTuple};
use std::sync::OnceLock;
use stoatflow_core::{Bytes, Datum, Error, Result};

/// A JSON array, or an array of a record with a schema, as an immutable list. Items are decoded when
/// they are read.
///
/// >>> tags = sf.JsonArray.parse('["tea", "milk", "tea"]')
/// >>> tags[0], len(tags), tags[1:]
/// ('tea', 3, ['milk', 'tea'])
#[pyclass(frozen, sequence, module = "stoatflow")]
pub struct JsonArray {
    kind: Kind,
    /// All items, once something needed them. This list itself is never handed out.
    all: OnceLock<Py<PyList>>,
}

enum Kind {
    Text(Text),
    /// A value with a schema.
    Open(OpenValue),
    /// A list that a function made, held in `all`.
    List,
}

struct Text {
    bytes: Bytes,
    /// Whether this is a whole key or value, not a part of one.
    whole: bool,
    items: OnceLock<Vec<Span>>,
    parts: NestedViews,
}

impl Text {
    fn items(&self) -> &[Span] {
        self.items.get_or_init(|| {
            let mut items = Vec::with_capacity(8);
            // Part of a validated text, so it can't fail.
            if let Ok(mut scanner) = Scanner::of(&self.bytes) {
                let _checked = scanner.array(0, |item| items.push(item));
            }
            items
        })
    }

    fn item<'py>(&self, py: Python<'py>, at: usize, item: Span) -> PyResult<Bound<'py, PyAny>> {
        match self.bytes.get(item.from as usize) {
            Some(b'{' | b'[') => {
                let make = || part(py, &self.bytes, item);
                self.parts.get_or(py, at, make)
            }
            _ => part(py, &self.bytes, item),
        }
    }
}

impl JsonArray {
    /// A view of a whole text, with the spans of its items.
    pub fn read(bytes: Bytes, items: Vec<Span>) -> Self {
        Self::text_of(bytes, true, OnceLock::from(items))
    }

    /// A view of a part of a validated text.
    pub fn part(bytes: Bytes) -> Self {
        Self::text_of(bytes, false, OnceLock::new())
    }

    fn text_of(bytes: Bytes, whole: bool, items: OnceLock<Vec<Span>>) -> Self {
        Self {
            kind: Kind::Text(Text {
                bytes,
                whole,
                items,
                parts: NestedViews::default(),
            }),
            all: OnceLock::new(),
        }
    }

    /// A view of a list with a schema.
    pub const fn open(source: OpenValue) -> Self {
        Self {
            kind: Kind::Open(source),
            all: OnceLock::new(),
        }
    }

    /// A view of a list that a function made.
    pub fn wrap(list: &Bound<'_, PyList>) -> Self {
        Self {
            kind: Kind::List,
            all: OnceLock::from(list.clone().unbind()),
        }
    }

    /// The datum that the view was made from; `None` for a list that a function made.
    pub fn datum(&self) -> Option<Datum> {
        match &self.kind {
            Kind::Text(text) => Some(Datum::Json(text.bytes.clone())),
            Kind::Open(source) => Some(source.datum()),
            Kind::List => None,
        }
    }

    pub const fn is_whole(&self) -> bool {
        match &self.kind {
            Kind::Text(text) => text.whole,
            Kind::Open(source) => source.is_whole(),
            Kind::List => false,
        }
    }

    pub const fn is_json(&self) -> bool {
        !matches!(self.kind, Kind::Open(_))
    }

    /// The list that a function made, if this is a view of one.
    pub fn list<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyList>> {
        match self.kind {
            Kind::List => self.all.get().map(|all| all.bind(py).clone()),
            _ => None,
        }
    }

    /// A list of all items; must not be handed out, since a caller could change it.
    fn all<'a, 'py>(&'a self, py: Python<'py>) -> PyResult<&'a Bound<'py, PyList>>
    where
        'py: 'a,
    {
        if let Some(all) = self.all.get() {
            return Ok(all.bind(py));
        }
        let made = PyList::empty(py);
        match &self.kind {
            Kind::Text(text) => {
                for (at, item) in text.items().iter().enumerate() {
                    made.append(text.item(py, at, *item)?)?;
                }
            }
            Kind::Open(source) => {
                for (at, item) in source.items()?.iter().enumerate() {
                    made.append(source.part_object(py, at, item)?)?;
                }
            }
            Kind::List => {}
        }
        Ok(self.all.get_or_init(|| made.unbind()).bind(py))
    }

    /// Compact JSON text.
    pub fn write(&self, py: Python<'_>, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        match (&self.kind, self.all.get()) {
            (Kind::Text(text), _) => out.extend_from_slice(&text.bytes),
            (Kind::Open(source), _) => out.extend_from_slice(&source.to_json()?),
            (Kind::List, Some(all)) => json::write_into(all.bind(py).as_any(), out, depth)?,
            (Kind::List, None) => return Err(Error::internal("a view is made of nothing")),
        }
        Ok(())
    }
}

/// Methods that change a list, which a view lacks.
const CHANGES: [&str; 8] = [
    "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort",
];

fn unchangeable() -> PyErr {
    PyTypeError::new_err(
        "a JsonArray can't be changed: it stands for a record that others read too. Next: make a new \
         value, [*v, item], or read real lists, with decode=\"dict\" in the serde",
    )
}

/// The position of an index; `None` before the first item.
const fn place(at: isize, count: usize) -> Option<usize> {
    if at < 0 {
        count.checked_add_signed(at)
    } else {
        Some(at.unsigned_abs())
    }
}

/// The other operand of `+` or a comparison, as a list; `None` for other types.
fn side<'py>(other: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyList>>> {
    if let Ok(list) = other.cast::<PyList>() {
        return Ok(Some(list.clone()));
    }
    match other.cast_exact::<JsonArray>() {
        Ok(array) => array.get().all(other.py()).cloned().map(Some),
        Err(_) => Ok(None),
    }
}

#[pymethods]
impl JsonArray {
    /// A view of the text of a JSON array.
    ///
    /// >>> sf.JsonArray.parse('["tea", "milk"]')[1]
    /// 'milk'
    #[staticmethod]
    fn parse(text: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bytes = text_bytes(text)?;
        let (top, span) = super::scan::scan(&bytes).map_err(|fault| not_json(&bytes, &fault))?;
        match top {
            super::Top::Array(_) => {
                let text = bytes.slice(span.range());
                Ok(Self::text_of(text, true, OnceLock::new()))
            }
            _ => Err(to_py_err(
                Error::serde("the text is JSON, but no array")
                    .hint("a JsonArray is made of a text such as '[1, 2]'"),
            )),
        }
    }

    /// Converts the whole array to plain lists and dicts.
    ///
    /// >>> sf.JsonArray.parse('["tea", "milk"]').to_list()
    /// ['tea', 'milk']
    pub fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match &self.kind {
            Kind::Text(text) => return Ok(plain_text(py, &text.bytes)?.cast_into::<PyList>()?),
            Kind::Open(source) => return Ok(source.plain(py)?.cast_into::<PyList>()?),
            Kind::List => {}
        }
        let plain = self.all(py)?.iter().map(|item| to_python(&item));
        PyList::new(py, plain.collect::<PyResult<Vec<_>>>()?)
    }

    /// A list of the items; nested objects and arrays stay views.
    ///
    /// >>> tags = sf.JsonArray.parse('["tea"]')
    /// >>> mine = tags.copy()
    /// >>> mine.append("milk")
    /// >>> mine, len(tags)
    /// (['tea', 'milk'], 1)
    fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.all(py)?.call_method0(intern!(py, "copy"))
    }

    /// The position of the first item equal to this one.
    ///
    /// >>> sf.JsonArray.parse('["tea", "milk"]').index("milk")
    /// 1
    #[pyo3(signature = (*arguments))]
    fn index<'py>(&self, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = arguments.py();
        self.all(py)?.call_method1(intern!(py, "index"), arguments)
    }

    /// The number of items equal to this one.
    ///
    /// >>> sf.JsonArray.parse('["tea", "milk", "tea"]').count("tea")
    /// 2
    #[pyo3(signature = (value, /))]
    fn count<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        self.all(py)?.call_method1(intern!(py, "count"), (value,))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        match (&self.kind, self.all.get()) {
            (_, Some(all)) => Ok(all.bind(py).len()),
            (Kind::Text(text), None) => Ok(text.items().len()),
            (Kind::Open(source), None) => Ok(source.items()?.len()),
            (Kind::List, None) => Ok(0),
        }
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        if self.all.get().is_some() || key.is_instance_of::<PySlice>() {
            return self.all(py)?.as_any().get_item(key);
        }
        let Ok(at) = key.extract::<isize>() else {
            // Too large, or no number: a list raises the right error.
            return self.all(py)?.as_any().get_item(key);
        };
        let item = match &self.kind {
            Kind::Text(text) => {
                let items = text.items();
                let place = place(at, items.len());
                let item = place.and_then(|place| Some((place, *items.get(place)?)));
                item.map(|(place, item)| text.item(py, place, item))
            }
            Kind::Open(source) => {
                // The length matters only for negative indexes.
                let count = if at < 0 { source.items()?.len() } else { 0 };
                let item = place(at, count).map(|place| source.item(py, place));
                item.and_then(Result::transpose)
            }
            Kind::List => None,
        };
        item.unwrap_or_else(|| Err(PyIndexError::new_err("array index out of range")))
    }

    fn __contains__(&self, item: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.all(item.py())?.contains(item)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.all(py)?.try_iter()?.into_any())
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.all(py)?.call_method0(intern!(py, "__reversed__"))
    }

    fn __richcmp__<'py>(
        &self,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        match side(other)? {
            Some(other) => self.all(py)?.rich_compare(other, op),
            None => Ok(py.NotImplemented().into_bound(py)),
        }
    }

    fn __add__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        match side(other)? {
            Some(other) => self.all(py)?.add(other),
            None => Ok(py.NotImplemented().into_bound(py)),
        }
    }

    fn __radd__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        match side(other)? {
            Some(other) => other.add(self.all(py)?),
            None => Ok(py.NotImplemented().into_bound(py)),
        }
    }

    fn __mul__<'py>(&self, times: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.all(times.py())?.mul(times)
    }

    fn __rmul__<'py>(&self, times: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.all(times.py())?.mul(times)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.to_list(py)?.repr()?.to_string())
    }

    fn __setitem__(&self, _at: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(unchangeable())
    }

    fn __delitem__(&self, _at: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(unchangeable())
    }

    fn __getattr__(&self, name: &Bound<'_, PyString>) -> PyResult<Py<PyAny>> {
        let shown = name.to_cow()?;
        Err(if CHANGES.contains(&&*shown) {
            PyAttributeError::new_err(format!(
                "a JsonArray has no {shown}(): it can't be changed. Next: make a new value, [*v, item], or \
                 read real lists, with decode=\"dict\" in the serde"
            ))
        } else {
            PyAttributeError::new_err(format!("'JsonArray' object has no attribute '{shown}'"))
        })
    }

    fn __copy__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.copy(py)
    }

    fn __deepcopy__<'py>(
        &self,
        py: Python<'py>,
        memo: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !matches!(self.kind, Kind::List) {
            return Ok(self.to_list(py)?.into_any());
        }
        let deepcopy = py.import("copy")?.getattr("deepcopy")?;
        deepcopy.call1((self.copy(py)?, memo))
    }

    /// Pickles as a list: the process that reads it may not have StoatFlow.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let plain = PyTuple::new(py, [self.to_list(py)?])?;
        PyTuple::new(py, [py.get_type::<PyList>().into_any(), plain.into_any()])
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        // Text and views of its parts hold no object that could refer back to them.
        if !matches!(self.kind, Kind::Text(_)) {
            visit.call(self.all.get())?;
        }
        Ok(())
    }
}
