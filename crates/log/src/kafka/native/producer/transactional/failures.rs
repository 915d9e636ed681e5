//! The consequences of a failure for the transaction, and its error.
//!
//! Takes a code or a send error; decides whether the transaction goes on, can only be aborted, or the
//! producer is fenced. Sends nothing but the request that finds out who owns the id.

use super::{State, TransactionalProducer};
use crate::kafka::errors::error;
use crate::kafka::native::error_class::{ErrorClass, PRODUCER_FENCED, classify, named};
use crate::kafka::native::producer::sender::{SIDE_REQUEST_TIMEOUT, SendError};
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Result};

const AGAIN: &str = "start again: nothing of it is visible, and its records are read again";

impl TransactionalProducer {
    /// A newer producer has the id.
    pub(super) fn stop(&mut self) {
        self.state = State::Fenced;
        self.drop_all();
    }

    pub(super) fn fenced(&self, what: &str) -> Error {
        self.coordination.refused(PRODUCER_FENCED, "fenced", what)
    }

    /// Handles an error code; returns the error.
    pub(super) fn fail_transaction(
        &mut self,
        code: i16,
        said: &str,
        what: &str,
        topic: Option<&str>,
    ) -> Error {
        match classify(code) {
            ErrorClass::Outdated | ErrorClass::Fenced => {
                let error = self.coordination.lost(code, what, SIDE_REQUEST_TIMEOUT);
                if error.kind() == ErrorKind::Fenced {
                    self.stop();
                } else {
                    // The broker has ended it, so there is nothing left to end. The next transaction
                    // requests an epoch again, because the answer with the new one may have been lost.
                    self.drop_all();
                    self.coordination.may_be_open_at_coordinator = false;
                    self.give_up();
                }
                error
            }
            ErrorClass::Lost => {
                self.give_up();
                Error::unavailable(format!(
                    "{what}: the broker at {} aborted the transaction of '{}' ({:?} {said})",
                    self.coordination.address,
                    self.coordination.id,
                    named(code)
                ))
                .hint(AGAIN)
            }
            _ => {
                self.give_up();
                error(named(code), said, self.coordination.doing(what, topic))
            }
        }
    }

    pub(super) fn trouble(&mut self, trouble: SendError) -> Error {
        match trouble {
            SendError::Code {
                code,
                said,
                what,
                topic,
            } => self.fail_transaction(code, &said, what, topic.as_deref()),
            SendError::Fatal(error) | SendError::LostRecords(error) => {
                self.give_up();
                error
            }
            SendError::Away(last) => {
                self.give_up();
                Error::unavailable(format!(
                    "writing: the broker at {} was away for too long, the transaction of '{}' is \
                        lost ({last})",
                    self.coordination.address, self.coordination.id
                ))
                .hint(AGAIN)
            }
        }
    }

    /// The transaction can only be aborted, and it is unknown which of its records arrived.
    pub(super) const fn give_up(&mut self) {
        self.state = State::Lost;
        self.doubtful = true;
    }

    /// Fails unless there is a transaction that can go on.
    pub(super) fn assure(&self) -> Result<()> {
        match self.state {
            State::Open => Ok(()),
            State::Fenced => Err(self.fenced("writing")),
            State::Lost => Err(Error::unavailable(format!(
                "writing: the transaction of '{}' is lost",
                self.coordination.id
            ))),
            State::Idle => Err(Error::internal(
                "nothing may be written outside of a transaction",
            )),
        }
    }

    pub(super) fn unknown(&self, timeout: Duration, cause: Error) -> Error {
        let (address, id) = (&self.coordination.address, &self.coordination.id);
        Error::unknown_outcome(format!(
            "the broker at {address} didn't say within {timeout:?} whether '{id}' is committed"
        ))
        .caused_by(cause)
    }
}
