//! Loads global tables before anything else is read.
//!
//! Other sources are held back until the global tables' topics are read to the ends they had at the
//! start and the epoch of the last of these records is committed, so that every lane sees it.
//! Afterwards their topics are read like any other.

use stoatflow_core::{Epoch, Offset};

#[cfg(test)]
mod tests;

/// See the module.
#[derive(Debug)]
pub struct GlobalTableGate {
    state: State,
    /// Slots of global tables, with the end offsets at the start.
    globals: Vec<(usize, Offset)>,
}

#[derive(Debug)]
enum State {
    /// Some global table is not read to its end yet.
    Reading,
    /// This epoch contains their last records.
    Committing(Epoch),
    Open,
}

/// The facts that dispatch passes to the gate.
#[derive(Clone, Copy, Debug)]
pub struct GateFacts<'a> {
    /// The next offset of every slot.
    pub cut: &'a [Offset],
    /// The open epoch.
    pub open: Epoch,
    /// True if the open epoch contains anything.
    pub filled: bool,
    /// The last committed epoch.
    pub committed: Epoch,
}

impl GlobalTableGate {
    /// A gate for these slots of global tables.
    #[must_use]
    pub const fn new(globals: Vec<(usize, Offset)>) -> Self {
        let state = if globals.is_empty() {
            State::Open
        } else {
            State::Reading
        };
        Self { state, globals }
    }

    /// True if every source may be read.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// True if the gate only waits for a commit.
    #[must_use]
    pub const fn wants_commit(&self) -> bool {
        matches!(self.state, State::Committing(_))
    }

    /// True if this slot belongs to a global table.
    #[must_use]
    pub fn is_global(&self, slot: usize) -> bool {
        self.globals.iter().any(|(global, _)| *global == slot)
    }

    /// Checks again; true if it has just opened.
    pub fn update(&mut self, facts: GateFacts<'_>) -> bool {
        if let State::Reading = self.state
            && self
                .globals
                .iter()
                .all(|(slot, end)| facts.cut[*slot] >= *end)
        {
            // Records admitted before the open epoch may still be in flight.
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
