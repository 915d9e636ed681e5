//! A transactional id: its producer id and epoch, and its open transaction.

use super::{Kept, Part};
use crate::kafka::native::records::batch_writer::Identity;
use kafka_protocol::messages::describe_transactions_response::TransactionState;
use kafka_protocol::messages::{
    ApiKey, DescribeTransactionsRequest, DescribeTransactionsResponse, ProducerId,
};
use kafka_protocol::protocol::StrBytes;
use std::collections::{BTreeMap, BTreeSet};

/// When epochs run out, the producer id grows by this.
pub(in crate::kafka::native) const ROLLED: i64 = 100_000;

/// The state of a transactional id.
#[derive(Debug)]
pub(super) struct Id {
    pub now: Identity,
    /// The previous identity, if it was this producer's too.
    pub before: Option<Identity>,
    pub open: bool,
    pub parts: BTreeSet<Part>,
    pub pending: BTreeMap<Part, i64>,
    pub last_end: Option<bool>,
}

impl Id {
    /// The next epoch. After the last one, a new producer id begins.
    pub fn advance(&mut self, same: bool) {
        self.before = same.then_some(self.now);
        self.now = if self.now.epoch >= i16::MAX - 1 {
            Identity {
                id: self.now.id + ROLLED,
                epoch: 0,
            }
        } else {
            Identity {
                epoch: self.now.epoch + 1,
                ..self.now
            }
        };
    }
}

impl Kept {
    pub(super) fn describe_transactions(
        &self,
        request: &DescribeTransactionsRequest,
    ) -> DescribeTransactionsResponse {
        let ids = request.transactional_ids.iter().filter_map(|name| {
            let id = self.ids.get(&*name.0)?;
            let state = match (id.open, id.last_end) {
                (true, _) => "Ongoing",
                (false, Some(true)) => "CompleteCommit",
                (false, Some(false)) => "CompleteAbort",
                (false, None) => "Empty",
            };
            let state = TransactionState::default()
                .with_transactional_id(name.clone())
                .with_transaction_state(StrBytes::from_static_str(state));
            Some(
                state
                    .with_producer_id(ProducerId(id.now.id))
                    .with_producer_epoch(id.now.epoch),
            )
        });
        DescribeTransactionsResponse::default().with_transaction_states(ids.collect())
    }

    pub(in crate::kafka::native) fn is_taken_over(&mut self, request: &[u8]) -> Option<String> {
        let end = (ApiKey::EndTxn as i16).to_be_bytes();
        self.take_over_at_end.take_if(|_| request.starts_with(&end))
    }

    /// A newer producer has taken the id over, and aborted a transaction.
    pub(in crate::kafka::native) fn take_over(&mut self, name: &str) {
        let id = self.ids.get_mut(name).unwrap();
        assert!(!id.open, "it would be aborted first");
        id.advance(false);
        id.last_end = Some(false);
    }

    /// The ids with an open transaction.
    pub(in crate::kafka::native) fn open_ids(&self) -> BTreeSet<String> {
        let open = self.ids.iter().filter(|(_, id)| id.open);
        open.map(|(name, _)| name.clone()).collect()
    }
}
