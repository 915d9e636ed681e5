//! Counts dropped records, and logs them at a bounded rate.

use super::Status;
use crate::admin::drop_log::UnloggedDrops;
use std::time::Duration;
use stoatflow_operators::dropped;

impl Status {
    /// Counts dropped records (law 11), and logs them at a bounded rate.
    pub fn drop_records(&self, node: &str, reason: &'static str, count: u64, now: Duration) {
        self.dropped(node, reason, count);
        if is_expected_drop(reason) {
            return;
        }
        let logged = (self.drop_log).count(&format!("{node}|{reason}"), (node, reason), count, now);
        if let Some(records) = logged {
            log_dropped(node, reason, records);
        }
    }

    /// Logs dropped records that no line has reported yet.
    pub fn log_unlogged_drops(&self, now: Duration, is_end: bool) {
        for UnloggedDrops {
            node,
            reason,
            records,
        } in self.drop_log.unlogged(now, is_end)
        {
            log_dropped(&node, reason, records);
        }
    }
}

/// Whether dropping records for this reason is what the topology is meant to do.
pub(in crate::admin) fn is_expected_drop(reason: &str) -> bool {
    matches!(
        reason,
        dropped::DUPLICATE
            | dropped::DUPLICATE_ANSWER
            | dropped::OUTDATED_ERROR
            | dropped::NO_PARTITION
    )
}

fn log_dropped(node: &str, reason: &'static str, records: u64) {
    tracing::warn!(
        target: "stoatflow::drops",
        node,
        reason,
        records,
        "records were left out. Next: see why with stoatflow explain {reason}"
    );
}
