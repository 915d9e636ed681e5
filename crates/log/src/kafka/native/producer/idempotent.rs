//! The producer outside of transactions: records are visible once acknowledged, and its commits are
//! transactions with offsets only.
//!
//! Takes records, offsets and the end of the transaction of offsets; returns outcomes. Owns when
//! something is sent, and what happens to a record that a broker refuses. Sequence numbers prevent
//! duplicates when a batch is sent again; after a broker has lost the state of the producer id,
//! duplicates are possible. Sends during calls, and has no thread of its own.

use crate::kafka::errors::error;
use crate::kafka::native::NativeConfig;
use crate::kafka::native::error_class::named;
use crate::kafka::native::net::network::Stopwatch;
use crate::kafka::native::producer::accumulator::is_producer_state_error;
use crate::kafka::native::producer::coordination::Coordination;
use crate::kafka::native::producer::sender::{
    ANSWER_WAIT, EAGER_SEND_BYTES, MAX_UNACKNOWLEDGED_BYTES, SIDE_REQUEST_TIMEOUT, SendError,
    Sender,
};
use crate::kafka::native::producer::transactional::TransactionalProducer;
use crate::{CommitOutcome, CutEntry, Producer, ProducerRecord};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Offset, Partition, Result, Timestamp};

/// Records that arrive sooner after a request wait for the next one. Later records are sent at once.
const REQUEST_INTERVAL: Duration = Duration::from_millis(5);

/// A writer of records that belong to no transaction.
#[derive(Debug)]
pub(in crate::kafka) struct IdempotentProducer {
    /// Commits the offsets; its transactions have no records.
    guard: TransactionalProducer,
    coordination: Coordination,
    sender: Sender,
    /// When something was last sent; `None` before the first time.
    departed: Option<Duration>,
    /// How long `send` waits for acknowledgements, if it does.
    waits: Option<Duration>,
    /// Whether a new producer id is needed: at first, and after brokers have lost the state of the old
    /// one.
    forgotten: bool,
    /// Whether a record failed for good. Then nothing that may depend on it is committed any more.
    failed: bool,
    clock: Stopwatch,
}

impl IdempotentProducer {
    /// Takes a guard that is open; `open` connects the rest.
    pub(in crate::kafka::native) fn new(
        guard: TransactionalProducer,
        config: &NativeConfig,
        id: &str,
        (silence, waits): (Duration, bool),
    ) -> Self {
        Self {
            guard,
            coordination: Coordination::new(config, id, silence),
            sender: Sender::new(false, config, silence),
            departed: None,
            waits: waits.then_some(silence),
            forgotten: true,
            failed: false,
            clock: config.context.stopwatch(),
        }
    }

    /// Requests a producer id.
    pub(in crate::kafka) fn open(&mut self, timeout: Duration) -> Result<()> {
        self.coordination.init_idempotent_id(timeout)?;
        self.sender.accumulator.renumber();
        self.forgotten = false;
        Ok(())
    }

    fn assure(&self) -> Result<()> {
        if self.failed {
            let id = &self.coordination.id;
            return Err(Error::unavailable(format!(
                "writing: a record of '{id}' was not taken before"
            ))
            .hint("start again: what is not committed is read again"));
        }
        Ok(())
    }

    /// Converts a failure to an error, unless a retry can fix it.
    fn trouble(&mut self, trouble: SendError) -> Result<()> {
        let address = &self.coordination.address;
        match trouble {
            SendError::Code { code, .. } if is_producer_state_error(code) => {
                tracing::warn!(target: "stoatflow::kafka", id = self.coordination.id, code = ?named(code), identity = ?self.coordination.identity, "the broker has forgotten which records it has: what is not acknowledged goes again, as another producer's");
                self.forgotten = true;
                self.sender.hold_back();
                let last = format!("{:?}", named(code));
                self.sender.patience(&last).or_else(|t| self.trouble(t))
            }
            SendError::Code {
                code,
                said,
                what,
                topic,
            } => {
                self.failed = true;
                let doing = self.coordination.doing(what, topic.as_deref());
                Err(error(named(code), &said, doing))
            }
            SendError::Fatal(error) => {
                self.failed = true;
                Err(error)
            }
            SendError::LostRecords(error) => Err(error),
            SendError::Away(last) => Err(Error::unavailable(format!(
                "writing: the broker at {address} was away for too long ({last})"
            ))),
        }
    }

    /// Sends waiting records: with `all` everything, otherwise what is due.
    fn drive(&mut self, all: bool, wait: Option<Duration>) -> Result<()> {
        if self.forgotten
            && let Err(error) = self.open(SIDE_REQUEST_TIMEOUT)
        {
            if error.kind() != ErrorKind::Unavailable {
                return Err(error);
            }
            let patient = self.sender.patience(&error.to_string());
            return patient.or_else(|trouble| self.trouble(trouble));
        }
        let now = self.clock.elapsed();
        let before = self.sender.accumulator.waiting();
        let due = all
            || before >= EAGER_SEND_BYTES
            || self
                .departed
                .is_none_or(|then| now >= then + REQUEST_INTERVAL);
        let driven = match wait {
            None => self.sender.drive(&mut self.coordination, due),
            Some(most) => (self.sender).drive_for(&mut self.coordination, due, most),
        };
        if self.sender.accumulator.waiting() < before {
            self.departed = Some(now);
        }
        driven.or_else(|trouble| self.trouble(trouble))
    }
}

impl Producer for IdempotentProducer {
    fn sends_are_fenced(&self) -> bool {
        false
    }

    fn begin(&mut self) -> Result<()> {
        self.assure()?;
        self.guard.begin()
    }

    fn send(&mut self, records: &mut Vec<ProducerRecord>) -> Result<()> {
        self.assure()?;
        self.sender.note_start();
        for record in records.drain(..) {
            let put = self.sender.put(&mut self.coordination, &record);
            put.or_else(|trouble| self.trouble(trouble))?;
        }
        self.drive(false, None)?;
        while self.sender.accumulator.unacknowledged() > MAX_UNACKNOWLEDGED_BYTES {
            self.drive(true, Some(ANSWER_WAIT))?;
            let patient = self.sender.patience("nothing is acknowledged");
            patient.or_else(|trouble| self.trouble(trouble))?;
        }
        match self.waits {
            Some(most) => self.flush(most),
            None => Ok(()),
        }
    }

    fn send_pending(&mut self) -> Result<usize> {
        self.assure()?;
        self.drive(false, None)?;
        Ok(self.sender.accumulator.waiting())
    }

    fn flush(&mut self, timeout: Duration) -> Result<()> {
        self.assure()?;
        let clock = self.coordination.cluster.stopwatch();
        while self.sender.accumulator.unacknowledged() > 0 {
            let left = timeout.saturating_sub(clock.elapsed());
            if left.is_zero() {
                return Err(self.sender.late(&self.coordination, timeout));
            }
            self.drive(true, Some(left.min(ANSWER_WAIT * 5)))?;
        }
        Ok(())
    }

    fn offsets(&mut self, group: &str, cut: &[CutEntry], timeout: Duration) -> Result<()> {
        self.assure()?;
        self.guard.offsets(group, cut, timeout)
    }

    fn commit(&mut self, timeout: Duration) -> Result<CommitOutcome> {
        self.assure()?;
        self.guard.commit(timeout)
    }

    fn abort(&mut self, timeout: Duration) -> Result<()> {
        self.guard.abort(timeout)
    }

    fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)> {
        self.sender.accumulator.acknowledged(topic)
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
