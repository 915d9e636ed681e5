//! Waits until transactions of an older instance have ended.
//!
//! Runs after the older instance was fenced, before changelog ends and input are read. Waits only
//! if the committed offsets carry the mark of a running instance (see [`crate::commit::guard`]);
//! after a clean end or at a first start there is nothing to wait for. Doesn't fence: opening the
//! producer has done that.

use super::EngineSpec;
use crate::commit::guard::is_marked;
use crate::commit::offsets_topic::{OffsetRows, PositionOrigin, choose_position};
use crate::runtime::shared::Shared;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Result, TopicPartition};
use stoatflow_log::{Committed, Forgetting, TopicInfo};

/// How soon a stop request is noticed.
const STEP: Duration = Duration::from_millis(100);

/// What is committed for everything that is read.
pub(crate) struct CommittedOffsets {
    /// All partitions of all topics, in order.
    pub partitions: Vec<TopicPartition>,
    /// Of each, what is committed.
    pub committed: Vec<Option<Committed>>,
    /// What stands in the offsets topic.
    pub rows: OffsetRows,
}

impl CommittedOffsets {
    /// Of these partitions, in the order asked.
    pub(super) fn of(&self, partitions: &[TopicPartition]) -> Vec<Option<Committed>> {
        let known: BTreeMap<_, _> = self.partitions.iter().zip(&self.committed).collect();
        let find = |partition| known.get(partition).and_then(|c| (*c).clone());
        partitions.iter().map(find).collect()
    }
}

impl EngineSpec {
    /// Final only once an older instance is fenced. `None` if a stop was asked for.
    pub(crate) fn committed_offsets(
        &self,
        shared: &Shared,
        topics: &BTreeMap<String, TopicInfo>,
    ) -> Result<Option<CommittedOffsets>> {
        let of = |t: &TopicInfo| {
            let name = Arc::clone(&t.name);
            (0..t.partitions).map(move |p| TopicPartition::new(Arc::clone(&name), p))
        };
        let partitions: Vec<TopicPartition> = topics.values().flat_map(of).collect();
        let group = &self.settings.application_id;
        let timeout = self.settings.broker_wait;
        let broker = self.components.broker.as_ref();
        let mut committed = broker.committed(group, &partitions, timeout)?;
        let rows = match broker.forgetting() {
            Forgetting::Nothing => OffsetRows::default(),
            Forgetting::Expires => match OffsetRows::read(broker, group, timeout, shared)? {
                Some(rows) => rows,
                None => return Ok(None),
            },
        };
        for (partition, committed) in partitions.iter().zip(&mut committed) {
            let group = committed.take();
            let said = group.as_ref().map(|c| c.offset.0);
            let (chosen, origin) = choose_position(group, rows.positions.get(partition));
            let at = chosen.as_ref().map(|c| c.offset.0);
            tell(origin, partition, said, at);
            *committed = chosen;
        }
        Ok(Some(CommittedOffsets {
            partitions,
            committed,
            rows,
        }))
    }

    /// `fenced` is when the producer was opened. `false` if a stop was requested meanwhile.
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
                "the last instance did not end cleanly; waiting until nothing of it can come any more"
            );
        }
        let left = || patience.saturating_sub(clock.monotonic().saturating_sub(fenced));
        // A simulated clock is moved instead of waited for.
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

/// Logs where a position comes from, unless that is the usual place.
fn tell(origin: PositionOrigin, partition: &TopicPartition, group: Option<i64>, at: Option<i64>) {
    match origin {
        PositionOrigin::Nowhere
        | PositionOrigin::Both
        | PositionOrigin::Group
        | PositionOrigin::Ahead => {}
        PositionOrigin::Expired => tracing::info!(
            %partition,
            at,
            "the broker has forgotten the group's offset (offsets.retention.minutes); going on from the offsets topic"
        ),
        PositionOrigin::Moved => tracing::warn!(
            %partition,
            at,
            "the group's offset was set by another program; going on from there"
        ),
        PositionOrigin::Lost => tracing::warn!(
            %partition,
            at,
            group,
            "the group's offset is older than the last commit: the broker has lost a commit of it; going on from the offsets topic"
        ),
    }
}
