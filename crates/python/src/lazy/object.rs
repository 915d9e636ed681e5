//! `JsonObject`: a mapping view of a JSON object's text, or of a record with a schema.
//!
//! A view looks up members in place, and builds a dict of all members only for an iteration or after
//! many lookups. `v | {...}` is a view of both operands; when it is written, the bytes of members that
//! were not replaced are copied unchanged. Immutable.

mod mapping;
mod merging;
mod text;
mod writing;

use super::member_name;
use super::nested_views::NestedViews;
use super::open::OpenValue;
use super::scan::Member;
use merging::{Base, MergeOperands};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use stoatflow_core::{Bytes, Datum, Result};
use text::ObjectText;

/// After this many lookups, a dict of all members is cheaper.
const LOOKUPS_IN_PLACE: u32 = 32;

/// A JSON object, or a record with a schema, as an immutable dict. Members are decoded when they are
/// read.
///
/// >>> order = sf.JsonObject.parse('{"customer": "ann", "total": 30}')
/// >>> order["customer"], len(order), order == {"customer": "ann", "total": 30}
/// ('ann', 2, True)
#[pyclass(frozen, mapping, module = "stoatflow")]
pub struct JsonObject {
    kind: Kind,
    /// All members, once something needed them. This dict itself is never handed out.
    all: OnceLock<Py<PyDict>>,
}

enum Kind {
    Text(ObjectText),
    /// A value with a schema.
    Open(OpenValue),
    /// The merge `front | base | changes`.
    Merge {
        front: Option<Py<PyDict>>,
        base: Option<Py<JsonObject>>,
        changes: Option<Py<PyDict>>,
    },
}

impl JsonObject {
    /// A view of a whole text, with the spans of its members.
    pub fn read(bytes: Bytes, members: Vec<Member>) -> Self {
        Self::text_of(bytes, true, OnceLock::from(members))
    }

    /// A view of a part of a validated text.
    pub fn part(bytes: Bytes) -> Self {
        Self::text_of(bytes, false, OnceLock::new())
    }

    fn text_of(bytes: Bytes, whole: bool, members: OnceLock<Vec<Member>>) -> Self {
        Self {
            kind: Kind::Text(ObjectText {
                bytes,
                whole,
                members,
                parts: NestedViews::default(),
                lookups: AtomicU32::new(0),
            }),
            all: OnceLock::new(),
        }
    }

    /// A view of an object with a schema.
    pub const fn open(source: OpenValue) -> Self {
        Self {
            kind: Kind::Open(source),
            all: OnceLock::new(),
        }
    }

    /// A view of a dict that a function made.
    pub fn wrap(dict: &Bound<'_, PyDict>) -> Self {
        Self {
            kind: Kind::Merge {
                front: Some(dict.clone().unbind()),
                base: None,
                changes: None,
            },
            all: OnceLock::from(dict.clone().unbind()),
        }
    }

    /// The view's text, if it has one and nothing was changed.
    const fn text(&self) -> Option<&Bytes> {
        match &self.kind {
            Kind::Text(text) => Some(&text.bytes),
            _ => None,
        }
    }

    /// The datum that the view was made from, if nothing was changed.
    pub fn datum(&self) -> Option<Datum> {
        match &self.kind {
            Kind::Text(text) => Some(Datum::Json(text.bytes.clone())),
            Kind::Open(source) => Some(source.datum()),
            Kind::Merge { .. } => None,
        }
    }

    pub const fn is_whole(&self) -> bool {
        match &self.kind {
            Kind::Text(text) => text.whole,
            Kind::Open(source) => source.is_whole(),
            Kind::Merge { .. } => false,
        }
    }

    /// Whether the view has no value with a schema in it.
    pub fn is_json(&self) -> bool {
        match &self.kind {
            Kind::Text(_) => true,
            Kind::Open(_) => false,
            Kind::Merge { base, .. } => base.as_ref().is_none_or(|base| base.get().is_json()),
        }
    }

    /// The members for a format with a schema; `None` if the plain form is equivalent.
    pub fn parts(&self, py: Python<'_>, depth: usize) -> Option<Result<Datum>> {
        match &self.kind {
            Kind::Merge { .. } if !matches!(self.operands().base, Some(Base::Text(_))) => {
                Some(self.operands().datum(py, depth))
            }
            _ => None,
        }
    }

    /// A dict of all members; must not be handed out, since a caller could change it.
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
                        source.part_object(py, at, value)?,
                    )?;
                }
                made
            }
            Kind::Merge {
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
        // If another thread was faster, its dict is used.
        Ok(self.all.get_or_init(|| made.unbind()).bind(py))
    }

    #[inline]
    fn find<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.all.get() {
            Some(all) => all.bind(key.py()).get_item(key),
            None => self.find_uncached(key),
        }
    }

    fn find_uncached<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
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
                if text.lookups.fetch_add(1, Relaxed) >= LOOKUPS_IN_PLACE {
                    return self.all(py)?.get_item(key);
                }
                let found = text.find(name.as_bytes());
                found
                    .map(|(at, member)| text.value(py, at, member))
                    .transpose()
            }
            Kind::Merge {
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
            Kind::Merge { .. } => self.operands().write(py, out, depth),
        }
    }

    /// The operands of the merge.
    fn operands(&self) -> MergeOperands<'_> {
        let Kind::Merge {
            front,
            base,
            changes,
        } = &self.kind
        else {
            return MergeOperands::default();
        };
        let base = base.as_ref().and_then(|base| match &base.get().kind {
            Kind::Text(text) => Some(Base::Text(text)),
            Kind::Open(source) => Some(Base::Open(source)),
            // Merging a view again extends `front` or `changes`, so a base is never itself a merge.
            Kind::Merge { .. } => None,
        });
        MergeOperands {
            front: front.as_ref(),
            base,
            changes: changes.as_ref(),
        }
    }
}
