//! Waits until transactions of an older instance have ended.
//!
//! Runs after the older instance was fenced, before changelog ends and input are read. Waits only if the
//! committed offsets have the mark of a running instance (see [`crate::commit::guard`]); after a clean
//! end or at a first start there is nothing to wait for. Doesn't fence: opening the producer has done
//! that.

use super::{CommittedOffsets, EngineSpec};
use crate::commit::guard::is_marked;
use crate::runtime::shared::Shared;
use std::time::Duration;
use stoatflow_core::Result;

/// How soon a stop request is noticed.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl EngineSpec {
    /// Waits for the transactions; `fenced` is when the producer was opened. `false` if a stop was
    /// requested meanwhile.
    pub(crate) fn await_transactions(
        &self,
        shared: &Shared,
        committed_offsets: &CommittedOffsets,
        fenced: Duration,
    ) -> Result<bool> {
        let marks = committed_offsets.committed.iter().flatten();
        let marks = marks.map(|c| is_marked(&c.metadata));
        let patience = self.components.lease.patience(marks);
        let clock = &self.components.clock;
        if !patience.is_zero() {
            tracing::info!(
                application = self.settings.application_id,
                wait_ms = patience.as_millis(),
                "the last instance did not end cleanly; waiting until its transactions have ended"
            );
        }
        let left = || patience.saturating_sub(clock.monotonic().saturating_sub(fenced));
        // A simulated clock is advanced instead of waited for.
        clock.skip(left());
        while !left().is_zero() {
            if shared.is_stopping() {
                return Ok(false);
            }
            shared.pause(left().min(STOP_CHECK_INTERVAL));
        }
        Ok(true)
    }
}
