//! How an epoch is committed: the one order in which its parts become visible.
//!
//! ```text
//!   every lane sealed e
//! Idle ─────────────────► Changelog ─► Flush ─► Offsets ─► Commit ─► Apply ─► Announce ─► Idle
//!                             │          │         │         │         │
//!                             └──────────┴─────────┤         │         └► Stop(Restart): the broker has e;
//!                    failed: nothing is visible    │         │            restore catches up
//!                       Abort ─► Stop(..) ◄────────┘         ├► aborted: Stop(Restart), nothing is visible
//!                                                            └► unknown: Stop(Unknown), evidence is kept;
//!                                                               recovery asks the broker
//! any step: Fenced ─► Stop(Fenced): another instance owns the work; nothing more is sent, not even an abort
//! ```
//!
//! Law 6 is the place of `Apply`: after `Commit`, never before. Law 5 is the place of `Offsets`: inside
//! the transaction, before `Commit`.

use stoatflow_core::{Epoch, ErrorKind};

/// One thing to do for an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitStep {
    /// Hand the sealed changelog records to the producer.
    Changelog,
    /// Wait until everything sent is acknowledged.
    Flush,
    /// Add the offsets to the transaction.
    Offsets,
    /// End the transaction.
    Commit,
    /// Write the sealed overlay and its changelog positions to the local store.
    Apply,
    /// Announce that the epoch is committed.
    Announce,
}

/// Why the engine must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Another instance took over; stop for good.
    Fenced,
    /// Nothing of the epoch is visible; starting again repeats it.
    Restart,
    /// The broker may or may not have the epoch; the next start finds out.
    Unknown,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Do this step.
    Do(CommitStep),
    /// Abort the transaction (best effort), then stop.
    Abort(StopReason),
    /// Stop without touching the transaction.
    Stop(StopReason),
    /// The epoch is done.
    Done(Epoch),
}

/// The order of steps. Only one is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitOrder(&'static [CommitStep]);

impl CommitOrder {
    /// The order that keeps the laws.
    pub const SAFE: Self = Self(&[
        CommitStep::Changelog,
        CommitStep::Flush,
        CommitStep::Offsets,
        CommitStep::Commit,
        CommitStep::Apply,
        CommitStep::Announce,
    ]);

    /// Another order, for the simulator's mutation tests.
    #[must_use]
    pub const fn of(steps: &'static [CommitStep]) -> Self {
        Self(steps)
    }
}

/// Decides the commit of one epoch after another.
#[derive(Debug)]
pub struct CommitMachine {
    order: CommitOrder,
    at: Option<(Epoch, usize)>,
    last: Option<Epoch>,
}

impl CommitMachine {
    /// A machine with nothing to do.
    #[must_use]
    pub const fn new(order: CommitOrder) -> Self {
        Self {
            order,
            at: None,
            last: None,
        }
    }

    /// Every lane has sealed `epoch` and its offsets are known.
    ///
    /// # Panics
    /// If another epoch is being committed, or epochs go back: a bug that must not reach a broker.
    pub fn sealed(&mut self, epoch: Epoch) -> Decision {
        assert!(
            self.at.is_none(),
            "epoch {epoch} sealed while {:?} is being committed",
            self.at
        );
        assert!(
            self.last.is_none_or(|last| epoch > last),
            "epoch {epoch} sealed after {:?}",
            self.last
        );
        self.at = Some((epoch, 0));
        Decision::Do(self.order.0[0])
    }

    /// The last step succeeded.
    ///
    /// # Panics
    /// If no commit is under way.
    pub fn succeeded(&mut self) -> Decision {
        let (epoch, at) = self
            .at
            .expect("a step succeeded while no commit is under way");
        if let Some(step) = self.order.0.get(at + 1) {
            self.at = Some((epoch, at + 1));
            return Decision::Do(*step);
        }
        self.at = None;
        self.last = Some(epoch);
        Decision::Done(epoch)
    }

    /// The last step failed.
    ///
    /// # Panics
    /// If no commit is under way.
    pub fn failed(&mut self, kind: ErrorKind) -> Decision {
        let (_, at) = self
            .at
            .take()
            .expect("a step failed while no commit is under way");
        match (self.order.0[at], kind) {
            (_, ErrorKind::Fenced) => Decision::Stop(StopReason::Fenced),
            (CommitStep::Commit, ErrorKind::UnknownOutcome) => Decision::Stop(StopReason::Unknown),
            (CommitStep::Changelog | CommitStep::Flush | CommitStep::Offsets, _) => {
                Decision::Abort(StopReason::Restart)
            }
            (CommitStep::Commit | CommitStep::Apply | CommitStep::Announce, _) => {
                Decision::Stop(StopReason::Restart)
            }
        }
    }

    /// The current epoch and step.
    #[must_use]
    pub fn under_way(&self) -> Option<(Epoch, CommitStep)> {
        self.at.map(|(epoch, at)| (epoch, self.order.0[at]))
    }
}

#[cfg(test)]
mod tests;
