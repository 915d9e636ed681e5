//! The transactional producer, with one thread and one request at a time to each broker.
//!
//! Takes records, offsets and the end of the transaction; returns outcomes. Owns what happens to a
//! transaction after an error. Sends during calls, and has no thread of its own.

mod failures;
mod roll_back;

use crate::kafka::markers::Markers;
use crate::kafka::native::NativeConfig;
use crate::kafka::native::error_class::{ErrorClass, classify, named};
use crate::kafka::native::net::network::Stopwatch;
use crate::kafka::native::producer::coordination::{
    Coordination, CoordinatorAnswer, refused_topic,
};
use crate::kafka::native::producer::sender::{
    ANSWER_WAIT, BLOCKING_REQUEST_TIMEOUT, EAGER_SEND_BYTES, MAX_UNACKNOWLEDGED_BYTES,
    SIDE_REQUEST_TIMEOUT, Sender,
};
use crate::kafka::native::records::batch_writer::Identity;
use crate::kafka::transactional_side::TransactionalSide;
use crate::{CommitOutcome, CutEntry, Producer, ProducerRecord};
use kafka_protocol::messages::EndTxnResponse;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Offset, Partition, Result, Timestamp};

/// Minimum timeout of an abort after a failed commit.
const LEAST: Duration = Duration::from_secs(1);

/// The state of the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between transactions.
    Idle,
    /// In one.
    Open,
    /// In one that can only be aborted.
    Lost,
    /// Fenced: nothing is sent any more.
    Fenced,
}

/// A transactional writer.
#[derive(Debug)]
pub(in crate::kafka) struct TransactionalProducer {
    coordination: Coordination,
    sender: Sender,
    state: State,
    /// Whether a request of this epoch was given up without knowing its outcome.
    doubtful: bool,
    rollovers: u64,
    markers: Markers,
    /// The clock of `markers`.
    started: Stopwatch,
}

impl TransactionalProducer {
    /// Creates a producer for an id; `open` connects it.
    pub(in crate::kafka::native) fn new(
        config: &NativeConfig,
        id: &str,
        silence: Duration,
    ) -> Self {
        Self {
            coordination: Coordination::new(config, id, silence),
            sender: Sender::new(true, config, silence),
            state: State::Idle,
            doubtful: false,
            rollovers: 0,
            markers: Markers::default(),
            started: config.context.stopwatch(),
        }
    }

    /// Takes over its transactional id.
    pub(in crate::kafka) fn open(&mut self, timeout: Duration) -> Result<()> {
        let clock = self.stopwatch();
        self.coordination
            .init_producer_id(Identity::NONE, timeout)?;
        let left = timeout.saturating_sub(clock.elapsed());
        let agreed = self.coordination.negotiate_transaction_version(left);
        agreed.map_err(|why| self.coordination.silent(&why, "opening the producer"))
    }

    fn stopwatch(&self) -> Stopwatch {
        self.coordination.cluster.stopwatch()
    }

    /// Waits until the markers of the last commit are written.
    fn settle_markers(&mut self) {
        let (now, cluster) = (&self.started, &self.coordination.cluster);
        self.markers
            .wait_until_written(|| now.elapsed(), |left| cluster.pause(left));
    }

    fn drive(&mut self, all: bool) -> Result<()> {
        let driven = self.sender.drive(&mut self.coordination, all);
        driven.map_err(|trouble| self.trouble(trouble))
    }

    fn drive_for(&mut self, all: bool, most: Duration) -> Result<()> {
        let driven = (self.sender).drive_for(&mut self.coordination, all, most);
        driven.map_err(|trouble| self.trouble(trouble))
    }

    fn drop_all(&mut self) {
        for node in self.sender.accumulator.in_flight() {
            self.coordination.cluster.disconnect_data(node);
        }
        self.sender.accumulator.clear();
    }

    fn finish(&mut self) {
        self.state = State::Idle;
        self.coordination.may_be_open_at_coordinator = false;
    }

    /// Handles the answer to the end of a transaction: with an epoch for each, it has the identity of
    /// the next one.
    fn ended(&mut self, answer: &EndTxnResponse) {
        if !self.coordination.transactions_v2 {
            // Consecutive transactions have the same epoch: a request without an answer may arrive in a
            // later one, and end it or move its offsets back.
            self.doubtful |= self.coordination.unanswered;
            return;
        }
        let (id, epoch) = (answer.producer_id.0, answer.producer_epoch);
        self.doubtful = id < 0;
        if id >= 0 {
            if id != self.coordination.identity.id {
                tracing::info!(target: "stoatflow::kafka", transactional_id = self.coordination.id, id, "the epochs of the producer have run out; it goes on under a new id");
                self.rollovers += 1;
            }
            self.coordination.identity = Identity { id, epoch };
            self.sender.accumulator.renumber();
        }
    }

    /// Requests the next epoch of the id.
    fn renew(&mut self, timeout: Duration) -> Result<()> {
        let own = self.coordination.identity;
        let renewed = self.coordination.init_producer_id(own, timeout);
        self.handle_new_epoch(renewed)
    }

    /// Handles the answer to a request for the next epoch.
    fn handle_new_epoch(&mut self, renewed: Result<()>) -> Result<()> {
        if let Err(error) = renewed {
            if error.kind() == ErrorKind::Fenced {
                self.stop();
            } else {
                self.give_up();
            }
            return Err(error);
        }
        self.sender.accumulator.renumber();
        self.doubtful = false;
        Ok(())
    }
}

impl Producer for TransactionalProducer {
    fn sends_are_fenced(&self) -> bool {
        true
    }

    fn begin(&mut self) -> Result<()> {
        match self.state {
            State::Fenced => return Err(self.fenced("beginning a transaction")),
            State::Open => return Err(Error::internal("a transaction is open already")),
            State::Idle | State::Lost => {}
        }
        if self.state == State::Lost {
            self.roll_back(BLOCKING_REQUEST_TIMEOUT)?;
        }
        if self.doubtful {
            self.renew(BLOCKING_REQUEST_TIMEOUT)?;
        }
        // Brokers that have been upgraded report their new transaction version on a new connection.
        // Without a connection the version stays.
        let _reached = self
            .coordination
            .negotiate_transaction_version(SIDE_REQUEST_TIMEOUT);
        self.state = State::Open;
        self.coordination.may_be_open_at_coordinator = false;
        self.coordination.known_open = false;
        self.sender.accumulator.forget_added();
        self.sender.note_start();
        Ok(())
    }

    fn send(&mut self, records: &mut Vec<ProducerRecord>) -> Result<()> {
        self.assure()?;
        self.settle_markers();
        self.sender.note_start();
        for record in records.drain(..) {
            let put = self.sender.put(&mut self.coordination, &record);
            put.map_err(|trouble| self.trouble(trouble))?;
        }
        self.drive(false)?;
        while self.sender.accumulator.unacknowledged() > MAX_UNACKNOWLEDGED_BYTES {
            self.drive_for(true, ANSWER_WAIT)?;
            let patient = self.sender.patience("nothing is acknowledged");
            patient.map_err(|trouble| self.trouble(trouble))?;
        }
        Ok(())
    }

    fn send_pending(&mut self) -> Result<usize> {
        self.assure()?;
        self.drive(false)?;
        // Too few bytes for a request wait for the commit; the caller need not call again for them.
        let waiting = self.sender.accumulator.waiting();
        Ok(if waiting >= EAGER_SEND_BYTES {
            waiting
        } else {
            0
        })
    }

    fn flush(&mut self, timeout: Duration) -> Result<()> {
        if self.sender.accumulator.unacknowledged() == 0 && self.state != State::Lost {
            return Ok(());
        }
        self.assure()?;
        let clock = self.stopwatch();
        while self.sender.accumulator.unacknowledged() > 0 {
            let left = timeout.saturating_sub(clock.elapsed());
            if left.is_zero() {
                return Err(self.sender.late(&self.coordination, timeout));
            }
            self.drive_for(true, left.min(ANSWER_WAIT * 5))?;
        }
        Ok(())
    }

    fn offsets(&mut self, group: &str, cut: &[CutEntry], timeout: Duration) -> Result<()> {
        self.assure()?;
        // A reader without partitions has no positions; the broker doesn't know an empty transaction.
        if cut.is_empty() {
            return Ok(());
        }
        self.settle_markers();
        self.coordination.may_be_open_at_coordinator = true;
        // `flush` waits for the answers, while the coordinator handles the offsets.
        self.drive(true)?;
        let what = "adding offsets to the transaction";
        match self.coordination.offsets(group, cut, timeout) {
            CoordinatorAnswer::Done(_) => Ok(()),
            CoordinatorAnswer::Code { code, answer, .. } => {
                let whole = format!("{what} of '{}'", self.coordination.id);
                let topic = answer.as_ref().and_then(|a| refused_topic(a, code));
                Err(self.fail_transaction(code, "refused", &whole, topic))
            }
            CoordinatorAnswer::Silence { last, .. } => {
                self.give_up();
                Err(self.coordination.silent(&last, what))
            }
        }
    }

    fn commit(&mut self, timeout: Duration) -> Result<CommitOutcome> {
        let clock = self.stopwatch();
        let what = "committing the transaction";
        if self.state == State::Fenced {
            return Err(self.fenced(what));
        }
        if let Err(error) = self.flush(timeout) {
            if self.state != State::Lost {
                return Err(error);
            }
            tracing::warn!(target: "stoatflow::kafka", id = self.coordination.id, %error, "the commit failed and is aborted");
            self.roll_back(timeout.saturating_sub(clock.elapsed()).max(LEAST))?;
            return Ok(CommitOutcome::Aborted);
        }
        if !self.coordination.may_be_open_at_coordinator {
            self.finish();
            return Ok(CommitOutcome::Committed);
        }
        let left = timeout.saturating_sub(clock.elapsed());
        match self.coordination.end(true, left) {
            CoordinatorAnswer::Done(answer) => {
                self.finish();
                self.ended(&answer);
                self.markers.begin(self.started.elapsed());
                Ok(CommitOutcome::Committed)
            }
            CoordinatorAnswer::Code {
                code,
                maybe_applied,
                ..
            } => {
                let whole = format!("{what} of '{}'", self.coordination.id);
                let known = self.fail_transaction(code, "the broker ended it", &whole, None);
                match classify(code) {
                    ErrorClass::Outdated | ErrorClass::Fenced | ErrorClass::Lost
                        if known.kind() != ErrorKind::Fenced =>
                    {
                        let left = || timeout.saturating_sub(clock.elapsed()).max(LEAST);
                        self.roll_back(left())?;
                        if classify(code) == ErrorClass::Lost {
                            // Did the broker end it by itself, or for a newer producer that is taking
                            // the id over?
                            let proved = self.coordination.prove_again(left());
                            self.handle_new_epoch(proved)?;
                        }
                        if maybe_applied {
                            return Err(self.unknown(timeout, known));
                        }
                        tracing::warn!(target: "stoatflow::kafka", id = self.coordination.id, code = ?named(code), "the commit failed and is aborted");
                        Ok(CommitOutcome::Aborted)
                    }
                    _ if maybe_applied && known.kind() != ErrorKind::Fenced => {
                        Err(self.unknown(timeout, known))
                    }
                    _ => Err(known),
                }
            }
            CoordinatorAnswer::Silence {
                maybe_applied,
                last,
            } => {
                self.give_up();
                let known = self.coordination.silent(&last, what);
                Err(if maybe_applied {
                    self.unknown(timeout, known)
                } else {
                    known
                })
            }
        }
    }

    fn abort(&mut self, timeout: Duration) -> Result<()> {
        self.roll_back(timeout)
    }

    fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)> {
        self.sender.accumulator.acknowledged(topic)
    }

    fn producer_ids(&self) -> Vec<i64> {
        vec![self.coordination.identity.id]
    }

    fn rollovers(&self) -> u64 {
        self.rollovers
    }

    fn remember(&mut self, topics: &[Arc<str>]) {
        self.sender.accumulator.ends.remember(topics);
    }

    fn expect_end_offset(&mut self, topic: &str, partition: Partition, end: Offset) {
        (self.sender.accumulator.ends).note(topic, partition, end);
    }

    fn append_time(&self) -> Option<Timestamp> {
        self.sender.accumulator.append_time()
    }
}

impl TransactionalSide for TransactionalProducer {
    fn owns_its_id(&mut self) -> bool {
        // Without an answer, the next start finds out.
        let fenced = |error: Error| error.kind() == ErrorKind::Fenced;
        self.state != State::Fenced && !self.renew(SIDE_REQUEST_TIMEOUT).is_err_and(fenced)
    }
}
