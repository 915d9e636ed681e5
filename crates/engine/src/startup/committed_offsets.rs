//! The committed offsets of all source partitions: those of the group, or those in the offsets topic.

use super::EngineSpec;
use crate::commit::offsets_topic::{OffsetRows, PositionOrigin, choose_position};
use crate::runtime::shared::Shared;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use stoatflow_core::{Offset, Result, TopicPartition};
use stoatflow_log::{ClusterExpiry, Committed, TopicInfo};

/// The committed offsets of everything the application reads.
pub(crate) struct CommittedOffsets {
    /// All partitions of all topics, in order.
    pub partitions: Vec<TopicPartition>,
    /// The committed offset of each.
    pub committed: Vec<Option<Committed>>,
    /// The rows of the offsets topic.
    pub rows: OffsetRows,
}

impl CommittedOffsets {
    /// The committed offset of each partition that has one.
    pub(super) fn by_partition(&self) -> HashMap<TopicPartition, Offset> {
        let all = self.partitions.iter().zip(&self.committed);
        all.filter_map(|(partition, at)| Some((partition.clone(), at.as_ref()?.offset)))
            .collect()
    }

    /// The committed offsets of these partitions, in the same order.
    pub(super) fn of(&self, partitions: &[TopicPartition]) -> Vec<Option<Committed>> {
        let known: BTreeMap<_, _> = self.partitions.iter().zip(&self.committed).collect();
        let find = |partition| known.get(partition).and_then(|c| (*c).clone());
        partitions.iter().map(find).collect()
    }
}

impl EngineSpec {
    /// Reads the committed offsets. They are final only once an older instance is fenced. `None` if a
    /// stop was requested.
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
        let rows = match broker.expiry() {
            ClusterExpiry::Never => OffsetRows::default(),
            ClusterExpiry::AfterRetention => {
                match OffsetRows::read(broker, group, timeout, shared)? {
                    Some(rows) => rows,
                    None => return Ok(None),
                }
            }
        };
        for (partition, committed) in partitions.iter().zip(&mut committed) {
            let group = committed.take();
            let said = group.as_ref().map(|c| c.offset.0);
            let (chosen, origin) = choose_position(group, rows.positions.get(partition));
            let at = chosen.as_ref().map(|c| c.offset.0);
            log_origin(origin, partition, said, at);
            *committed = chosen;
        }
        Ok(Some(CommittedOffsets {
            partitions,
            committed,
            rows,
        }))
    }
}

/// Logs where a position comes from, unless that is as usual.
fn log_origin(
    origin: PositionOrigin,
    partition: &TopicPartition,
    group: Option<i64>,
    at: Option<i64>,
) {
    match origin {
        PositionOrigin::Nowhere
        | PositionOrigin::Both
        | PositionOrigin::Group
        | PositionOrigin::Ahead => {}
        PositionOrigin::Expired => tracing::info!(
            %partition,
            at,
            "the group's offset has expired (offsets.retention.minutes); continuing from the offsets topic"
        ),
        PositionOrigin::Moved => tracing::warn!(
            %partition,
            at,
            "the group's offset was set by another program; continuing from there"
        ),
        PositionOrigin::Lost => tracing::warn!(
            %partition,
            at,
            group,
            "the group's offset is older than the last commit: the broker has lost a commit; continuing \
                from the offsets topic"
        ),
    }
}
