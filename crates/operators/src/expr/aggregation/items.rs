//! Collected values, as the JSON text that they will become.
//!
//! Takes datums, keeps their text in one buffer: a copy copies bytes, writing costs nothing. For sets,
//! values are compared as expressions do it (1 equals 1.0, objects by content). Never holds more than
//! its measure allows.

use super::state::MeasureKind;
use crate::expr::{canonical, compare, json};
use std::sync::Arc;
use stoatflow_core::serde::json_bytes;
use stoatflow_core::{Bytes, Datum, Result};
use stoatflow_plan::AggregationKind as Kind;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Items {
    /// The elements one after another, each followed by a comma.
    text: Vec<u8>,
    /// Where each element begins.
    starts: Vec<usize>,
    /// For sets: hashes that rule out equal elements without reading them.
    prints: Vec<u64>,
}

impl Items {
    /// Reads a JSON array.
    pub fn read(array: &Bytes, how: &MeasureKind) -> Result<Self> {
        let mut items = Self::default();
        let mut found = Vec::new();
        json::items(array, &mut |item| found.push(item))?;
        // A lowered limit applies at once.
        let beyond = found.len().saturating_sub(how.size);
        let kept = match how.kind {
            Kind::CollectSet => &found[..found.len() - beyond],
            _ => &found[beyond..],
        };
        for item in kept {
            items.push(item, how)?;
        }
        Ok(items)
    }

    /// Copies the existing items only if one is added.
    pub fn add(this: &mut Arc<Self>, given: &Datum, how: &MeasureKind) -> Result<()> {
        if how.kind == Kind::CollectSet {
            if this.starts.len() >= how.size || this.has(given)? {
                return Ok(());
            }
            return Arc::make_mut(this).push(given, how);
        }
        let items = Arc::make_mut(this);
        items.push(given, how)?;
        if items.starts.len() > how.size {
            items.forget(items.starts.len() - how.size);
        }
        Ok(())
    }

    pub fn merge(this: &mut Arc<Self>, later: &Self, how: &MeasureKind) -> Result<()> {
        for at in 0..later.starts.len() {
            Self::add(this, &later.element(at)?, how)?;
        }
        Ok(())
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        out.extend_from_slice(self.text.strip_suffix(b",").unwrap_or(&self.text));
        out.push(b']');
    }

    pub fn weight(&self) -> usize {
        64 + self.text.len() + 8 * (self.starts.len() + self.prints.len())
    }

    fn push(&mut self, given: &Datum, how: &MeasureKind) -> Result<()> {
        let text = json_bytes(given)?;
        if how.kind == Kind::CollectSet {
            self.prints.push(print(given)?);
        }
        self.starts.push(self.text.len());
        self.text.extend_from_slice(&text);
        self.text.push(b',');
        Ok(())
    }

    fn forget(&mut self, first: usize) {
        let bytes = self.starts.get(first).copied().unwrap_or(self.text.len());
        self.text.drain(..bytes);
        self.starts.drain(..first);
        self.starts.iter_mut().for_each(|start| *start -= bytes);
    }

    fn has(&self, given: &Datum) -> Result<bool> {
        let print = print(given)?;
        for (at, known) in self.prints.iter().enumerate() {
            if *known == print && compare::equal(&self.element(at)?, given, 0)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn element(&self, at: usize) -> Result<Datum> {
        let end = self.starts.get(at + 1).copied().unwrap_or(self.text.len());
        // Without the comma that follows.
        let text = &self.text[self.starts[at]..end - 1];
        json::settle(Bytes::copy_from_slice(text))
    }
}

/// A hash that is the same for equal values, however they are written, and hardly ever for others.
fn print(given: &Datum) -> Result<u64> {
    Ok(xxhash_rust::xxh3::xxh3_64(&canonical::form(given)?))
}
