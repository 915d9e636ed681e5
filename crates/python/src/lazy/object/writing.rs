//! JSON text of `front | base | changes`.
//!
//! Takes the three operands; returns the JSON text of the merged dict, in its order. Members of the base
//! that neither other operand has are copied as text, adjacent ones at once. They are never decoded.

use super::text::ObjectText;
use crate::convert::json;
use crate::dict_items::snapshot_items;
use crate::errors::PyCause;
use crate::lazy::decode;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::collections::HashMap;
use std::ops::Range;
use stoatflow_core::{Error, Result};

/// Up to this many names are searched linearly; more are indexed.
const LINEAR_SEARCH_MAX: usize = 16;

/// The operands, each of which may be missing.
type MergeOperands<'a> = (
    Option<&'a Py<PyDict>>,
    Option<&'a ObjectText>,
    Option<&'a Py<PyDict>>,
);

/// Writes the merge of the operands.
pub fn write(
    py: Python<'_>,
    (front, base, changes): MergeOperands<'_>,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<()> {
    let front = DictOperand::of(py, front, json::refused)?;
    let mut writing = MergeWriter {
        out,
        depth: depth + 1,
        changes: DictOperand::of(py, changes, json::refused)?,
        empty: true,
    };
    writing.out.push(b'{');
    for entry in &front.entries {
        if writing.change(entry.name.as_bytes())? {
            continue;
        }
        match base.and_then(|base| Some((base, base.find(entry.name.as_bytes())?.1))) {
            Some((base, member)) => {
                writing.name(&entry.name)?;
                let value = member.value.of(&base.bytes);
                writing.out.extend_from_slice(value);
            }
            None => writing.pair(&entry.name, &entry.value)?,
        }
    }
    if let Some(base) = base {
        writing.members(base, &front)?;
    }
    writing.remaining_changes()?;
    writing.out.push(b'}');
    Ok(())
}

pub struct ChangedMember<'py> {
    pub name: String,
    pub value: Bound<'py, PyAny>,
    pub written: bool,
}

/// An operand that is a dict.
pub struct DictOperand<'py> {
    pub entries: Vec<ChangedMember<'py>>,
    /// The index of each name, if there are many.
    indexes: Option<HashMap<String, usize>>,
}

impl<'py> DictOperand<'py> {
    pub fn of(
        py: Python<'py>,
        dict: Option<&Py<PyDict>>,
        refused: fn(&str) -> Error,
    ) -> Result<Self> {
        let mut entries = Vec::new();
        let dict = dict.map(|dict| snapshot_items(dict.bind(py))).transpose();
        let dict = dict.map_err(|e| refused("a dict").caused_by(PyCause::new(e)))?;
        for (name, value) in dict.into_iter().flatten() {
            let name = name
                .cast::<PyString>()
                .map_err(|_| refused("a dict whose key is not text"))?;
            let name = name
                .to_cow()
                .map_err(|_| refused("a text with a lone surrogate"))?
                .into_owned();
            entries.push(ChangedMember {
                name,
                value,
                written: false,
            });
        }
        let indexes = (entries.len() > LINEAR_SEARCH_MAX).then(|| {
            let named = entries.iter().enumerate();
            named.map(|(at, entry)| (entry.name.clone(), at)).collect()
        });
        Ok(Self { entries, indexes })
    }

    /// The value of a name; `None` if there is none or it was taken before.
    pub fn take(&mut self, name: &str) -> Option<Bound<'py, PyAny>> {
        let at = self.index_of(name.as_bytes())?;
        let entry = &mut self.entries[at];
        (!std::mem::replace(&mut entry.written, true)).then(|| entry.value.clone())
    }

    pub fn index_of(&self, name: &[u8]) -> Option<usize> {
        match &self.indexes {
            Some(indexes) => indexes.get(std::str::from_utf8(name).ok()?).copied(),
            None => {
                let mut names = self.entries.iter();
                names.position(|entry| entry.name.as_bytes() == name)
            }
        }
    }
}

/// A merge that is being written.
struct MergeWriter<'py, 'o> {
    out: &'o mut Vec<u8>,
    depth: usize,
    changes: DictOperand<'py>,
    empty: bool,
}

impl MergeWriter<'_, '_> {
    fn comma(&mut self) {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
    }

    fn name(&mut self, name: &str) -> Result<()> {
        self.comma();
        json::write_text(name, self.out)?;
        self.out.push(b':');
        Ok(())
    }

    fn pair(&mut self, name: &str, value: &Bound<'_, PyAny>) -> Result<()> {
        self.name(name)?;
        json::write_into(value, self.out, self.depth)
    }

    /// Writes the change of this name unless it was written before; returns whether there is one.
    fn change(&mut self, name: &[u8]) -> Result<bool> {
        let Some(at) = self.changes.index_of(name) else {
            return Ok(false);
        };
        let entry = &mut self.changes.entries[at];
        if !std::mem::replace(&mut entry.written, true) {
            let (name, value) = (entry.name.clone(), entry.value.clone());
            self.pair(&name, &value)?;
        }
        Ok(true)
    }

    /// Writes the changes whose names neither other operand has.
    fn remaining_changes(&mut self) -> Result<()> {
        for entry in std::mem::take(&mut self.changes.entries) {
            if !entry.written {
                self.pair(&entry.name, &entry.value)?;
            }
        }
        Ok(())
    }

    fn members(&mut self, base: &ObjectText, front: &DictOperand<'_>) -> Result<()> {
        let mut run: Option<Range<usize>> = None;
        for member in base.members() {
            let raw = member.name.of(&base.bytes);
            let name = if member.escaped {
                decode::unescaped(raw)
            } else {
                raw.into()
            };
            let changed = self.changes.index_of(&name).is_some();
            if !changed && front.index_of(&name).is_none() {
                // Starts at the quote before the name.
                let from = run.map_or(member.name.from as usize - 1, |run| run.start);
                run = Some(from..member.value.to as usize);
                continue;
            }
            self.copy(base, run.take());
            if changed {
                self.change(&name)?;
            }
        }
        self.copy(base, run);
        Ok(())
    }

    fn copy(&mut self, base: &ObjectText, run: Option<Range<usize>>) {
        if let Some(run) = run {
            self.comma();
            self.out.extend_from_slice(&base.bytes[run]);
        }
    }
}
