//! Global tables first: nothing else is admitted before they stand.
//!
//! Takes what dispatch knows (positions, epochs), says whether other sources may be read. A global
//! table stands when its topics are read up to where they ended at the start, and the epoch of the last
//! of these records is committed: then every lane sees it. After that its topics are read like others.

use stoatflow_core::{Epoch, Offset};

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug)]
pub struct GlobalTableGate {
    state: State,
    /// Slots of global sources, and where they ended.
    globals: Vec<(usize, Offset)>,
}

#[derive(Debug)]
enum State {
    /// Records are missing.
    Reading,
    /// This epoch has the last of them.
    Committing(Epoch),
    Open,
}

/// What dispatch knows.
#[derive(Clone, Copy, Debug)]
pub struct GateFacts<'a> {
    /// The next offset of every slot that dispatch would admit.
    pub cut: &'a [Offset],
    /// The epoch that is being filled.
    pub open: Epoch,
    /// Is there anything in it?
    pub filled: bool,
    /// The last committed one.
    pub committed: Epoch,
}

impl GlobalTableGate {
    /// For the slots of global sources.
    #[must_use]
    pub const fn new(globals: Vec<(usize, Offset)>) -> Self {
        let state = if globals.is_empty() {
            State::Open
        } else {
            State::Reading
        };
        Self { state, globals }
    }

    /// May everything be read?
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Does it wait for nothing but a commit?
    #[must_use]
    pub const fn wants_commit(&self) -> bool {
        matches!(self.state, State::Committing(_))
    }

    /// Is this slot's topic one of a global table?
    #[must_use]
    pub fn is_global(&self, slot: usize) -> bool {
        self.globals.iter().any(|(global, _)| *global == slot)
    }

    /// Looks again; true if it has just opened.
    pub fn update(&mut self, facts: GateFacts<'_>) -> bool {
        if let State::Reading = self.state
            && self
                .globals
                .iter()
                .all(|(slot, end)| facts.cut[*slot] >= *end)
        {
            // What was admitted before the open epoch may still be on its way.
            self.state = State::Committing(if facts.filled {
                facts.open
            } else {
                Epoch(facts.open.0 - 1)
            });
        }
        if let State::Committing(epoch) = self.state
            && facts.committed >= epoch
        {
            self.state = State::Open;
            return true;
        }
        false
    }
}
