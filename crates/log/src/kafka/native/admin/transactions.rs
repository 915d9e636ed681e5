//! The open transactions of partitions (KIP-664).
//!
//! Takes partitions, returns the oldest open transaction of each. Asks every leader once. A broker from
//! before 2.8 doesn't know the request.

use super::{ANSWER_TIMEOUT, Call, topic_name};
use crate::OpenTransaction;
use kafka_protocol::messages::DescribeProducersRequest;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use std::collections::BTreeMap;
use stoatflow_core::{Offset, Result, Timestamp, TopicPartition};

impl Call<'_> {
    /// The oldest open transaction of each partition, in the order asked.
    pub(super) fn open_transactions(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Option<OpenTransaction>>> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let mut found: BTreeMap<(String, i32), OpenTransaction> = BTreeMap::new();
        for (leader, topics) in self.leaders(partitions)? {
            let topics = topics.into_iter().map(|(name, partitions)| {
                TopicRequest::default()
                    .with_name(topic_name(name))
                    .with_partition_indexes(partitions.into_iter().collect())
            });
            let request = DescribeProducersRequest::default().with_topics(topics.collect());
            let answer = self.ask(leader, ANSWER_TIMEOUT, |_| request)?;
            for topic in answer.topics {
                let name = &*topic.name.0;
                for partition in topic.partitions {
                    let index = partition.partition_index;
                    if partition.error_code != 0 {
                        let said = format!("partition {index}");
                        return Err(self.fail(partition.error_code, &said, Some(name)));
                    }
                    let producers = partition.active_producers.iter();
                    let open = producers.filter(|p| p.current_txn_start_offset >= 0);
                    if let Some(first) = open.min_by_key(|p| p.current_txn_start_offset) {
                        let open = OpenTransaction {
                            producer: first.producer_id.0,
                            epoch: first.producer_epoch,
                            start: Offset(first.current_txn_start_offset),
                            last: Timestamp(first.last_timestamp),
                        };
                        found.insert((name.to_owned(), index), open);
                    }
                }
            }
        }
        let of = |p: &TopicPartition| found.get(&(p.topic.to_string(), p.partition.0)).copied();
        Ok(partitions.iter().map(of).collect())
    }
}
