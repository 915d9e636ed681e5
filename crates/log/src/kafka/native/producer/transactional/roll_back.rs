//! Aborts a transaction.
//!
//! Waits for requests in flight, so that they arrive before the end of the transaction. If any outcome
//! is unknown, the id gets a new epoch.

use super::{State, TransactionalProducer};
use crate::kafka::native::net::connection_error::ConnectionError;
use crate::kafka::native::producer::accumulator::Accumulator;
use crate::kafka::native::producer::coordination::CoordinatorAnswer;
use crate::kafka::native::producer::sender::{ANSWER_WAIT, SendError};
use std::time::Duration;
use stoatflow_core::Result;

/// How long an abort waits for requests in flight, so that they arrive before it.
const ABORT_DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

impl TransactionalProducer {
    /// Waits until requests in flight have arrived, before the transaction is ended. With an epoch for
    /// each transaction, late requests are refused. Without, a broker before 3.6 could add them to the
    /// next one, so the transaction is not ended as long as they may arrive.
    fn await_in_flight(&mut self, timeout: Duration) -> Result<()> {
        let clock = self.stopwatch();
        let transactions_v2 = self.coordination.transactions_v2;
        let most = if transactions_v2 {
            ABORT_DRAIN_TIMEOUT.min(timeout / 2)
        } else {
            timeout / 4 * 3
        };
        self.doubtful |= self.sender.accumulator.unacknowledged() > 0;
        self.sender.accumulator.drop_certain();
        let waits = |accumulator: &Accumulator| {
            if transactions_v2 {
                accumulator.has_in_flight()
            } else {
                accumulator.is_in_doubt()
            }
        };
        while self.state != State::Fenced
            && waits(&self.sender.accumulator)
            && clock.elapsed() < most
        {
            let driven = (self.sender).drive_for(&mut self.coordination, true, ANSWER_WAIT);
            let Err(trouble) = driven else { continue };
            let away = matches!(trouble, SendError::Away(_));
            self.trouble(trouble);
            self.sender.accumulator.drop_certain();
            if away {
                break;
            }
        }
        let may_come = !transactions_v2 && self.sender.accumulator.is_in_doubt();
        self.drop_all();
        if may_come && self.state != State::Fenced {
            self.give_up();
            let last = ConnectionError::lost("what was sent is not answered, and may still arrive");
            return Err(self.coordination.silent(&last, "aborting the transaction"));
        }
        Ok(())
    }

    /// Aborts the transaction.
    pub(super) fn roll_back(&mut self, timeout: Duration) -> Result<()> {
        let clock = self.stopwatch();
        let left = || timeout.saturating_sub(clock.elapsed());
        self.await_in_flight(timeout)?;
        if self.state == State::Fenced {
            return Err(self.fenced("aborting"));
        }
        if self.coordination.may_be_open_at_coordinator {
            match self.coordination.end(false, left()) {
                CoordinatorAnswer::Done(answer) => self.ended(&answer),
                // The broker has ended it already, or knows of none: a new epoch ends whatever there is.
                CoordinatorAnswer::Code { .. } => self.doubtful = true,
                CoordinatorAnswer::Silence { last, .. } => {
                    self.give_up();
                    return Err(self.coordination.silent(&last, "aborting the transaction"));
                }
            }
        }
        self.finish();
        if self.doubtful {
            self.renew(left())?;
        }
        Ok(())
    }
}
