//! The source of a view that is not JSON text: values of formats with a schema, and objects of
//! expressions.
//!
//! Takes an [`Open`] value; returns its parts as Python objects, nested ones as views. The first few
//! lookups search the value in place; later ones use a list of all parts, which decodes only this level.
//! Immutable.

use super::nested_views::NestedViews;
use crate::convert::objects;
use crate::convert::to_py;
use crate::errors::to_py_err;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use stoatflow_core::{Bytes, Datum, Error, Fields, Opaque, Open, Result, Text};
use stoatflow_formats::Value;

/// After this many lookups, a list of all parts is cheaper.
const LOOKUPS_IN_PLACE: u32 = 3;

pub struct OpenValue {
    value: Arc<dyn Opaque>,
    /// Whether this is a whole key or value, not a part of one.
    whole: bool,
    /// All parts, once there were enough lookups.
    split: OnceLock<Datum>,
    parts: NestedViews,
    lookups: AtomicU32,
}

impl OpenValue {
    pub fn new(value: Arc<dyn Opaque>, whole: bool) -> Self {
        Self {
            value,
            whole,
            split: OnceLock::new(),
            parts: NestedViews::default(),
            lookups: AtomicU32::new(0),
        }
    }

    pub fn datum(&self) -> Datum {
        Datum::Opaque(Arc::clone(&self.value))
    }

    pub const fn is_whole(&self) -> bool {
        self.whole
    }

    pub fn to_json(&self) -> Result<Bytes> {
        self.value.to_json()
    }

    /// The members as a writer needs them.
    pub fn as_written(&self) -> Result<Fields> {
        self.open()?.as_written()
    }

    /// The value with changed members, for a writer.
    pub fn with_members(&self, changes: Fields) -> Result<Datum> {
        self.open()?.with_members(changes)
    }

    pub fn is_list(&self) -> bool {
        self.open().is_ok_and(Open::is_list)
    }

    fn open(&self) -> Result<&dyn Open> {
        self.value
            .open()
            .ok_or_else(|| Error::internal("a view is made of a value without parts"))
    }

    /// All parts, not decoded. Runs no Python code while other threads wait for the cell.
    fn split(&self) -> PyResult<&Datum> {
        if let Some(split) = self.split.get() {
            return Ok(split);
        }
        let split = self.open().and_then(Open::parts).map_err(to_py_err)?;
        Ok(self.split.get_or_init(|| split))
    }

    /// Counts a lookup; returns whether there were enough for a list of all parts.
    fn count_lookup(&self) -> bool {
        self.split.get().is_some() || self.lookups.fetch_add(1, Relaxed) >= LOOKUPS_IN_PLACE
    }

    pub fn members(&self) -> PyResult<&[(Text, Datum)]> {
        Ok(Fields::of(self.split()?).map_or(&[], |fields| &fields.0))
    }

    pub fn items(&self) -> PyResult<&[Datum]> {
        Ok(match self.split()? {
            Datum::List(items) => items,
            _ => &[],
        })
    }

    /// The number of members; `None` if a name occurs twice.
    pub fn count(&self) -> PyResult<Option<usize>> {
        let members = self.members()?;
        let names: HashSet<&Text> = members.iter().map(|(name, _)| name).collect();
        Ok((names.len() == members.len()).then_some(members.len()))
    }

    /// A member, with its position.
    fn find(&self, name: &str) -> PyResult<Option<(usize, Datum)>> {
        if self.count_lookup() {
            return Ok(Fields::of(self.split()?).and_then(|fields| fields.last(name)));
        }
        let found = self.open().and_then(|open| open.member(name));
        found.map_err(to_py_err)
    }

    pub fn has(&self, name: &str) -> PyResult<bool> {
        self.find(name).map(|found| found.is_some())
    }

    pub fn member<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.find(name)?;
        found
            .map(|(at, value)| self.part_object(py, at, &value))
            .transpose()
    }

    /// The item at a position.
    pub fn item<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.count_lookup() {
            let item = self.items()?.get(at);
            return item.map(|item| self.part_object(py, at, item)).transpose();
        }
        let found = self.open().and_then(|open| open.element(at));
        let found = found.map_err(to_py_err)?;
        found
            .map(|item| self.part_object(py, at, &item))
            .transpose()
    }

    /// Converts the whole value to a new dict or list, including nested values.
    pub fn plain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &*self.value)
    }

    /// The Python object of a part.
    pub fn part_object<'py>(
        &self,
        py: Python<'py>,
        at: usize,
        part: &Datum,
    ) -> PyResult<Bound<'py, PyAny>> {
        match part {
            Datum::Opaque(value) if super::is_view(&**value) => self.parts.get_or(py, at, || {
                super::open_view(py, Self::new(Arc::clone(value), false))
            }),
            other => to_py(py, other),
        }
    }
}

/// Converts an open value to a new dict or list, including nested values.
pub fn plain<'py>(py: Python<'py>, value: &dyn Opaque) -> PyResult<Bound<'py, PyAny>> {
    if let Some(value) = Value::of_object(value) {
        return objects::whole(py, value);
    }
    let parts = match value.open() {
        Some(open) => open.parts().map_err(to_py_err)?,
        None => Datum::Null,
    };
    if let Some(Fields(members)) = Fields::of(&parts) {
        let dict = PyDict::new(py);
        for (name, value) in members {
            dict.set_item(
                super::member_name(py, name.as_str())?,
                plain_part(py, value)?,
            )?;
        }
        return Ok(dict.into_any());
    }
    plain_part(py, &parts)
}

fn plain_part<'py>(py: Python<'py>, part: &Datum) -> PyResult<Bound<'py, PyAny>> {
    match part {
        Datum::Opaque(value) if value.open().is_some() => plain(py, &**value),
        Datum::Json(text) => super::plain_text(py, text),
        Datum::List(items) => {
            let items = items.iter().map(|item| plain_part(py, item));
            Ok(PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        other => super::to_python(&to_py(py, other)?),
    }
}
