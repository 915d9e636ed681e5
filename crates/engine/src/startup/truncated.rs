//! Detects partitions that lost records while the application was away.
//!
//! After an unclean leader election, a partition continues without its last records, and new records
//! reuse their offsets. In a source topic, the committed offset then still exists but points past
//! records that were never read. Each commit therefore stores the leader epoch of the last record read.
//! A start asks the current leaders where the records of that epoch end.
//!
//! A changelog contains records of this application only. Each commit stores where they end; a changelog
//! that ends earlier would restore an older state.

use super::{CommittedOffsets, EngineSpec};
use crate::commit::offsets_topic::{OffsetRows, topic_name};
use crate::intake::watermarks::Progress;
use std::sync::Arc;
use stoatflow_core::{Error, Offset, Result, TopicPartition};
use stoatflow_log::TopicInfo;

#[cfg(test)]
mod tests;

/// A committed offset, and the leader epoch stored with it.
#[derive(Clone, Debug)]
struct Reached {
    partition: TopicPartition,
    offset: Offset,
    leader_epoch: i32,
}

impl EngineSpec {
    /// Refuses committed offsets that follow records which the current leader doesn't have.
    ///
    /// # Errors
    /// `Incompatible`, with the partition and the next step; errors of the broker.
    pub(super) fn refuse_truncated(&self, found: &CommittedOffsets) -> Result<()> {
        let both = found.partitions.iter().zip(&found.committed);
        let reached: Vec<Reached> = both
            .filter_map(|(partition, committed)| {
                let committed = committed.as_ref()?;
                let leader_epoch = Progress::decode(&committed.metadata).leader_epoch;
                (leader_epoch >= 0).then(|| Reached {
                    partition: partition.clone(),
                    offset: committed.offset,
                    leader_epoch,
                })
            })
            .collect();
        let asked: Vec<_> = (reached.iter())
            .map(|r| (r.partition.clone(), r.leader_epoch))
            .collect();
        let broker = &self.components.broker;
        let ends = broker.epoch_ends(&asked, self.settings.broker_wait)?;
        match first_truncated(&reached, &ends) {
            Some((reached, end)) => Err(truncated(&self.settings.application_id, reached, end)),
            None => Ok(()),
        }
    }

    /// Refuses changelogs that end before the last commit; returns their ends. Changelogs that the
    /// topology no longer has are not checked.
    ///
    /// # Errors
    /// `Incompatible`, with the partition and the next steps; errors of the broker.
    pub(super) fn refuse_truncated_changelogs(
        &self,
        rows: &OffsetRows,
        changelogs: &[TopicInfo],
    ) -> Result<Vec<(TopicPartition, Offset)>> {
        let partitions = changelogs.iter().flat_map(|topic| {
            let of = |p| TopicPartition::new(Arc::clone(&topic.name), p);
            (0..topic.partitions).map(of)
        });
        let partitions: Vec<TopicPartition> = partitions.collect();
        let broker = &self.components.broker;
        let ends = broker.high_watermarks(&partitions, self.settings.broker_wait)?;
        let ends: Vec<_> = partitions.into_iter().zip(ends).collect();
        for (partition, end) in &ends {
            let noted = rows.end_of(partition).unwrap_or(Offset(0));
            let how = if rows.lost.contains(partition) {
                "as a run of this application noted when it saw it".to_owned()
            } else if *end < noted {
                format!("which ended at offset {noted} with the last commit, and now ends at {end}")
            } else {
                continue;
            };
            let id = &self.settings.application_id;
            return Err(truncated_changelog(id, partition, noted, &how));
        }
        Ok(ends)
    }
}

/// The first partition whose leader lacks records before the committed offset, and where the records
/// that it shares end.
fn first_truncated<'r>(
    reached: &'r [Reached],
    ends: &[Option<Offset>],
) -> Option<(&'r Reached, Offset)> {
    let mut both = reached.iter().zip(ends);
    both.find_map(|(reached, end)| {
        let end = (*end)?;
        (end < reached.offset).then_some((reached, end))
    })
}

fn truncated(application: &str, reached: &Reached, end: Offset) -> Error {
    let Reached {
        partition,
        offset,
        leader_epoch,
    } = reached;
    Error::incompatible(format!(
        "{partition} has lost records since the last commit: the application had read up to offset {offset} (leader \
            epoch {leader_epoch}), but what the present leader has of that epoch ends at {end}; records from there on \
            are others (unclean leader election)"
    ))
    .hint(format!(
        "results of the lost records are committed and stay. To go on with the records that are there now, set the \
            offset: kafka-consumer-groups.sh --group {application} --topic {}:{} --reset-offsets --to-offset {end} \
            --execute. To compute everything anew: stoatflow reset",
        partition.topic, partition.partition
    ))
    .at(|at| {
        at.topic = Some(partition.topic.to_string());
        at.partition = Some(partition.partition);
        at.offset = Some(*offset);
    })
}

fn truncated_changelog(
    application: &str,
    partition: &TopicPartition,
    noted: Offset,
    how: &str,
) -> Error {
    let offsets = topic_name(application);
    Error::incompatible(format!(
        "the changelog {partition} has lost records, {how} (unclean leader election, or a truncated log); state that is \
            restored from it lacks updates whose results are committed"
    ))
    .hint(format!(
        "to compute everything again: stoatflow reset. To go on without the lost updates: delete the topic '{offsets}' \
            (the group's offsets have the positions too) and the state directory, and start again"
    ))
    .at(|at| {
        at.topic = Some(partition.topic.to_string());
        at.partition = Some(partition.partition);
        at.offset = Some(noted);
    })
}
