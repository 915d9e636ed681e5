//! The committed offsets of all source partitions: those of the group, or those in the offsets topic.

use super::EngineSpec;
use crate::commit::offsets_topic::{OffsetRows, PositionOrigin, choose_position};
use crate::runtime::shared::Shared;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Offset, Result, TopicPartition};
use stoatflow_log::{Broker, ClusterExpiry, Committed, TopicInfo};

/// A group whose offsets are not settled within this time is asked for those that are.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

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
        let (mut committed, pending) = settled(broker, group, &partitions, timeout)?;
        let rows = match broker.expiry() {
            ClusterExpiry::Never => OffsetRows::default(),
            ClusterExpiry::AfterRetention => {
                match OffsetRows::read(broker, group, timeout, shared)? {
                    Some(rows) => rows,
                    None => return Ok(None),
                }
            }
        };
        refuse_pending(group, &pending, &rows)?;
        let guarantee = self.settings.guarantee;
        for (partition, committed) in partitions.iter().zip(&mut committed) {
            let group = committed.take();
            let said = group.as_ref().map(|c| c.offset.0);
            let (chosen, origin) = choose_position(guarantee, group, rows.positions.get(partition));
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

/// The committed offsets of a group, and the partitions for which it holds a transaction pending. The
/// producer is open, so every transaction of this application has ended, and its offsets are settled within
/// moments. A coordinator that loses the end of a transaction while it loads its partition holds it pending
/// for good (seen with Kafka 4.1.1, after a broker was killed).
fn settled(
    broker: &dyn Broker,
    group: &str,
    partitions: &[TopicPartition],
    timeout: Duration,
) -> Result<(Vec<Option<Committed>>, Vec<TopicPartition>)> {
    match broker.committed(group, partitions, timeout.min(SETTLED_WITHIN)) {
        Ok(committed) => return Ok((committed, Vec::new())),
        Err(error) if error.kind() == ErrorKind::Unavailable => {}
        Err(error) => return Err(error),
    }
    let found = broker.committed_despite_pending(group, partitions, timeout)?;
    let pending = partitions.iter().zip(&found);
    let pending = pending.filter(|(_, (_, pending))| *pending);
    let pending = pending.map(|(partition, _)| partition.clone()).collect();
    let committed = found.into_iter().map(|(committed, _)| committed).collect();
    Ok((committed, pending))
}

/// What the group holds pending must be in the offsets topic, which has it from the same transactions.
fn refuse_pending(group: &str, pending: &[TopicPartition], rows: &OffsetRows) -> Result<()> {
    let Some(first) = pending.first() else {
        return Ok(());
    };
    if let Some(missing) = pending.iter().find(|p| !rows.positions.contains_key(*p)) {
        return Err(Error::unavailable(format!(
            "the group's coordinator holds an offset of {missing} pending, of a transaction that has ended"
        ))
        .hint(format!(
            "restart the broker that coordinates the group (kafka-consumer-groups.sh --describe --state --group \
                {group} names it), then start again"
        )));
    }
    tracing::warn!(
        partitions = pending.len(),
        %first,
        "the group's coordinator holds offsets pending of transactions that have ended; continuing from the \
            offsets topic"
    );
    Ok(())
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
        PositionOrigin::Uncommitted => tracing::warn!(
            %partition,
            at,
            group,
            "the group's offset is of a transaction that was not committed; continuing from the offsets topic"
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
