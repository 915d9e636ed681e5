//! Furnishing beside an older instance: waits until nothing of it can come any more.
//!
//! Takes what is committed for the topics to be read, and looks whether a mark stands beside it. Runs after the older one
//! was fenced and before changelog ends and input are read. Waits nothing after a clean end or a first
//! start. Never fences: opening the producer did.

use super::Blueprint;
use crate::guard::is_marked;
use crate::shared::Shared;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Result, TopicPartition};
use stoatflow_log::{Committed, TopicInfo};

/// How soon a stop is heard while waiting.
const STEP: Duration = Duration::from_millis(100);

/// What is committed for everything that is read.
pub(crate) struct Standing {
    /// All partitions of all topics, in order.
    pub partitions: Vec<TopicPartition>,
    /// Of each, what is committed.
    pub committed: Vec<Option<Committed>>,
}

impl Blueprint {
    /// Final only once an older instance is fenced.
    pub(crate) fn standing(&self, topics: &BTreeMap<String, TopicInfo>) -> Result<Standing> {
        let of = |t: &TopicInfo| {
            let name = Arc::clone(&t.name);
            (0..t.partitions).map(move |p| TopicPartition::new(Arc::clone(&name), p))
        };
        let partitions: Vec<TopicPartition> = topics.values().flat_map(of).collect();
        let group = &self.settings.application_id;
        let timeout = self.settings.broker_wait;
        let committed = self
            .components
            .broker
            .committed(group, &partitions, timeout)?;
        Ok(Standing {
            partitions,
            committed,
        })
    }

    /// `fenced` is when the producer was open. `false` if a stop was asked for.
    pub(crate) fn outwait(
        &self,
        shared: &Shared,
        standing: &Standing,
        fenced: Duration,
    ) -> Result<bool> {
        let marks = standing.committed.iter().flatten();
        let marks = marks.map(|c| is_marked(&c.metadata));
        let patience = self.components.lease.patience(marks);
        let clock = &self.components.clock;
        if !patience.is_zero() {
            tracing::info!(
                application = self.settings.application_id,
                wait_ms = patience.as_millis(),
                "the last instance did not end cleanly; waiting until nothing of it can come any more"
            );
        }
        let left = || patience.saturating_sub(clock.monotonic().saturating_sub(fenced));
        // Only the machine's clock takes the time that it shows.
        clock.skip(left());
        while !left().is_zero() {
            if shared.is_stopping() {
                return Ok(false);
            }
            shared.wait_for_credit(left().min(STEP));
        }
        Ok(true)
    }
}
