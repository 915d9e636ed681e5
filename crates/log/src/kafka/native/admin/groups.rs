//! A group's committed offsets, from its coordinator; never joins.
//!
//! Takes partitions, returns what was committed for them. Waits for the offsets of open transactions.

use super::{ANSWER_TIMEOUT, Call, Topics, text, topic_name};
use crate::Committed;
use crate::kafka::native::error_class::{UNKNOWN_TOPIC_OR_PARTITION, UNSTABLE_OFFSET_COMMIT};
use crate::kafka::native::net::cluster::{CoordinatorType, Node};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{GroupId, OffsetFetchRequest, OffsetFetchResponse};
use std::collections::BTreeMap;
use stoatflow_core::{Offset, Result, TopicPartition};

/// The first version that waits for open transactions.
const STABLE: i16 = 7;
/// The first version with several groups.
const GROUPS: i16 = 8;

/// A partition of the answer, for all versions.
struct Row {
    topic: String,
    partition: i32,
    offset: i64,
    metadata: String,
    code: i16,
}

impl Call<'_> {
    /// The coordinator of this group.
    pub(super) fn group_coordinator(&mut self, group: &str, refused: &str) -> Result<Node> {
        let most = self.left().min(ANSWER_TIMEOUT);
        let found = (self.cluster).coordinator(CoordinatorType::Group, group, most);
        let found = found.map_err(|why| self.unanswered(&why))?;
        found.map_err(|code| self.fail(code, refused, None))
    }

    pub(super) fn committed(
        &mut self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Option<Committed>>> {
        let refused = refused(group);
        let found = self.offsets_of(group, partitions, true)?;
        let settled = |(found, topic)| match found {
            Found::Pending => Err(self.fail(UNSTABLE_OFFSET_COMMIT, &refused, Some(topic))),
            Found::At(committed) => Ok(committed),
        };
        let topics = partitions.iter().map(|p| &*p.topic);
        found.into_iter().zip(topics).map(settled).collect()
    }

    /// As [`committed`](Self::committed); a partition with a pending transaction has its offset from before
    /// it, and true.
    pub(super) fn committed_despite_pending(
        &mut self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Result<Vec<(Option<Committed>, bool)>> {
        let found = self.offsets_of(group, partitions, true)?;
        if found.iter().all(|found| matches!(found, Found::At(_))) {
            let settled = found.into_iter().map(|found| (found.committed(), false));
            return Ok(settled.collect());
        }
        let before = self.offsets_of(group, partitions, false)?;
        let both = before.into_iter().zip(found);
        Ok(both
            .map(|(before, found)| match found {
                Found::Pending => (before.committed(), true),
                Found::At(committed) => (committed, false),
            })
            .collect())
    }

    /// The committed offsets of a group; with `stable` those of pending transactions are not passed over.
    fn offsets_of(
        &mut self,
        group: &str,
        partitions: &[TopicPartition],
        stable: bool,
    ) -> Result<Vec<Found>> {
        let refused = refused(group);
        let node = self.group_coordinator(group, &refused)?;
        let mut topics = Topics::new();
        for partition in partitions {
            let of_topic = topics.entry(&*partition.topic).or_default();
            of_topic.insert(partition.partition.0);
        }
        let answer = self.ask(node, ANSWER_TIMEOUT, |version| {
            request(version, group, &topics, stable)
        })?;
        let (code, rows) = rows(answer);
        if code != 0 {
            return Err(self.fail(code, &refused, None));
        }
        let mut found = BTreeMap::new();
        for row in rows {
            let committed = match row.code {
                0 if row.offset >= 0 => Found::At(Some(Committed {
                    offset: Offset(row.offset),
                    metadata: row.metadata,
                })),
                0 | UNKNOWN_TOPIC_OR_PARTITION => Found::At(None),
                UNSTABLE_OFFSET_COMMIT => Found::Pending,
                code => return Err(self.fail(code, &refused, Some(&row.topic))),
            };
            found.insert((row.topic, row.partition), committed);
        }
        let of = |p: &TopicPartition| {
            let committed = found.get(&(p.topic.to_string(), p.partition.0)).cloned();
            // "Nothing is committed" would be reported with the partition: a missing partition means
            // something else.
            committed
                .ok_or_else(|| self.not_yet("a partition is missing in the answer", Some(&p.topic)))
        };
        partitions.iter().map(of).collect()
    }
}

fn refused(group: &str) -> String {
    format!("the committed offsets of group '{group}' are not readable")
}

/// What the coordinator has for a partition.
#[derive(Clone, Debug)]
enum Found {
    At(Option<Committed>),
    /// A transaction has offsets for it and has not ended, as far as the coordinator knows.
    Pending,
}

impl Found {
    fn committed(self) -> Option<Committed> {
        match self {
            Self::At(committed) => committed,
            Self::Pending => None,
        }
    }
}

fn request(version: i16, group: &str, topics: &Topics<'_>, stable: bool) -> OffsetFetchRequest {
    let stable = stable && version >= STABLE;
    let request = OffsetFetchRequest::default().with_require_stable(stable);
    let group = GroupId::from(text(group));
    if version >= GROUPS {
        let topics = topics.iter().map(|(name, partitions)| {
            OffsetFetchRequestTopics::default()
                .with_name(topic_name(name))
                .with_partition_indexes(partitions.iter().copied().collect())
        });
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(group)
            .with_topics(Some(topics.collect()));
        return request.with_groups(vec![group]);
    }
    let topics = topics.iter().map(|(name, partitions)| {
        OffsetFetchRequestTopic::default()
            .with_name(topic_name(name))
            .with_partition_indexes(partitions.iter().copied().collect())
    });
    request
        .with_group_id(group)
        .with_topics(Some(topics.collect()))
}

/// The code of the group, and its partitions.
fn rows(answer: OffsetFetchResponse) -> (i16, Vec<Row>) {
    let mut rows = Vec::new();
    let mut add = |topic: &str, partition, offset, metadata: Option<&str>, code| {
        rows.push(Row {
            topic: topic.to_owned(),
            partition,
            offset,
            metadata: metadata.unwrap_or("").trim_end_matches('\0').to_owned(),
            code,
        });
    };
    let mut code = answer.error_code;
    for topic in answer.topics {
        for p in topic.partitions {
            let (offset, metadata) = (p.committed_offset, p.metadata.as_deref());
            add(
                &topic.name.0,
                p.partition_index,
                offset,
                metadata,
                p.error_code,
            );
        }
    }
    for group in answer.groups {
        code = group.error_code;
        for topic in group.topics {
            for p in topic.partitions {
                let (offset, metadata) = (p.committed_offset, p.metadata.as_deref());
                add(
                    &topic.name.0,
                    p.partition_index,
                    offset,
                    metadata,
                    p.error_code,
                );
            }
        }
    }
    (code, rows)
}
