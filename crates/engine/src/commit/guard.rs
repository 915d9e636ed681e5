//! Keeps two instances apart where transactions don't fence the older one (at-least-once).
//!
//! Committed offsets carry a mark while an instance runs. To prove that it is still the only one,
//! an instance commits the same offsets again: the broker refuses that if it was fenced. A clean
//! end commits them without the mark. [`stoatflow_protocol::lease`] decides when a new proof is
//! needed; [`crate::commit`] does the commits.

use std::time::Duration;
use stoatflow_log::CutEntry;
use stoatflow_protocol::{Lease, LeaseHolder};

#[cfg(test)]
mod tests;

/// The mark: appended to the stream time in the metadata of a committed offset.
const MARK: &str = ";held";

/// See the module.
#[derive(Debug)]
pub struct InstanceGuard {
    hold: LeaseHolder,
    /// The committed offsets (or those that reading started from), marked.
    committed: Vec<CutEntry>,
    /// The offsets being committed.
    pending: Option<Vec<CutEntry>>,
    /// True if our mark is committed.
    marked: bool,
}

impl InstanceGuard {
    /// `start`: the offsets that reading starts from.
    #[must_use]
    pub fn new(lease: Lease, start: &[CutEntry]) -> Self {
        Self {
            hold: LeaseHolder::new(lease),
            committed: mark(start),
            pending: None,
            marked: false,
        }
    }

    /// The offsets to commit again, if a new proof is needed before anything is sent.
    #[must_use]
    pub fn renewal(&self, now: Duration) -> Option<Vec<CutEntry>> {
        self.hold.needs_proof(now).then(|| self.committed.clone())
    }

    /// Starts a commit of these offsets; returns them with the mark.
    pub fn begin_commit(&mut self, cut: &[CutEntry]) -> &[CutEntry] {
        self.pending.insert(mark(cut))
    }

    /// Call when a commit that was started at `asked` has succeeded.
    pub fn committed(&mut self, asked: Duration) {
        self.hold.proven(asked);
        self.marked = true;
        if let Some(cut) = self.pending.take() {
            self.committed = cut;
        }
    }

    /// The offsets that a clean end commits: the last ones, without the mark. `None` if our mark was
    /// never committed.
    #[must_use]
    pub fn clean_end(&self) -> Option<Vec<CutEntry>> {
        let unmarked = |entry: &CutEntry| CutEntry {
            metadata: entry.metadata.trim_end_matches(MARK).to_owned(),
            ..entry.clone()
        };
        self.marked
            .then(|| self.committed.iter().map(unmarked).collect())
    }
}

fn mark(cut: &[CutEntry]) -> Vec<CutEntry> {
    let marked = |entry: &CutEntry| CutEntry {
        metadata: format!("{}{MARK}", entry.metadata),
        ..entry.clone()
    };
    cut.iter().map(marked).collect()
}

/// True if an instance may be running that transactions don't fence.
#[must_use]
pub fn is_marked(metadata: &str) -> bool {
    metadata.ends_with(MARK)
}
