//! Where a function puts its results: one per record, or any number per record.
//!
//! Counts the records that have results, and removes the results after a failed record. Never knows what
//! a result means.

use stoatflow_core::{Error, Result};

/// Results, parallel to the records of a batch.
pub(super) trait Results {
    /// How many records have results; `None`: unknown.
    fn count(&self) -> Option<usize>;
    /// Keeps the results of the first `records` records only.
    fn cut(&mut self, records: usize);
}

pub(super) struct Nothing;

impl Results for Nothing {
    fn count(&self) -> Option<usize> {
        None
    }

    fn cut(&mut self, _records: usize) {}
}

impl<T> Results for Vec<T> {
    fn count(&self) -> Option<usize> {
        Some(self.len())
    }

    fn cut(&mut self, records: usize) {
        self.truncate(records);
    }
}

/// Any number of results per record.
#[derive(Debug)]
pub(crate) struct Many<T> {
    pub items: Vec<T>,
    /// Where each record's results end.
    pub ends: Vec<usize>,
}

impl<T> Default for Many<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl<T> Many<T> {
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.ends.clear();
    }

    pub(super) fn whole(&self) -> Result<()> {
        let (results, ends) = (self.items.len(), &self.ends);
        if ends.is_sorted() && ends.last().copied().unwrap_or(0) == results {
            return Ok(());
        }
        Err(Error::internal(format!(
            "a function gave {results} results, but their ends don't add up"
        )))
    }
}

impl<T> Results for Many<T> {
    fn count(&self) -> Option<usize> {
        Some(self.ends.len())
    }

    fn cut(&mut self, records: usize) {
        self.ends.truncate(records);
        self.items.truncate(self.ends.last().copied().unwrap_or(0));
    }
}
