//! Transactions as partitions and coordinators see them (KIP-664).
//!
//! Takes partitions, returns the oldest open transaction of each; takes transactional ids, ends the last
//! transaction of each and returns how; writes a marker that was lost. A broker from before 2.8 doesn't
//! know the first request.

use super::{ANSWER_TIMEOUT, Call, text, topic_name};
use crate::kafka::native::error_class::{ErrorClass, UNKNOWN_TOPIC_OR_PARTITION, classify};
use crate::kafka::native::net::cluster::CoordinatorType;
use crate::kafka::native::producer::coordination::{ONGOING, TRANSACTIONS_V2};
use crate::{LastTransaction, OpenTransaction, TransactionOutcome};
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::describe_transactions_response::TransactionState;
use kafka_protocol::messages::write_txn_markers_request::{
    WritableTxnMarker, WritableTxnMarkerTopic,
};
use kafka_protocol::messages::{
    DescribeProducersRequest, DescribeTransactionsRequest, EndTxnRequest, ProducerId,
    TransactionalId, WriteTxnMarkersRequest,
};
use std::collections::BTreeMap;
use stoatflow_core::{Error, Offset, Result, Timestamp, TopicPartition};

const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
const TRANSACTIONAL_ID_NOT_FOUND: i16 = 105;
/// The version of WriteTxnMarkers that came with Kafka 4.2. Kafka 4.3 is the first to lose markers.
const MARKERS_OF_4_2: i16 = 2;

impl Call<'_> {
    /// The oldest open transaction of each partition, in the order asked; `None` also where the user may not
    /// read.
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
                    // The user may not read this topic.
                    if partition.error_code == TOPIC_AUTHORIZATION_FAILED {
                        continue;
                    }
                    let said = format!("partition {index}");
                    match partition.error_code {
                        0 => {}
                        // A broker that has just started doesn't know all its partitions yet.
                        UNKNOWN_TOPIC_OR_PARTITION => return Err(self.not_yet(&said, Some(name))),
                        code => return Err(self.fail(code, &said, Some(name))),
                    }
                    let producers = partition.active_producers.iter();
                    let open = producers.filter(|p| p.current_txn_start_offset >= 0);
                    if let Some(first) = open.min_by_key(|p| p.current_txn_start_offset) {
                        let open = OpenTransaction {
                            producer: first.producer_id.0,
                            epoch: first.producer_epoch,
                            start: Offset(first.current_txn_start_offset),
                            last: Timestamp(first.last_timestamp),
                            coordinator_epoch: first.coordinator_epoch,
                        };
                        found.insert((name.to_owned(), index), open);
                    }
                }
            }
        }
        let of = |p: &TopicPartition| found.get(&(p.topic.to_string(), p.partition.0)).copied();
        Ok(partitions.iter().map(of).collect())
    }

    /// Aborts the open transaction of an id, and returns how its last one ended. `None` if there is none,
    /// if its records can't be told from those of earlier ones (without KIP-890 they have the same epoch),
    /// or if the brokers are too old to lose markers.
    pub(super) fn end_last_transaction(&mut self, id: &str) -> Result<Option<LastTransaction>> {
        let most = self.left().min(ANSWER_TIMEOUT);
        let found = (self.cluster).coordinator(CoordinatorType::Transaction, id, most);
        let found = found.map_err(|why| self.unanswered(&why))?;
        let refused = format!("the last transaction of '{id}' is not known");
        let node = found.map_err(|code| self.fail(code, &refused, None))?;
        let link = self.cluster.control(node, most);
        let may_lose = link.map(|link| {
            link.api_versions.transaction_version >= TRANSACTIONS_V2
                && link.api_versions.newest::<WriteTxnMarkersRequest>() >= Some(MARKERS_OF_4_2)
        });
        if !may_lose.map_err(|why| self.unanswered(&why))? {
            return Ok(None);
        }
        let id = TransactionalId::from(text(id));
        let request =
            DescribeTransactionsRequest::default().with_transactional_ids(vec![id.clone()]);
        let answer = self.ask(node, ANSWER_TIMEOUT, |_| request)?;
        let Some(state) = answer.transaction_states.first() else {
            return Err(self.not_yet(&refused, None));
        };
        match state.error_code {
            TRANSACTIONAL_ID_NOT_FOUND => return Ok(None),
            0 => {}
            code => return Err(self.fail(code, &refused, None)),
        }
        if state.transaction_state.as_str() != ONGOING {
            return Ok(last(state));
        }
        let request = EndTxnRequest::default()
            .with_transactional_id(id)
            .with_producer_id(state.producer_id)
            .with_producer_epoch(state.producer_epoch)
            .with_committed(false);
        let ended = self.ask(node, ANSWER_TIMEOUT, |_| request)?;
        match classify(ended.error_code) {
            // Opening the producer aborts it, too.
            ErrorClass::Lost | ErrorClass::Refused => Ok(None),
            // Its state is asked for again. The producer or the coordinator may have ended it meanwhile.
            _ => Err(self.not_yet("an open transaction is being aborted", None)),
        }
    }

    /// Ends an open transaction in one partition.
    pub(super) fn write_marker(
        &mut self,
        partition: &TopicPartition,
        open: &OpenTransaction,
        outcome: TransactionOutcome,
    ) -> Result<()> {
        let epoch = i16::try_from(open.epoch)
            .map_err(|_| Error::internal(format!("the producer epoch {}", open.epoch)))?;
        for (leader, topics) in self.leaders(std::slice::from_ref(partition))? {
            let topics = topics.into_iter().map(|(name, partitions)| {
                WritableTxnMarkerTopic::default()
                    .with_name(topic_name(name))
                    .with_partition_indexes(partitions.into_iter().collect())
            });
            let marker = WritableTxnMarker::default()
                .with_producer_id(ProducerId(open.producer))
                .with_producer_epoch(epoch)
                .with_transaction_result(outcome == TransactionOutcome::Committed)
                .with_coordinator_epoch(open.coordinator_epoch.max(0))
                .with_topics(topics.collect());
            let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
            let answer = self.ask(leader, ANSWER_TIMEOUT, |_| request)?;
            let topics = answer.markers.iter().flat_map(|marker| &marker.topics);
            let mut written = topics.flat_map(|topic| &topic.partitions);
            let said = format!("the marker for {partition} is not written");
            match written.next() {
                Some(written) if written.error_code == 0 => {}
                Some(written) => {
                    return Err(self.fail(written.error_code, &said, Some(&partition.topic)));
                }
                None => return Err(self.not_yet(&said, Some(&partition.topic))),
            }
        }
        Ok(())
    }
}

/// What a coordinator's state says. Ending a transaction raises its epoch by one (KIP-890).
fn last(state: &TransactionState) -> Option<LastTransaction> {
    let outcome = match state.transaction_state.as_str() {
        "PrepareCommit" | "CompleteCommit" => TransactionOutcome::Committed,
        "PrepareAbort" | "CompleteAbort" => TransactionOutcome::Aborted,
        _ => return None,
    };
    Some(LastTransaction {
        producer: state.producer_id.0,
        epoch: i32::from(state.producer_epoch) - 1,
        outcome,
    })
}
