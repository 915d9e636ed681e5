//! Fetch requests, and what their answers contain for each partition.
//!
//! Takes positions, returns a request; takes the answer for a partition, returns its outcome. Pure: the
//! reader decides which broker is asked, and when.

use crate::kafka::native::error_class::{CORRUPT, ErrorClass, UNKNOWN_SERVER_ERROR, classify};
use crate::kafka::native::records::batch_reader::Aborted;
use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{BrokerId, FetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

#[cfg(test)]
mod tests;

/// The first version that names topics by their ids (KIP-516, Kafka 3.1), and the newest one in use. A
/// topic that was deleted and created again has another id: its records can't be mistaken for those of
/// the old one.
const BY_ID: i16 = 13;
/// The newest version that names topics by their names. Every broker since 0.11 supports an earlier one,
/// at least.
const BY_NAME: i16 = 12;
/// The first version with the last fetched epoch.
const SEEN: i16 = 12;
/// The first version with the reader's rack (KIP-392).
const RACK: i16 = 11;
/// Isolation level `read_committed`.
const COMMITTED: i8 = 1;

/// Maximum sizes of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct FetchLimits {
    pub all: usize,
    /// Per partition.
    pub each: usize,
}

/// A partition to fetch.
#[derive(Clone, Debug)]
pub(in crate::kafka::native) struct FetchTarget {
    pub topic: Arc<str>,
    /// 0 if the broker has none.
    pub topic_id: u128,
    pub partition: i32,
    pub from: i64,
    /// The leader epoch that we know for the partition.
    pub leader_epoch: i32,
    /// The leader epoch of the last record that we have: a leader that never had such records answers
    /// with a diverging epoch.
    pub seen_epoch: i32,
}

/// The newest version in which these partitions can be requested.
pub(in crate::kafka::native) fn newest_version(wanted: &[FetchTarget]) -> i16 {
    if wanted.iter().all(|wanted| wanted.topic_id != 0) {
        BY_ID
    } else {
        BY_NAME
    }
}

/// Builds the request, with partitions in the order in which the broker shall fill its answer.
pub(in crate::kafka::native) fn request(
    wanted: &[FetchTarget],
    fetch_limits: FetchLimits,
    wait: Duration,
    (version, rack): (i16, &StrBytes),
) -> FetchRequest {
    let size = |bytes: usize| i32::try_from(bytes).unwrap_or(i32::MAX);
    let partition = |wanted: &FetchTarget| {
        FetchPartition::default()
            .with_partition(wanted.partition)
            .with_current_leader_epoch(wanted.leader_epoch)
            .with_fetch_offset(wanted.from)
            .with_last_fetched_epoch(if version >= SEEN {
                wanted.seen_epoch
            } else {
                -1
            })
            .with_partition_max_bytes(size(fetch_limits.each))
    };
    let topics = wanted.chunk_by(|a, b| a.topic == b.topic).map(|of_topic| {
        let topic = FetchTopic::default().with_partitions(of_topic.iter().map(partition).collect());
        if version >= BY_ID {
            topic.with_topic_id(Uuid::from_u128(of_topic[0].topic_id))
        } else {
            let name = StrBytes::from_string(of_topic[0].topic.to_string());
            topic.with_topic(TopicName::from(name))
        }
    });
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(i32::try_from(wait.as_millis()).unwrap_or(i32::MAX))
        .with_min_bytes(1)
        .with_max_bytes(size(fetch_limits.all))
        .with_isolation_level(COMMITTED)
        .with_rack_id(if version >= RACK {
            rack.clone()
        } else {
            StrBytes::default()
        })
        .with_topics(topics.collect())
}

/// The outcome of a fetch for one partition.
#[derive(Debug)]
pub(in crate::kafka::native) enum FetchOutcome {
    /// Records up to the first open transaction, or to the end.
    Came {
        stable_end: i64,
        records: Bytes,
        aborted: Vec<Aborted>,
    },
    /// A replica on a nearer broker has them too (`client.rack`).
    Nearer(i32),
    /// This leader lacks records that we have read: they were lost with the previous leader.
    Diverged { from: i64 },
    /// Not here, or not yet: retry.
    NotYet(i16),
    /// A retry won't help.
    Refused(i16),
}

pub(in crate::kafka::native) fn said(of: PartitionData) -> FetchOutcome {
    /// The leader doesn't know the start of its epoch yet.
    const OFFSET_NOT_AVAILABLE: i16 = 78;
    match (of.error_code, classify(of.error_code)) {
        (0, _) if of.diverging_epoch.epoch >= 0 => FetchOutcome::Diverged {
            from: of.diverging_epoch.end_offset,
        },
        (0, _) if of.preferred_read_replica.0 >= 0 => {
            FetchOutcome::Nearer(of.preferred_read_replica.0)
        }
        (0, _) => FetchOutcome::Came {
            stable_end: if of.last_stable_offset >= 0 {
                of.last_stable_offset
            } else {
                of.high_watermark
            },
            records: of.records.unwrap_or_default(),
            aborted: (of.aborted_transactions.unwrap_or_default().iter())
                .map(|a| Aborted {
                    producer: a.producer_id.0,
                    first: a.first_offset,
                })
                .collect(),
        },
        // When it is sent, it may be repeated; in the log, corruption stays.
        (CORRUPT, _) => FetchOutcome::Refused(CORRUPT),
        (code, ErrorClass::Again) | (code @ (OFFSET_NOT_AVAILABLE | UNKNOWN_SERVER_ERROR), _) => {
            FetchOutcome::NotYet(code)
        }
        (code, _) => FetchOutcome::Refused(code),
    }
}
