//! The requests of a transaction: adding partitions and offsets, and ending it.
//!
//! Takes what to add, returns the coordinator's answer, the worst of all partitions. A partition missing
//! in an answer counts as an error.

use super::{Coordination, CoordinatorAnswer, END, END_V2, OFFSETS, OFFSETS_V2};
use crate::CutEntry;
use crate::kafka::native::error_class::UNKNOWN_SERVER_ERROR;
use crate::kafka::native::net::cluster::CoordinatorType;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, EndTxnResponse, GroupId,
    ProducerId, TopicName, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::{Request, StrBytes};
use std::sync::Arc;
use std::time::Duration;

/// The first topic that the coordinator refused with this code.
pub(in crate::kafka::native) fn refused_topic(
    answer: &TxnOffsetCommitResponse,
    code: i16,
) -> Option<&str> {
    let refused = (answer.topics.iter())
        .find(|topic| topic.partitions.iter().any(|p| p.error_code == code))?;
    Some(refused.name.as_str())
}

impl Coordination {
    /// Adds partitions to the transaction; the answer has the first error code and its topic.
    pub(in crate::kafka::native) fn add(
        &mut self,
        parts: &[(Arc<str>, Vec<i32>)],
        timeout: Duration,
    ) -> CoordinatorAnswer<Option<String>> {
        let topics = parts.iter().map(|(name, parts)| {
            AddPartitionsToTxnTopic::default()
                .with_name(TopicName::from(StrBytes::from_string(name.to_string())))
                .with_partitions(parts.clone())
        });
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.id())
            .with_v3_and_below_producer_id(ProducerId(self.identity.id))
            .with_v3_and_below_producer_epoch(self.identity.epoch)
            .with_v3_and_below_topics(topics.collect());
        let id = self.id.clone();
        let asked_for: usize = parts.iter().map(|(_, parts)| parts.len()).sum();
        let worst = |answer: &<AddPartitionsToTxnRequest as Request>::Response| {
            let topics = answer.results_by_topic_v3_and_below.iter();
            let codes = topics.flat_map(|t| {
                (t.results_by_partition.iter())
                    .map(|p| (t.name.0.to_string(), p.partition_error_code))
            });
            // A refused partition is more telling than those that were not attempted because of it (55).
            let bad: Vec<_> = codes.filter(|(_, code)| *code != 0).collect();
            let telling = bad.iter().find(|(_, code)| *code != 55).or(bad.first());
            let results = answer.results_by_topic_v3_and_below.iter();
            let said: usize = results.map(|t| t.results_by_partition.len()).sum();
            let left_out = (said < asked_for).then(|| (String::new(), UNKNOWN_SERVER_ERROR));
            telling.cloned().or(left_out)
        };
        let asked = self.ask(
            (CoordinatorType::Transaction, &id),
            3,
            &request,
            |answer| worst(answer).map_or(0, |(_, code)| code),
            timeout,
        );
        self.known_open |= matches!(asked, CoordinatorAnswer::Done(_));
        asked.map(|answer| worst(&answer).map(|(topic, _)| topic))
    }

    /// Adds positions of a group to the transaction.
    pub(in crate::kafka::native) fn offsets(
        &mut self,
        group: &str,
        cut: &[CutEntry],
        timeout: Duration,
    ) -> CoordinatorAnswer<TxnOffsetCommitResponse> {
        let clock = self.cluster.stopwatch();
        let group_id = || GroupId::from(StrBytes::from_string(group.to_owned()));
        if !self.transactions_v2 {
            let request = AddOffsetsToTxnRequest::default()
                .with_transactional_id(self.id())
                .with_producer_id(ProducerId(self.identity.id))
                .with_producer_epoch(self.identity.epoch)
                .with_group_id(group_id());
            let id = self.id.clone();
            let coordinator = (CoordinatorType::Transaction, id.as_str());
            let added = self.ask(coordinator, 3, &request, |a| a.error_code, timeout);
            if !matches!(added, CoordinatorAnswer::Done(_)) {
                return added.map(|_| TxnOffsetCommitResponse::default());
            }
            self.known_open = true;
        }
        let mut topics: Vec<TxnOffsetCommitRequestTopic> = Vec::new();
        for entry in cut {
            let part = TxnOffsetCommitRequestPartition::default()
                .with_partition_index(entry.partition.partition.0)
                .with_committed_offset(entry.offset.0)
                .with_committed_metadata(Some(StrBytes::from_string(entry.metadata.clone())));
            match topics.last_mut() {
                Some(topic) if *topic.name.0 == *entry.partition.topic => {
                    topic.partitions.push(part)
                }
                _ => {
                    let name = StrBytes::from_string(entry.partition.topic.to_string());
                    topics.push(
                        TxnOffsetCommitRequestTopic::default()
                            .with_name(TopicName::from(name))
                            .with_partitions(vec![part]),
                    );
                }
            }
        }
        // The default leader epoch -1 means unknown; a group without members has no generation.
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(self.id())
            .with_group_id(group_id())
            .with_producer_id(ProducerId(self.identity.id))
            .with_producer_epoch(self.identity.epoch)
            .with_generation_id(-1)
            .with_topics(topics);
        let most = if self.transactions_v2 {
            OFFSETS_V2
        } else {
            OFFSETS
        };
        let left = timeout.saturating_sub(clock.elapsed());
        let worst = |answer: &TxnOffsetCommitResponse| {
            let codes = || {
                let parts = answer.topics.iter().flat_map(|t| &t.partitions);
                parts.map(|p| p.error_code)
            };
            let left_out = codes().count() < cut.len();
            let fine = if left_out { UNKNOWN_SERVER_ERROR } else { 0 };
            codes().find(|code| *code != 0).unwrap_or(fine)
        };
        self.ask((CoordinatorType::Group, group), most, &request, worst, left)
    }

    /// Ends the transaction.
    pub(in crate::kafka::native) fn end(
        &mut self,
        committed: bool,
        timeout: Duration,
    ) -> CoordinatorAnswer<EndTxnResponse> {
        let request = EndTxnRequest::default()
            .with_transactional_id(self.id())
            .with_producer_id(ProducerId(self.identity.id))
            .with_producer_epoch(self.identity.epoch)
            .with_committed(committed);
        let most = if self.transactions_v2 { END_V2 } else { END };
        let id = self.id.clone();
        let coordinator = (CoordinatorType::Transaction, id.as_str());
        let ended = self.ask(coordinator, most, &request, |a| a.error_code, timeout);
        let refused = matches!(
            ended,
            CoordinatorAnswer::Code {
                maybe_applied: false,
                maybe_begun: false,
                ..
            }
        );
        self.known_open &= refused;
        ended
    }
}
