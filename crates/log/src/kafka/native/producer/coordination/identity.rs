//! Producer ids and epochs.
//!
//! Takes over a transactional id, requests its next epoch, and finds out whether a newer producer has
//! it. Owns nothing: the broker's answer becomes the identity of [`Coordination`].

use super::{COMPLETE_ABORT, Coordination, CoordinatorAnswer, LONGEST_PAUSE, ONGOING, PAUSE};
use crate::kafka::native::error_class::{ErrorClass, PRODUCER_FENCED, classify, named};
use crate::kafka::native::net::cluster::CoordinatorType;
use crate::kafka::native::net::connection_error::ConnectionError;
use crate::kafka::native::records::batch_writer::Identity;
use kafka_protocol::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, InitProducerIdRequest, ProducerId,
};
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Result};

/// A producer that is taking the id over, and was asked to retry, has done so after this time.
const TAKEOVER_RETRY_WINDOW: Duration = Duration::from_millis(600);

/// What the coordinator knows of a transactional id.
#[derive(Debug, Clone, Copy)]
struct TransactionState {
    identity: Identity,
    is_ongoing: bool,
    is_aborted: bool,
}

impl Coordination {
    /// Takes over the id, or requests its next epoch if there is an identity already.
    pub(in crate::kafka::native) fn init_producer_id(
        &mut self,
        own: Identity,
        timeout: Duration,
    ) -> Result<()> {
        let clock = self.cluster.stopwatch();
        if own != Identity::NONE {
            let state = self.transaction_state(timeout / 2);
            // Requesting the next epoch would abort the transaction of a newer producer, and fence that
            // one as well: the coordinator compares the epochs only afterwards.
            if state.is_some_and(|s| s.is_ongoing && s.identity != own) {
                return Err(self.outdated());
            }
        }
        self.next_epoch(own, timeout.saturating_sub(clock.elapsed()))
    }

    fn next_epoch(&mut self, own: Identity, timeout: Duration) -> Result<()> {
        let clock = self.cluster.stopwatch();
        let id = self.id.clone();
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(self.id()))
            .with_transaction_timeout_ms(
                i32::try_from(self.silence.as_millis()).unwrap_or(i32::MAX),
            )
            .with_producer_id(ProducerId(own.id))
            .with_producer_epoch(own.epoch);
        let coordinator = (CoordinatorType::Transaction, id.as_str());
        match self.ask(coordinator, 5, &request, |a| a.error_code, timeout) {
            CoordinatorAnswer::Done(answer) => {
                self.identity = Identity {
                    id: answer.producer_id.0,
                    epoch: answer.producer_epoch,
                };
                // A request of an earlier epoch is refused, whenever it arrives.
                self.unanswered = false;
                self.known_open = false;
                Ok(())
            }
            CoordinatorAnswer::Code { code, .. } => match classify(code) {
                ErrorClass::Outdated | ErrorClass::Fenced => {
                    let left = timeout.saturating_sub(clock.elapsed());
                    match self.epoch_of_timed_out_transaction(own, left / 2) {
                        Some(epoch) => self.next_epoch(Identity { epoch, ..own }, left / 2),
                        // It was replaced by a newer producer's.
                        None => Err(self.outdated()),
                    }
                }
                _ => Err(self.refused(code, "refused", "opening the producer")),
            },
            CoordinatorAnswer::Silence { last, .. } => {
                Err(self.silent(&last, "opening the producer"))
            }
        }
    }

    /// The epoch in which a coordinator before Kafka 4.0 has aborted our transaction, because it took too
    /// long: the next one, which it doesn't give to a producer. An epoch that a newer producer has got looks
    /// the same once that producer has aborted a transaction; but no producer gets the epoch after ours
    /// while a transaction of ours is open, as the coordinator aborts that first, in this epoch.
    fn epoch_of_timed_out_transaction(&mut self, own: Identity, timeout: Duration) -> Option<i16> {
        // Only once, and only for the transaction that was open.
        if !std::mem::take(&mut self.known_open) {
            return None;
        }
        let next = own.epoch.checked_add(1)?;
        let aborted = Identity { epoch: next, ..own };
        let state = self.transaction_state(timeout)?;
        (state.is_aborted && state.identity == aborted).then_some(next)
    }

    /// The state of the id; none without an answer, and from brokers before 3.0.
    fn transaction_state(&mut self, timeout: Duration) -> Option<TransactionState> {
        let id = self.id.clone();
        let request =
            DescribeTransactionsRequest::default().with_transactional_ids(vec![self.id()]);
        let code = |answer: &DescribeTransactionsResponse| {
            answer
                .transaction_states
                .first()
                .map_or(0, |s| s.error_code)
        };
        let coordinator = (CoordinatorType::Transaction, id.as_str());
        let CoordinatorAnswer::Done(answer) = self.ask(coordinator, 0, &request, code, timeout)
        else {
            return None;
        };
        answer.transaction_states.first().map(|s| TransactionState {
            identity: Identity {
                id: s.producer_id.0,
                epoch: s.producer_epoch,
            },
            is_ongoing: s.transaction_state.as_str() == ONGOING,
            is_aborted: s.transaction_state.as_str() == COMPLETE_ABORT,
        })
    }

    fn outdated(&self) -> Error {
        self.refused(
            PRODUCER_FENCED,
            "its epoch is outdated",
            "opening the producer",
        )
    }

    /// Requests a new producer id from any broker, for records outside of transactions.
    pub(in crate::kafka::native) fn init_idempotent_id(&mut self, timeout: Duration) -> Result<()> {
        let what = "opening the producer";
        let clock = self.cluster.stopwatch();
        let mut pause = PAUSE;
        loop {
            let left = timeout.saturating_sub(clock.elapsed());
            let request = |_| InitProducerIdRequest::default().with_transactional_id(None);
            let most = left.min(self.request_timeout);
            let last = match self.cluster.ask_anyone(5, request, most) {
                Ok((answer, _)) if answer.error_code == 0 => {
                    let (id, epoch) = (answer.producer_id.0, answer.producer_epoch);
                    self.identity = Identity { id, epoch };
                    return Ok(());
                }
                Ok((answer, _)) => match classify(answer.error_code) {
                    ErrorClass::Again | ErrorClass::Ending => {
                        ConnectionError::lost(format!("{:?}", named(answer.error_code)))
                    }
                    _ => return Err(self.refused(answer.error_code, "refused", what)),
                },
                Err(why) => why,
            };
            let left = timeout.saturating_sub(clock.elapsed());
            if left.is_zero() || last.is_final() {
                return Err(self.silent(&last, what));
            }
            self.cluster.pause(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Requests the next epoch of the id, and again after a moment. A producer that is taking the id
    /// over is first asked to retry, after the broker has ended our transaction; only its retry fences
    /// us.
    fn prove(&mut self, timeout: Duration) -> Result<()> {
        self.init_producer_id(self.identity, timeout)?;
        self.prove_again(timeout)
    }

    /// The second half, if the next epoch was already assigned.
    pub(in crate::kafka::native) fn prove_again(&mut self, timeout: Duration) -> Result<()> {
        let clock = self.cluster.stopwatch();
        loop {
            let left = TAKEOVER_RETRY_WINDOW.saturating_sub(clock.elapsed());
            if left.is_zero() {
                return self.init_producer_id(self.identity, timeout);
            }
            self.cluster.pause(left);
        }
    }

    /// Explains a newer epoch: a newer producer has it, or the broker, which has ended a transaction
    /// that took too long. Requesting the next epoch tells which: a fenced producer is refused,
    /// otherwise it gets the epoch.
    pub(in crate::kafka::native) fn lost(
        &mut self,
        code: i16,
        what: &str,
        timeout: Duration,
    ) -> Error {
        match self.prove(timeout) {
            Err(error) if error.kind() == ErrorKind::Fenced => return error,
            Err(_) if classify(code) == ErrorClass::Fenced => {
                return self.refused(code, "fenced", what);
            }
            _ => {}
        }
        Error::unavailable(format!(
            "{what}: the broker at {} aborted the transaction of '{}', which took longer than transaction.timeout.ms ({:?})",
            self.address,
            self.id,
            named(code)
        ))
        .hint("start again: its records are read again. If it happens again, raise transaction.timeout.ms")
    }
}
