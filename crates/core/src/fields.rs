//! Objects that JSON can't express (with bytes in them, for example), and values whose parts are
//! read in place.
//!
//! `Fields` is a list of names and datums; a format with a schema writes it member by member. As JSON
//! text it is an object, if all its members have a JSON form. It never changes, but [`Opaque::changes`]
//! returns true: a store must return the value as decoded from its bytes, not this object. `Open` is how
//! formats with a schema expose their values, so that they can be displayed without knowing the format.

use crate::serde::write_json;
use crate::{Datum, Error, Opaque, Result, Text};
use bytes::Bytes;
use std::any::Any;
use std::sync::Arc;

/// An object or list whose parts are decoded one by one, when they are read. It never changes.
pub trait Open: Send + Sync {
    /// True for a list, false for an object.
    fn is_list(&self) -> bool;
    /// All parts, each as if it were read: a list, or [`Fields`].
    ///
    /// # Errors
    /// `Serde` for bytes that are damaged.
    fn parts(&self) -> Result<Datum>;
    /// A member of an object, and its index in [`Self::parts`]; the last one if several have this name.
    /// `None` if there is no such member.
    ///
    /// # Errors
    /// `Serde` for bytes that are damaged.
    fn member(&self, name: &str) -> Result<Option<(usize, Datum)>> {
        let parts = self.parts()?;
        Ok(Fields::of(&parts).and_then(|fields| fields.last(name)))
    }
    /// An element of a list; `None` if the list is shorter.
    ///
    /// # Errors
    /// `Serde` for bytes that are damaged.
    fn element(&self, at: usize) -> Result<Option<Datum>> {
        Ok(match self.parts()? {
            Datum::List(items) => items.get(at).cloned(),
            _ => None,
        })
    }
    /// The members of an object, for a writer. May contain one that the value doesn't have, such as the
    /// branch of a union. Includes what JSON can't express (bytes).
    ///
    /// # Errors
    /// `Serde` for bytes that are damaged.
    fn as_written(&self) -> Result<Fields> {
        let parts = self.parts()?;
        let members = Fields::of(&parts).cloned();
        members.ok_or_else(|| Error::internal("a list was taken for an object"))
    }
    /// An object with some members replaced or added.
    ///
    /// # Errors
    /// `Serde` for bytes that are damaged.
    fn with_members(&self, changes: Fields) -> Result<Datum> {
        let mut members = self.as_written()?;
        members.set(&changes);
        Ok(members.datum())
    }
    /// Whether user functions get a dict or list of their own, which they may change.
    fn is_for_change(&self) -> bool {
        false
    }
}

/// Adds the member's name to an error.
#[cold]
fn within(name: &Text, error: &Error) -> Error {
    let said = format!("in the member '{}': {}", name.as_str(), error.message());
    Error::new(error.kind(), said).hint(error.next_step())
}

/// Names and values, in order.
#[derive(Clone, Debug)]
pub struct Fields(pub Vec<(Text, Datum)>);

impl Fields {
    /// The fields in a datum.
    #[must_use]
    pub fn of(datum: &Datum) -> Option<&Self> {
        datum.opaque()
    }

    /// The last member with this name, and its index.
    #[must_use]
    pub fn last(&self, name: &str) -> Option<(usize, Datum)> {
        let mut members = self.0.iter().enumerate().rev();
        let found = members.find(|(_, (member, _))| member.as_str() == name);
        found.map(|(at, (_, value))| (at, value.clone()))
    }

    /// Replaces members and adds new ones, like `dict.update`.
    pub fn set(&mut self, changes: &Self) {
        for (name, value) in &changes.0 {
            // A map may contain the same key twice.
            let mut known = self.0.iter_mut().filter(|(known, _)| known == name);
            match known.next() {
                Some((_, first)) => {
                    *first = value.clone();
                    known.for_each(|(_, again)| *again = value.clone());
                }
                None => self.0.push((name.clone(), value.clone())),
            }
        }
    }

    /// Wraps the fields in a datum.
    #[must_use]
    pub fn datum(self) -> Datum {
        Datum::Opaque(Arc::new(self))
    }
}

impl Open for Fields {
    fn is_list(&self) -> bool {
        false
    }

    fn parts(&self) -> Result<Datum> {
        Ok(self.clone().datum())
    }

    fn member(&self, name: &str) -> Result<Option<(usize, Datum)>> {
        Ok(self.last(name))
    }
}

impl Opaque for Fields {
    fn open(&self) -> Option<&dyn Open> {
        Some(self)
    }

    fn to_json(&self) -> Result<Bytes> {
        let mut out = vec![b'{'];
        for (name, value) in &self.0 {
            if out.len() > 1 {
                out.push(b',');
            }
            ::serde_json::to_writer(&mut out, name.as_str())
                .map_err(|e| Error::serde("a name has no JSON form").caused_by(e))?;
            out.push(b':');
            write_json(value, &mut out).map_err(|e| match value {
                // The error already names the member.
                Datum::Opaque(_) => e,
                _ => within(name, &e),
            })?;
        }
        out.push(b'}');
        Ok(out.into())
    }

    fn type_name(&self) -> String {
        "object".into()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn weight(&self) -> usize {
        let members = self.0.iter();
        members
            .map(|(name, value)| name.as_bytes().len() + value.weight() + 24)
            .sum()
    }

    fn unshared(&self) -> Option<Datum> {
        let members = self.0.iter();
        let own = members.map(|(name, value)| (name.clone(), value.unshared()));
        Some(Self(own.collect()).datum())
    }
}

#[cfg(test)]
mod tests;
