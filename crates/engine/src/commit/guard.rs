//! The guard of a producer whose records nothing fences: what is committed, and whether one may send.
//!
//! Takes the cuts that are being committed; gives them with the mark that says "somebody is at work", the standing cut to
//! commit again as a question to the broker, and the same without the mark for a clean end. When to ask is
//! decided by [`stoatflow_protocol::lease`]; [`crate::commit`] asks. Never talks to a broker.

use std::time::Duration;
use stoatflow_log::CutEntry;
use stoatflow_protocol::{Hold, Lease};

#[cfg(test)]
mod tests;

/// Behind the stream time in the metadata of a committed offset.
const MARK: &str = ";held";

/// See the module.
#[derive(Debug)]
pub struct InstanceGuard {
    hold: Hold,
    /// What is committed, or would be if nothing were processed; marked.
    committed: Vec<CutEntry>,
    /// What is being committed.
    pending: Option<Vec<CutEntry>>,
    /// Is a mark of ours committed?
    marked: bool,
}

impl InstanceGuard {
    /// Before anything is sent; `start` is where reading starts.
    #[must_use]
    pub fn new(lease: Lease, start: &[CutEntry]) -> Self {
        Self {
            hold: Hold::new(lease),
            committed: mark(start),
            pending: None,
            marked: false,
        }
    }

    /// The cut to commit again, if the broker must be asked before anything is sent now.
    #[must_use]
    pub fn renewal(&self, now: Duration) -> Option<Vec<CutEntry>> {
        self.hold.must_ask(now).then(|| self.committed.clone())
    }

    /// A cut is being committed; gives it with the mark.
    pub fn begin_commit(&mut self, cut: &[CutEntry]) -> &[CutEntry] {
        self.pending.insert(mark(cut))
    }

    /// A commit that was asked for at this time has succeeded.
    pub fn committed(&mut self, asked: Duration) {
        self.hold.proven(asked);
        self.marked = true;
        if let Some(cut) = self.pending.take() {
            self.committed = cut;
        }
    }

    /// What a clean end commits: the same without the mark. `None` if there is no mark of ours.
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

/// May somebody be at work whose records nothing fences?
#[must_use]
pub fn is_marked(metadata: &str) -> bool {
    metadata.ends_with(MARK)
}
