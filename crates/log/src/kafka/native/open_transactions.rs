//! Who has a transaction open in a partition (KIP-664).
//!
//! Takes partitions, gives of each the oldest open transaction. Asks the leaders, once. A broker from before 2.8
//! doesn't know the question.

use crate::OpenTransaction;
use crate::kafka::native::error_class::named;
use crate::kafka::native::net::cluster::{Cluster, Node, version_for};
use crate::kafka::native::net::connection_error::ConnectionError;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::{DescribeProducersRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Offset, SystemClock, Timestamp, TopicPartition};

/// Of each partition, in the order asked, the open transaction that began first.
pub(super) fn open_transactions(
    mut cluster: Cluster,
    partitions: &[TopicPartition],
    timeout: Duration,
) -> Result<Vec<Option<OpenTransaction>>, ConnectionError> {
    let clock = SystemClock::new();
    let left = || timeout.saturating_sub(clock.monotonic());
    let mut names: Vec<Arc<str>> = partitions.iter().map(|p| Arc::clone(&p.topic)).collect();
    names.sort_unstable();
    names.dedup();
    let metadata = cluster.metadata(&names, left())?;
    let mut leaders: BTreeMap<Node, BTreeMap<&str, Vec<i32>>> = BTreeMap::new();
    for partition in partitions {
        let topics = metadata.topics.iter();
        let leader = topics
            .filter(|t| t.name.as_ref().is_some_and(|n| *n.0 == *partition.topic))
            .flat_map(|t| &t.partitions)
            .find(|p| p.partition_index == partition.partition.0)
            .map(|p| p.leader_id.0);
        if let Some(leader) = leader.filter(|leader| *leader >= 0) {
            let topics = leaders.entry(leader).or_default();
            let of_topic = topics.entry(&partition.topic).or_default();
            of_topic.push(partition.partition.0);
        }
    }
    let mut found: BTreeMap<(String, i32), OpenTransaction> = BTreeMap::new();
    for (leader, topics) in leaders {
        let topics = topics.into_iter().map(|(name, partitions)| {
            TopicRequest::default()
                .with_name(TopicName::from(StrBytes::from_string(name.to_owned())))
                .with_partition_indexes(partitions)
        });
        let request = DescribeProducersRequest::default().with_topics(topics.collect());
        let link = cluster.control(leader, left())?;
        let version = version_for::<DescribeProducersRequest>(link, 0)?;
        let answer = link.call(version, &request, left())?;
        for topic in answer.topics {
            for partition in topic.partitions {
                if partition.error_code != 0 {
                    let code = named(partition.error_code);
                    return Err(ConnectionError::lost(format!(
                        "{}: {code:?}",
                        &*topic.name.0
                    )));
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
                    found.insert((topic.name.to_string(), partition.partition_index), open);
                }
            }
        }
    }
    let mut of = |p: &TopicPartition| found.remove(&(p.topic.to_string(), p.partition.0));
    Ok(partitions.iter().map(&mut of).collect())
}
