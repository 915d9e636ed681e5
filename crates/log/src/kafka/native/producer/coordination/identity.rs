//! Whose epoch of an id it is.
//!
//! Takes an id over, asks for the next epoch of it, and finds out whether somebody newer has it. Owns
//! nothing: what the broker said becomes the identity of [`Coordination`].

use super::{Coordination, CoordinatorAnswer, LONGEST_PAUSE, PAUSE};
use crate::kafka::native::error_class::{ErrorClass, PRODUCER_FENCED, classify, named};
use crate::kafka::native::net::cluster::CoordinatorType;
use crate::kafka::native::net::connection_error::ConnectionError;
use crate::kafka::native::records::batch_writer::Identity;
use kafka_protocol::messages::{InitProducerIdRequest, ProducerId};
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Result};

/// Whoever is taking an id over, and was told to come again, has done so by then.
const NEWCOMER: Duration = Duration::from_millis(600);

impl Coordination {
    /// Takes the id over, or with an identity of one's own asks for the next epoch of it.
    pub(in crate::kafka::native) fn init_producer_id(
        &mut self,
        own: Identity,
        timeout: Duration,
    ) -> Result<()> {
        let id = self.id.clone();
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(self.id()))
            .with_transaction_timeout_ms(
                i32::try_from(self.silence.as_millis()).unwrap_or(i32::MAX),
            )
            .with_producer_id(ProducerId(own.id))
            .with_producer_epoch(own.epoch);
        let seat = (CoordinatorType::Transaction, id.as_str());
        match self.ask(seat, 5, &request, |a| a.error_code, timeout) {
            CoordinatorAnswer::Done(answer) => {
                self.identity = Identity {
                    id: answer.producer_id.0,
                    epoch: answer.producer_epoch,
                };
                // What was sent in an epoch before is refused, whenever it comes.
                self.unanswered = false;
                Ok(())
            }
            CoordinatorAnswer::Code { code, .. } => Err(match classify(code) {
                // An epoch that the broker does not know as ours is somebody's who came later.
                ErrorClass::Outdated | ErrorClass::Fenced => self.refused(
                    PRODUCER_FENCED,
                    "its epoch is outdated",
                    "opening the producer",
                ),
                _ => self.refused(code, "refused", "opening the producer"),
            }),
            CoordinatorAnswer::Silence { last, .. } => {
                Err(self.silent(&last, "opening the producer"))
            }
        }
    }

    /// Asks anybody for an identity that is nobody's yet: for what belongs to no transaction.
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

    /// Takes the next epoch of the id, and once more in a moment. Whoever is just taking it over has only
    /// ended our transaction when it is told to come again, and until it does we are not fenced.
    fn prove(&mut self, timeout: Duration) -> Result<()> {
        self.init_producer_id(self.identity, timeout)?;
        self.prove_again(timeout)
    }

    /// The second half, for who has the next epoch already.
    pub(in crate::kafka::native) fn prove_again(&mut self, timeout: Duration) -> Result<()> {
        let clock = self.cluster.stopwatch();
        loop {
            let left = NEWCOMER.saturating_sub(clock.elapsed());
            if left.is_zero() {
                return self.init_producer_id(self.identity, timeout);
            }
            self.cluster.pause(left);
        }
    }

    /// Somebody knows a newer epoch than ours: of a newer writer, or of the broker, which has ended a
    /// transaction that took too long. Whoever is fenced is told so when it asks for the next epoch of its
    /// own; the other one has it then.
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
            "{what}: the broker at {} gave the transaction of '{}' up, which took too long ({:?})",
            self.address,
            self.id,
            named(code)
        ))
        .hint("start again: nothing of it is visible, and its records are read again")
    }
}
