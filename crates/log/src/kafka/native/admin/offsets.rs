//! Offsets of partitions: the first, the last, and by timestamp.
//!
//! Takes partitions, returns an offset for each in the order asked. Asks every leader once, and all of
//! them again if one has moved, doesn't answer or leaves a partition out.

use super::{ANSWER_TIMEOUT, Call, Node, Topics, topic_name};
use crate::Range;
use crate::kafka::native::error_class::UNKNOWN_TOPIC_OR_PARTITION;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId, ListOffsetsRequest};
use std::collections::BTreeMap;
use stoatflow_core::{Offset, Result, Timestamp, TopicPartition};

/// Special timestamps: the end, and the first offset.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

/// What counts as the end of a partition.
#[derive(Clone, Copy, Debug)]
pub(super) enum IsolationLevel {
    /// Its high watermark.
    ReadUncommitted = 0,
    /// Its last stable offset.
    ReadCommitted = 1,
}

use IsolationLevel::{ReadCommitted, ReadUncommitted};

impl Call<'_> {
    pub(super) fn ranges(&mut self, partitions: &[TopicPartition]) -> Result<Vec<Range>> {
        let begin = self.offsets(partitions, EARLIEST, ReadCommitted)?;
        let end = self.offsets(partitions, LATEST, ReadCommitted)?;
        Ok(begin
            .into_iter()
            .zip(end)
            .map(|(begin, stable_end)| Range { begin, stable_end })
            .collect())
    }

    pub(super) fn high_watermarks(&mut self, partitions: &[TopicPartition]) -> Result<Vec<Offset>> {
        self.offsets(partitions, LATEST, ReadUncommitted)
    }

    pub(super) fn offsets_for_times(
        &mut self,
        partitions: &[TopicPartition],
        since: Timestamp,
    ) -> Result<Vec<Option<Offset>>> {
        // Negative numbers have other meanings.
        let found = self.offsets(partitions, since.0.max(0), ReadCommitted)?;
        let some = |offset: Offset| (offset.0 >= 0).then_some(offset);
        Ok(found.into_iter().map(some).collect())
    }

    fn offsets(
        &mut self,
        partitions: &[TopicPartition],
        timestamp: i64,
        isolation: IsolationLevel,
    ) -> Result<Vec<Offset>> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        self.until_ready(|call| call.list_offsets(partitions, timestamp, isolation))
    }

    fn list_offsets(
        &mut self,
        partitions: &[TopicPartition],
        timestamp: i64,
        isolation: IsolationLevel,
    ) -> Result<Vec<Offset>> {
        let mut found = BTreeMap::new();
        for (leader, topics) in self.leaders(partitions)? {
            self.ask_leader(leader, &topics, timestamp, isolation, &mut found)?;
        }
        let offset_of = |p: &TopicPartition| {
            let offset = found.get(&(p.topic.to_string(), p.partition.0));
            offset
                .copied()
                .ok_or_else(|| self.not_yet("a partition is missing in the answer", Some(&p.topic)))
        };
        partitions.iter().map(offset_of).collect()
    }

    fn ask_leader(
        &mut self,
        leader: Node,
        topics: &Topics<'_>,
        timestamp: i64,
        isolation: IsolationLevel,
        found: &mut BTreeMap<(String, i32), Offset>,
    ) -> Result<()> {
        let of_partition = |index: &i32| {
            ListOffsetsPartition::default()
                .with_partition_index(*index)
                .with_timestamp(timestamp)
        };
        let of_topic = |(name, partitions): (&&str, &std::collections::BTreeSet<i32>)| {
            ListOffsetsTopic::default()
                .with_name(topic_name(name))
                .with_partitions(partitions.iter().map(of_partition).collect())
        };
        let request = ListOffsetsRequest::default()
            // A client, not a follower.
            .with_replica_id(BrokerId(-1))
            .with_isolation_level(isolation as i8)
            .with_topics(topics.iter().map(of_topic).collect())
            .with_timeout_ms(self.millis());
        let answer = self.ask(leader, ANSWER_TIMEOUT, |_| request)?;
        for topic in answer.topics {
            let name = &*topic.name.0;
            for partition in topic.partitions {
                let index = partition.partition_index;
                match partition.error_code {
                    0 => {}
                    // It existed when the leaders were requested: this broker doesn't know it yet, or it
                    // is moving.
                    UNKNOWN_TOPIC_OR_PARTITION => {
                        let said = format!("partition {index} is unknown to broker {leader}");
                        return Err(self.not_yet(&said, Some(name)));
                    }
                    code => {
                        return Err(self.fail(code, &format!("partition {index}"), Some(name)));
                    }
                }
                found.insert((name.to_owned(), index), Offset(partition.offset));
            }
        }
        Ok(())
    }
}
