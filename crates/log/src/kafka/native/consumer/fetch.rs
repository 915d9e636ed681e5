//! The question for records, and what its answer says of each partition.
//!
//! Takes positions, gives a request; takes an answer, gives what came. Pure: who is asked, and
//! when, is the reader's.

use crate::kafka::native::error_class::{CORRUPT, ErrorClass, UNKNOWN_SERVER_ERROR, classify};
use crate::kafka::native::records::batch_reader::Aborted;
use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::{BrokerId, FetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// The newest version that names topics by their names. Every broker since 0.11 understands one of
/// those before.
pub(in crate::kafka::native) const FETCH: i16 = 12;
/// The first in which a broker is told what the reader has seen last.
const SEEN: i16 = 12;
/// The first in which a reader says where it runs (KIP-392).
const RACK: i16 = 11;
/// Only what was committed.
const COMMITTED: i8 = 1;

/// How much is asked for at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kafka) struct FetchLimits {
    pub all: usize,
    /// Of one partition.
    pub each: usize,
}

/// A partition that is asked for.
#[derive(Clone, Debug)]
pub(in crate::kafka::native) struct FetchTarget {
    pub topic: Arc<str>,
    pub partition: i32,
    pub from: i64,
    /// Whom we take for its leader, by the number of its election.
    pub leader_epoch: i32,
    /// Under which leader the last record was written that we have: one that never heard of it says so.
    pub seen_epoch: i32,
}

/// The request, for partitions in the order in which the broker shall fill its answer.
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
        let name = StrBytes::from_string(of_topic[0].topic.to_string());
        FetchTopic::default()
            .with_topic(TopicName::from(name))
            .with_partitions(of_topic.iter().map(partition).collect())
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

/// What was said of a partition.
#[derive(Debug)]
pub(in crate::kafka::native) enum FetchOutcome {
    /// Records up to where the next transaction is open, or to the end.
    Came {
        stable_end: i64,
        records: Bytes,
        aborted: Vec<Aborted>,
    },
    /// A replica that is nearer has it too (`client.rack`).
    Nearer(i32),
    /// What we have read is not what this leader has: records were lost with the one before.
    Diverged { from: i64 },
    /// Not here, or not yet.
    NotYet(i16),
    /// It will not be given.
    Refused(i16),
}

pub(in crate::kafka::native) fn said(of: PartitionData) -> FetchOutcome {
    /// Its first offsets are not known to the leader yet.
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
        // On its way to a broker it may be sent again; in its log it stays.
        (CORRUPT, _) => FetchOutcome::Refused(CORRUPT),
        (code, ErrorClass::Again) | (code @ (OFFSET_NOT_AVAILABLE | UNKNOWN_SERVER_ERROR), _) => {
            FetchOutcome::NotYet(code)
        }
        (code, _) => FetchOutcome::Refused(code),
    }
}
