//! How commits end: after an error, or with a clean shutdown.

use super::{Committer, Cut};
use crate::commit::commit_failure::{CommitFailure, FailedStep};
use crate::commit::deadline::Deadline;
use crate::commit::guard::InstanceGuard;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Guarantee};
use stoatflow_protocol::{CommitStep, Decision, StopReason};

/// Timeout for recording a clean end.
const CLEAN_END_TIMEOUT: Duration = Duration::from_secs(5);

impl Committer {
    /// Aborts the transaction after an error outside of a commit.
    pub(super) fn give_up(&mut self, error: Error) -> Error {
        let (error, lost) = self.lost_records(error);
        self.abandon();
        if let Some(partition) = lost {
            self.note_lost_records(partition);
        }
        error
    }

    pub(super) fn commit_failed(&mut self, step: CommitStep, error: Error, cut: &Cut) -> Error {
        let epoch = self.open;
        let error = self.explain_timeout(error);
        let (error, lost) = self.lost_records(error);
        let decision = self.machine.failed(error.kind());
        let shared = &self.parts.shared;
        let failed = FailedStep {
            epoch,
            step,
            unknown: decision == Decision::Stop(StopReason::Unknown),
            error: &error,
            at: shared.clock.now(),
        };
        let failure = CommitFailure::of(&failed, (&cut.entries, cut.records), &shared.status);
        tracing::error!(%epoch, ?step, ?decision, %error, evidence = failure.line(), "commit failed");
        shared.status.commit_failed(failure);
        if matches!(decision, Decision::Abort(_)) || lost.is_some() {
            self.abandon();
        }
        if let Some(partition) = lost {
            self.note_lost_records(partition);
        }
        let error = error.at(|at| at.epoch = Some(epoch));
        match decision {
            Decision::Stop(StopReason::Unknown) => error.hint(
                "start again: recovery asks the broker whether the epoch was committed; nothing is lost \
                    or doubled",
            ),
            _ => error,
        }
    }

    /// Adds a hint about `commit.timeout.ms` if the deadline has passed.
    fn explain_timeout(&mut self, error: Error) -> Error {
        let deadline = self.deadline.take();
        let is_over = deadline.is_some_and(|at| at.before_end(self.now()).is_zero());
        if !is_over || error.kind() != ErrorKind::Unavailable {
            return error;
        }
        let hint = format!(
            "{}; if the broker is only slow, raise commit.timeout.ms ({} now)",
            error.next_step(),
            self.parts.timeout.as_millis()
        );
        error.hint(hint)
    }

    /// Records a clean end once everything is committed, so that the next start doesn't have to wait.
    /// Best effort.
    pub fn close(&mut self) {
        self.abandon();
        // Under at-least-once the rows of the last commit may not be acknowledged yet.
        if self.parts.offsets.is_some()
            && self.parts.guarantee == Guarantee::AtLeastOnce
            && let Err(error) = self
                .parts
                .producer
                .flush(CLEAN_END_TIMEOUT.min(self.parts.timeout))
        {
            tracing::warn!(%error, "the last rows of the offsets topic may be missing; the group's \
                offsets have it all");
        }
        let Some(cut) = self.parts.guard.as_ref().and_then(InstanceGuard::clean_end) else {
            return;
        };
        let deadline = Deadline::new(self.now(), CLEAN_END_TIMEOUT.min(self.parts.timeout));
        if let Err(error) = self.commit_only(&cut, deadline) {
            tracing::warn!(%error, "the clean end was not recorded; the next start waits a moment");
        }
    }

    /// Aborts the open transaction. Best effort: the next start's fencing aborts it too.
    pub fn abandon(&mut self) {
        if std::mem::take(&mut self.begun)
            && let Err(error) = self.parts.producer.abort(Duration::from_secs(5))
        {
            tracing::warn!(%error, "the transaction was not aborted; the next start or its timeout will");
        }
    }
}
