//! What a coordinator remembers of a transactional id, and the markers that leaders write.

use super::{CONTROLLER, Kept};
use kafka_protocol::messages::describe_transactions_response::TransactionState;
use kafka_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;

const TRANSACTIONAL_ID_NOT_FOUND: i16 = 105;

impl Kept {
    pub(super) fn describe_transactions(
        &mut self,
        node: i32,
        _version: i16,
        request: &DescribeTransactionsRequest,
    ) -> DescribeTransactionsResponse {
        assert_eq!(node, CONTROLLER, "the coordinator is asked");
        assert_eq!(request.transactional_ids.len(), 1);
        assert_eq!(&*request.transactional_ids[0].0, "app");
        let code = self.code(ApiKey::DescribeTransactions);
        let state = TransactionState::default()
            .with_error_code(code)
            .with_transactional_id(request.transactional_ids[0].clone());
        let state = match self.transaction {
            _ if code != 0 => state,
            None => state.with_error_code(TRANSACTIONAL_ID_NOT_FOUND),
            Some((name, epoch)) => state
                .with_transaction_state(StrBytes::from_static_str(name))
                .with_producer_id(ProducerId(7))
                .with_producer_epoch(epoch),
        };
        DescribeTransactionsResponse::default().with_transaction_states(vec![state])
    }

    /// Aborts: the coordinator still writes the markers.
    pub(super) fn end_transaction(
        &mut self,
        node: i32,
        version: i16,
        request: &EndTxnRequest,
    ) -> EndTxnResponse {
        assert_eq!((node, version), (CONTROLLER, 5));
        assert_eq!(
            (request.producer_id, request.committed),
            (ProducerId(7), false)
        );
        let code = self.code(ApiKey::EndTxn);
        if code == 0 {
            assert_eq!(self.transaction, Some(("Ongoing", request.producer_epoch)));
            self.transaction = Some(("PrepareAbort", request.producer_epoch + 1));
        }
        EndTxnResponse::default().with_error_code(code)
    }

    pub(super) fn write_markers(
        &mut self,
        node: i32,
        _version: i16,
        request: &WriteTxnMarkersRequest,
    ) -> WriteTxnMarkersResponse {
        let code = self.code(ApiKey::WriteTxnMarkers);
        let markers = request.markers.iter().map(|marker| {
            let topics = marker.topics.iter().map(|topic| {
                let part = |p: &i32| {
                    assert_eq!(node, 1 + p % 2, "its leader is asked");
                    if code == 0 {
                        self.markers.push((
                            marker.producer_id.0,
                            marker.producer_epoch,
                            marker.transaction_result,
                            marker.coordinator_epoch,
                            *p,
                        ));
                    }
                    WritableTxnMarkerPartitionResult::default()
                        .with_partition_index(*p)
                        .with_error_code(code)
                };
                WritableTxnMarkerTopicResult::default()
                    .with_name(topic.name.clone())
                    .with_partitions(topic.partition_indexes.iter().map(part).collect())
            });
            WritableTxnMarkerResult::default()
                .with_producer_id(marker.producer_id)
                .with_topics(topics.collect())
        });
        WriteTxnMarkersResponse::default().with_markers(markers.collect())
    }
}
