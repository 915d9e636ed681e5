//! Where the records of a leader epoch end (KIP-320).
//!
//! Takes partitions, each with an epoch; returns the end that the current leader has for it. Asks every
//! leader once. A broker from before 2.3 doesn't know this version of the request: then the end is
//! unknown.

use super::{ANSWER_TIMEOUT, Call, topic_name};
use crate::kafka::native::error_class::{UNKNOWN_TOPIC_OR_PARTITION, named};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{BrokerId, OffsetForLeaderEpochRequest};
use rdkafka::types::RDKafkaErrorCode as Code;
use std::collections::BTreeMap;
use stoatflow_core::{Offset, Result, TopicPartition};

/// The first version that is meant for clients.
const CLIENTS: i16 = 3;

impl Call<'_> {
    pub(super) fn epoch_ends(
        &mut self,
        asked: &[(TopicPartition, i32)],
    ) -> Result<Vec<Option<Offset>>> {
        let partitions: Vec<_> = asked.iter().map(|(p, _)| p.clone()).collect();
        let epochs: BTreeMap<(&str, i32), i32> = (asked.iter())
            .map(|(p, epoch)| ((&*p.topic, p.partition.0), *epoch))
            .collect();
        let mut found = BTreeMap::new();
        for (leader, topics) in self.leaders(&partitions)? {
            let topics = topics.into_iter().map(|(name, indexes)| {
                let partition = |index: i32| {
                    OffsetForLeaderPartition::default()
                        .with_partition(index)
                        .with_current_leader_epoch(-1)
                        .with_leader_epoch(epochs[&(name, index)])
                };
                OffsetForLeaderTopic::default()
                    .with_topic(topic_name(name))
                    .with_partitions(indexes.into_iter().map(partition).collect())
            });
            let request = OffsetForLeaderEpochRequest::default()
                // A client, not a follower.
                .with_replica_id(BrokerId(-1))
                .with_topics(topics.collect());
            let known = self.ask_from(leader, CLIENTS, ANSWER_TIMEOUT, |_| request)?;
            let Some(answer) = known else {
                continue;
            };
            for topic in answer.topics {
                let name = &*topic.topic.0;
                for of in topic.partitions {
                    let index = of.partition;
                    match of.error_code {
                        0 => {}
                        UNKNOWN_TOPIC_OR_PARTITION => {
                            let said = format!("partition {index} is unknown to broker {leader}");
                            return Err(self.not_yet(&said, Some(name)));
                        }
                        code if named(code) == Code::UnsupportedForMessageFormat => continue,
                        code => {
                            return Err(self.fail(code, &format!("partition {index}"), Some(name)));
                        }
                    }
                    // Without an end offset, the leader doesn't know the epoch.
                    if of.end_offset >= 0 {
                        found.insert((name.to_owned(), index), Offset(of.end_offset));
                    }
                }
            }
        }
        let of = |p: &TopicPartition| found.get(&(p.topic.to_string(), p.partition.0)).copied();
        Ok(partitions.iter().map(of).collect())
    }
}
