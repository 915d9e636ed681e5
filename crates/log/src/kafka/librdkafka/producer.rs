//! Writing to Kafka with librdkafka.
//!
//! Takes records, offsets and the end of the transaction; returns outcomes. Owns the idempotent client
//! that writes, and in plain mode a second, transactional one that only commits the offsets. Never uses
//! the Rust crate's flush and commit, which sleep in steps of 100 ms.

mod bursts;
mod calls;
mod targets;
mod transactions;

use super::client::{Client, RdKafkaError, c_text};
use crate::kafka::admin::AdminClient;
use crate::kafka::errors::{ErrorContext, error};
use crate::kafka::librdkafka::outgoing::{headers, produce, weight};
use crate::kafka::lost_records::LostRecords;
use crate::kafka::markers::Markers;
use crate::kafka::properties::Properties;
use crate::kafka::transactional_side::TransactionalSide;
use crate::{CommitOutcome, CutEntry, Producer, ProducerMode, ProducerRecord};
use calls::Caller;
use rdkafka::types::RDKafkaErrorCode as Code;
use rdkafka_sys as sys;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stoatflow_core::{
    Clock, Error, Offset, Partition, Result, SystemClock, Timestamp, TopicPartition,
};
use targets::Target;
use transactions::Group;

/// One wait for room in the client's buffer.
const QUEUE_ROOM_WAIT: Duration = Duration::from_millis(20);

/// Maximum number of bytes that wait for the previous burst.
const MAX_WAITING_BYTES: usize = 24 << 20;

/// librdkafka's name for the state of a transaction that can only be aborted.
const ABORTABLE_STATE_NAME: &str = "AbortableError";

/// A writer. Fields drop in order: topic handles before their client.
#[derive(Debug)]
pub(in crate::kafka) struct KafkaProducer {
    targets: Vec<Target>,
    last: usize,
    /// Records that wait until the ones sent before are acknowledged.
    kept: VecDeque<ProducerRecord>,
    kept_bytes: usize,
    /// Bytes passed to the client since the transaction began.
    sent: usize,
    remembered: Vec<Arc<str>>,
    /// Ends of partitions whose topic was not written to yet.
    noted: BTreeMap<TopicPartition, Offset>,
    group: Option<Group>,
    caller: Caller,
    /// The transaction timeout.
    silence: Duration,
    /// When the transaction began.
    begun: Duration,
    clock: SystemClock,
    client: Client,
    guard: Option<Client>,
    admin: Arc<dyn AdminClient>,
    address: String,
    id: String,
    markers: Markers,
}

impl KafkaProducer {
    /// Creates the clients, which connect in the background. Call `open` before any other method.
    pub(in crate::kafka) fn new(
        properties: &Properties,
        admin: Arc<dyn AdminClient>,
        mode: &ProducerMode,
    ) -> Result<Self> {
        let id = mode.id();
        c_text(id)?;
        let config = properties.transactional(id, mode.timeout());
        let transactional = Client::new(false, &config)?;
        let (client, guard) = if mode.is_transactional() {
            (transactional, None)
        } else {
            (
                Client::new(false, &properties.idempotent())?,
                Some(transactional),
            )
        };
        Ok(Self {
            targets: Vec::new(),
            last: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            sent: 0,
            remembered: Vec::new(),
            noted: BTreeMap::new(),
            group: None,
            caller: Caller::default(),
            silence: mode.timeout(),
            begun: Duration::ZERO,
            clock: SystemClock::new(),
            client,
            guard,
            admin,
            address: properties.bootstrap().to_owned(),
            id: id.to_owned(),
            markers: Markers::default(),
        })
    }

    /// The client whose transaction carries the offsets.
    fn guard(&self) -> &Client {
        self.guard.as_ref().unwrap_or(&self.client)
    }

    fn doing<'a>(&'a self, what: &'a str, topic: Option<&'a str>) -> ErrorContext<'a> {
        ErrorContext {
            address: &self.address,
            what,
            topic,
        }
    }

    /// Converts a fault to an error. If the client has failed fatally, the error has the cause of that.
    fn fail(&self, fault: &RdKafkaError, what: &str) -> Error {
        let what = format!("{what} of '{}'", self.id);
        let fatal = if fault.fatal || fault.code == Code::Fatal {
            self.guard().fatal().or_else(|| self.client.fatal())
        } else {
            None
        };
        match fatal {
            Some((code, said)) => error(code, &said, self.doing(&what, None)),
            None => error(fault.code, &fault.said, self.doing(&what, None)),
        }
    }

    /// Fails if acknowledged records are gone, or with the first record that the broker refused.
    fn delivered(&self) -> Result<()> {
        let (lost, failed) = {
            let mut reports = self.client.events.reports.lock();
            (reports.take_loss(), reports.first())
        };
        if let Some(loss) = lost {
            let lost = LostRecords {
                partition: TopicPartition::new(
                    Arc::clone(&self.targets[loss.topic].name),
                    loss.partition,
                ),
                end: Offset(loss.end),
                first: Offset(loss.first),
            };
            return Err(lost.error(&self.address));
        }
        let Some(failed) = failed else {
            return Ok(());
        };
        let topic = self.targets.get(failed.topic).map(|t| &*t.name);
        let said = format!("partition {}", failed.partition);
        match self.client.fatal() {
            Some((code, said)) => Err(error(code, &said, self.doing("writing", topic))),
            None => Err(error(failed.code, &said, self.doing("writing", topic))),
        }
    }

    /// Passes a record to the client; returns the index of its target.
    fn write(&mut self, record: &ProducerRecord) -> Result<usize> {
        let index = self.target(&record.topic)?;
        let label = self.label(index, record);
        loop {
            let headers = headers(record)?;
            // SAFETY: the topic handle and the record's parts live as long as the call, which copies
            // them; the headers belong to librdkafka if it returns no error.
            let fault = unsafe {
                let fault = produce(
                    self.client.ptr(),
                    self.targets[index].topic.0.as_ptr(),
                    label,
                    record,
                    headers,
                );
                if fault.is_some() && !headers.is_null() {
                    sys::rd_kafka_headers_destroy(headers);
                }
                fault
            };
            match fault {
                None => return Ok(index),
                Some(fault) if fault.code == Code::QueueFull => {
                    self.client.serve(QUEUE_ROOM_WAIT);
                    self.delivered()?;
                }
                Some(fault) => {
                    let doing = self.doing("writing", Some(&record.topic));
                    let dead = fault.fatal || matches!(fault.code, Code::Fatal | Code::State);
                    if let Some((code, said)) = self.client.fatal().filter(|_| dead) {
                        return Err(error(code, &said, doing));
                    }
                    // "Not allowed in this state": an earlier failure is the cause.
                    self.client.serve(Duration::ZERO);
                    self.delivered()?;
                    // librdkafka allows only an abort now and hasn't reported the cause, for example a
                    // broker that was away for longer than the transaction timeout.
                    if fault.code == Code::State && fault.said.contains(ABORTABLE_STATE_NAME) {
                        return Err(Error::unavailable(format!(
                            "writing: the broker at {} was away for too long, the transaction of \
                                '{}' is lost ({})",
                            self.address, self.id, fault.said
                        ))
                        .hint(
                            "start again: nothing of it is visible, and its records are read again",
                        ));
                    }
                    return Err(error(fault.code, &fault.said, doing));
                }
            }
        }
    }

    /// Waits until the markers of the last commit are written.
    fn settle(&mut self) {
        let guard = self.guard.as_ref().unwrap_or(&self.client);
        self.markers
            .wait_until_written(|| self.clock.monotonic(), |left| guard.serve(left));
    }
}

impl Producer for KafkaProducer {
    fn sends_are_fenced(&self) -> bool {
        self.guard.is_none()
    }

    fn begin(&mut self) -> Result<()> {
        self.sent = 0;
        self.begun = self.clock.monotonic();
        // A client that failed fatally during a call may have queued two results, and would return the
        // second one, success, to this call.
        if let Some((code, said)) = self.guard().fatal() {
            let what = format!("beginning a transaction of '{}'", self.id);
            return Err(error(code, &said, self.doing(&what, None)));
        }
        if self.guard().events.ends.any() {
            return Err(self.end_in_doubt());
        }
        // SAFETY: the client is alive; the error object is ours.
        let fault =
            unsafe { RdKafkaError::take(sys::rd_kafka_begin_transaction(self.guard().ptr())) };
        fault.map_or(Ok(()), |fault| {
            Err(self.fail(&fault, "beginning a transaction"))
        })
    }

    fn send(&mut self, records: &mut Vec<ProducerRecord>) -> Result<()> {
        if !self.sends_are_fenced() {
            // They need no commit to become visible, so they are sent at once.
            for record in records.drain(..) {
                self.write(&record)?;
            }
            self.client.serve(Duration::ZERO);
            return self.delivered();
        }
        self.settle();
        self.kept_bytes += records.iter().map(weight).sum::<usize>();
        self.kept.extend(records.drain(..));
        self.send_pending()?;
        // The broker is far away or slow: a busy librdkafka thread is better than one burst at a time.
        while self.kept_bytes > MAX_WAITING_BYTES {
            let handed = self.hand_over();
            handed.map_err(|error| self.classify_fencing(error))?;
        }
        Ok(())
    }

    fn send_pending(&mut self) -> Result<usize> {
        let sent = self.send_kept();
        sent.map_err(|error| self.classify_fencing(error))
    }

    fn flush(&mut self, timeout: Duration) -> Result<()> {
        let flushed = self.flush_all(timeout);
        flushed.map_err(|error| self.classify_fencing(error))
    }

    fn offsets(&mut self, group: &str, cut: &[CutEntry], timeout: Duration) -> Result<()> {
        let sent = self.send_offsets(group, cut, timeout);
        sent.map_err(|error| self.classify_fencing(error))
    }

    fn commit(&mut self, timeout: Duration) -> Result<CommitOutcome> {
        let outcome = self.end(timeout);
        outcome.map_err(|error| self.classify_fencing(error))
    }

    fn abort(&mut self, timeout: Duration) -> Result<()> {
        self.roll_back(timeout)
            .map_err(|fault| self.fail(&fault, "aborting the transaction"))
    }

    fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)> {
        let Some(index) = self.targets.iter().position(|t| *t.name == *topic) else {
            return Vec::new();
        };
        let reports = self.client.events.reports.lock();
        (0..)
            .zip(reports.ends(index))
            .filter_map(|(p, end)| Some((Partition(p), Offset((*end)?))))
            .collect()
    }

    fn append_time(&self) -> Option<Timestamp> {
        let time = self.client.events.append_time.load(Relaxed);
        (time > 0).then_some(Timestamp(time))
    }

    fn remember(&mut self, topics: &[Arc<str>]) {
        self.remembered = topics.to_vec();
        let mut reports = self.client.events.reports.lock();
        for (index, target) in self.targets.iter().enumerate() {
            reports.remember(index, topics.contains(&target.name));
        }
    }

    fn expect_end_offset(&mut self, topic: &str, partition: Partition, end: Offset) {
        match self.targets.iter().position(|t| *t.name == *topic) {
            Some(index) => {
                let mut reports = self.client.events.reports.lock();
                reports.note(index, partition.0, end.0);
            }
            None => {
                let at = TopicPartition::new(topic, partition.0);
                let known = self.noted.entry(at).or_insert(end);
                *known = end.max(*known);
            }
        }
    }
}

impl TransactionalSide for KafkaProducer {
    /// librdkafka has no request for this.
    fn owns_its_id(&mut self) -> bool {
        false
    }
}

impl Drop for KafkaProducer {
    fn drop(&mut self) {
        // Records that were not flushed are discarded: closing must not wait for a dead broker.
        const QUEUE_AND_FLIGHT: i32 = 3;
        // SAFETY: the client is alive.
        unsafe { sys::rd_kafka_purge(self.client.ptr(), QUEUE_AND_FLIGHT) };
        self.client.serve(Duration::ZERO);
    }
}
