//! Writes the merge `front | base | changes`.
//!
//! Takes the three operands; returns JSON text, or members for a format with a schema, in the order of
//! the merged dict. Members of a base with a schema that neither other operand has are copied without
//! being decoded.

use super::text::ObjectText;
use super::writing::{self, DictOperand};
use crate::convert::{json, schema};
use crate::lazy::open::OpenValue;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stoatflow_core::serde::write_json;
use stoatflow_core::{Datum, Error, Fields, Result, Text};

/// The operand in the middle of a merge.
pub enum Base<'a> {
    Text(&'a ObjectText),
    Open(&'a OpenValue),
}

/// The operands, each of which may be missing.
#[derive(Default)]
pub struct MergeOperands<'a> {
    pub front: Option<&'a Py<PyDict>>,
    pub base: Option<Base<'a>>,
    pub changes: Option<&'a Py<PyDict>>,
}

/// A member of the merge: given as a Python object, or kept from the base.
enum Member<'py> {
    Given(Bound<'py, PyAny>),
    Kept(Datum),
}

impl MergeOperands<'_> {
    /// Compact JSON text.
    pub fn write(&self, py: Python<'_>, out: &mut Vec<u8>, depth: usize) -> Result<()> {
        let text = match &self.base {
            Some(Base::Open(_)) => None,
            Some(Base::Text(text)) => Some(Some(*text)),
            None => Some(None),
        };
        if let Some(text) = text {
            return writing::write(py, (self.front, text, self.changes), out, depth);
        }
        let mut sign = b'{';
        self.each(py, json::refused, |name, member| {
            out.push(std::mem::replace(&mut sign, b','));
            json::write_text(name.as_str(), out)?;
            out.push(b':');
            match member {
                Member::Given(value) => json::write_into(&value, out, depth + 1),
                Member::Kept(value) => write_json(&value, out),
            }
        })?;
        if sign == b'{' {
            out.push(b'{');
        }
        out.push(b'}');
        Ok(())
    }

    /// An object for a format with a schema. Never called with a text as base.
    pub fn datum(&self, py: Python<'_>, depth: usize) -> Result<Datum> {
        let mut members = Vec::new();
        if let (None, Some(Base::Open(source))) = (self.front, &self.base) {
            for entry in DictOperand::of(py, self.changes, schema::refused)?.entries {
                let value = schema::part(&entry.value, depth + 1)?;
                members.push((Text::from(entry.name), value));
            }
            return source.with_members(Fields(members));
        }
        self.each(py, schema::refused, |name, member| {
            members.push(match member {
                Member::Given(value) => (name, schema::part(&value, depth + 1)?),
                Member::Kept(value) => (name, value),
            });
            Ok(())
        })?;
        Ok(Fields(members).datum())
    }

    fn each<'py>(
        &self,
        py: Python<'py>,
        refused: fn(&str) -> Error,
        mut put: impl FnMut(Text, Member<'py>) -> Result<()>,
    ) -> Result<()> {
        let base = match &self.base {
            Some(Base::Open(source)) => source.as_written()?,
            _ => Fields(Vec::new()),
        };
        let front = DictOperand::of(py, self.front, refused)?;
        let mut changes = DictOperand::of(py, self.changes, refused)?;
        for entry in &front.entries {
            let name = Text::from(entry.name.as_str());
            let kept = || base.last(&entry.name).map(|(_, value)| value);
            let member = match changes.take(&entry.name) {
                Some(change) => Member::Given(change),
                None => kept().map_or_else(|| Member::Given(entry.value.clone()), Member::Kept),
            };
            put(name, member)?;
        }
        for (name, value) in &base.0 {
            if front.index_of(name.as_bytes()).is_some() {
                continue;
            }
            match changes.index_of(name.as_bytes()) {
                None => put(name.clone(), Member::Kept(value.clone()))?,
                // If a map has an entry twice, the change replaces the first and drops the second.
                Some(_) => {
                    if let Some(change) = changes.take(name.as_str()) {
                        put(name.clone(), Member::Given(change))?;
                    }
                }
            }
        }
        for entry in changes.entries.iter().filter(|entry| !entry.written) {
            let name = Text::from(entry.name.as_str());
            put(name, Member::Given(entry.value.clone()))?;
        }
        Ok(())
    }
}
