//! Finds the members of an object's text.
//!
//! Takes text known to be a JSON object; returns the spans of its members, and their values.

use crate::lazy::nested_views::NestedViews;
use crate::lazy::scan::{Member, Scanner};
use crate::lazy::{decode, part};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashSet;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use stoatflow_core::Bytes;

pub struct ObjectText {
    pub bytes: Bytes,
    /// Whether this is a whole key or value, not a part of one.
    pub whole: bool,
    pub members: OnceLock<Vec<Member>>,
    pub parts: NestedViews,
    pub lookups: AtomicU32,
}

impl ObjectText {
    pub fn members(&self) -> &[Member] {
        self.members.get_or_init(|| {
            let mut members = Vec::with_capacity(8);
            // Part of a validated text, so it can't fail.
            if let Ok(mut scanner) = Scanner::of(&self.bytes) {
                let _checked = scanner.object(0, |member| members.push(member));
            }
            members
        })
    }

    /// The last member of this name; it overrides earlier ones.
    pub fn find(&self, name: &[u8]) -> Option<(usize, Member)> {
        let has_slash = name.contains(&b'\\');
        let is_it = |member: &Member| {
            let raw = member.name.of(&self.bytes);
            if member.escaped {
                *decode::unescaped(raw) == *name
            } else {
                !has_slash && raw == name
            }
        };
        let mut members = self.members().iter().enumerate().rev();
        members
            .find(|(_, member)| is_it(member))
            .map(|(at, member)| (at, *member))
    }

    pub fn value<'py>(
        &self,
        py: Python<'py>,
        at: usize,
        member: Member,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.bytes.get(member.value.from as usize) {
            Some(b'{' | b'[') => {
                let make = || part(py, &self.bytes, member.value);
                self.parts.get_or(py, at, make)
            }
            _ => decode::scalar(py, member.value.of(&self.bytes)),
        }
    }

    pub fn all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (at, member) in self.members().iter().enumerate() {
            let name = decode::name(py, member.name.of(&self.bytes))?;
            all.set_item(name, self.value(py, at, *member)?)?;
        }
        Ok(all)
    }

    /// The number of members; `None` if a name may occur twice.
    pub fn count(&self) -> Option<usize> {
        let members = self.members();
        if members.iter().any(|member| member.escaped) {
            return None;
        }
        let names = members.iter().map(|member| member.name.of(&self.bytes));
        let different = names.collect::<HashSet<_>>().len();
        (different == members.len()).then_some(different)
    }
}
