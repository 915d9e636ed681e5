//! Sends batches to the leaders of their partitions, and handles the answers.
//!
//! Takes records; returns errors. Owns when a request is worth sending, when it is repeated, and for how
//! long a broker may be away. Never decides what happens to the transaction.

mod retries;
mod send_error;

use crate::ProducerRecord;
use crate::kafka::errors::error;
use crate::kafka::native::NativeConfig;
use crate::kafka::native::error_class::{ErrorClass, UNKNOWN_TOPIC_OR_PARTITION, classify, named};
use crate::kafka::native::net::answer_timeout::AnswerTimeout;
use crate::kafka::native::net::cluster::Node;
use crate::kafka::native::net::connection::PRODUCE_LEAST;
use crate::kafka::native::net::connection_error::ConnectionError;
use crate::kafka::native::net::network::Stopwatch;
use crate::kafka::native::producer::accumulator::{Accumulator, PartitionError, RequestInFlight};
use crate::kafka::native::producer::coordination::{
    Coordination, CoordinatorAnswer, PRODUCE, PRODUCE_V2,
};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};
use kafka_protocol::protocol::Decodable;
pub(in crate::kafka::native) use send_error::SendError;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::Error;

/// So many bytes are sent without being asked for, as soon as the previous request is answered. Fewer
/// wait for the commit.
pub(in crate::kafka::native) const EAGER_SEND_BYTES: usize = 128 << 10;
/// Fewer bytes wait at most this long: what is sent early need not be sent at the commit.
const LINGER: Duration = Duration::from_millis(25);
/// Maximum number of unacknowledged bytes before `send` waits.
pub(in crate::kafka::native) const MAX_UNACKNOWLEDGED_BYTES: usize = 24 << 20;
/// One wait for answers.
pub(in crate::kafka::native) const ANSWER_WAIT: Duration = Duration::from_millis(20);
/// Timeout of a request that nothing else can be done without.
pub(in crate::kafka::native) const BLOCKING_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A broker that accepts no bytes for this long gets a new connection.
const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before something is sent again: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// How long a broker may not know a topic that was just created.
const NEW_TOPIC_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a broker may not know a topic that was written to before, for example after a restart.
const TOPIC_GONE_AFTER: Duration = Duration::from_secs(10);
/// Timeout of a request that can be repeated later.
pub(in crate::kafka::native) const SIDE_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends batches, and keeps track of their progress.
#[derive(Debug)]
pub(in crate::kafka::native) struct Sender {
    pub accumulator: Accumulator,
    /// Whether the known leaders may be outdated.
    stale: bool,
    /// Earliest time of the next attempt, and the pause after it.
    not_before: Duration,
    pause: Duration,
    /// Since when the first record has been waiting to be sent.
    waiting_since: Duration,
    /// When records were last acknowledged, or none were outstanding.
    progress: Duration,
    /// Since when a topic has been missing.
    missing: Option<Duration>,
    silence: Duration,
    answer_timeout: AnswerTimeout,
    clock: Stopwatch,
}

impl Sender {
    /// Creates a sender of records inside or outside of transactions; `silence` is how long they may
    /// stay unacknowledged.
    pub(in crate::kafka::native) fn new(
        transactional: bool,
        config: &NativeConfig,
        silence: Duration,
    ) -> Self {
        Self {
            answer_timeout: AnswerTimeout::new(config.request_timeout),
            accumulator: Accumulator::new(transactional, config.compression),
            stale: false,
            not_before: Duration::ZERO,
            pause: PAUSE,
            waiting_since: Duration::ZERO,
            progress: Duration::ZERO,
            missing: None,
            silence,
            clock: config.context.stopwatch(),
        }
    }

    /// The topic's index; requests metadata the first time.
    fn topic(&mut self, at: &mut Coordination, name: &Arc<str>) -> Result<usize, SendError> {
        if let Some(known) = self.accumulator.find(name) {
            return Ok(known);
        }
        let clock = at.cluster.stopwatch();
        loop {
            self.request_leaders(at, &[Arc::clone(name)], BLOCKING_REQUEST_TIMEOUT)?;
            if let Some(found) = self.accumulator.find(name) {
                return Ok(found);
            }
            if clock.elapsed() > NEW_TOPIC_TIMEOUT {
                return Err(SendError::Fatal(Self::no_such(at, name, "unknown topic")));
            }
            at.cluster.pause(ANSWER_WAIT);
        }
    }

    fn no_such(at: &Coordination, topic: &str, said: &str) -> Error {
        let doing = at.doing("writing", Some(topic));
        error(named(UNKNOWN_TOPIC_OR_PARTITION), said, doing)
    }

    /// Requests the leaders of these topics, again while no broker answers.
    fn request_leaders(
        &mut self,
        at: &mut Coordination,
        names: &[Arc<str>],
        timeout: Duration,
    ) -> Result<(), SendError> {
        let clock = at.cluster.stopwatch();
        loop {
            let left = timeout.saturating_sub(clock.elapsed());
            match at.cluster.metadata(names, left.min(SIDE_REQUEST_TIMEOUT)) {
                Ok(answer) => {
                    let refused = (answer.topics.iter())
                        .find(|t| classify(t.error_code) == ErrorClass::Refused);
                    if let Some(topic) = refused {
                        let name = topic.name.as_ref().map(|n| n.0.to_string());
                        let doing = at.doing("writing", name.as_deref());
                        return Err(SendError::Fatal(error(
                            named(topic.error_code),
                            "refused",
                            doing,
                        )));
                    }
                    self.accumulator.learn(&answer, names);
                    return Ok(());
                }
                Err(why) if left.is_zero() || why.is_final() => {
                    return Err(SendError::Fatal(at.silent(&why, "asking for topics")));
                }
                Err(_) => at.cluster.pause(ANSWER_WAIT.min(left)),
            }
        }
    }

    pub(in crate::kafka::native) fn put(
        &mut self,
        at: &mut Coordination,
        record: &ProducerRecord,
    ) -> Result<(), SendError> {
        let topic = self.topic(at, &record.topic)?;
        let place = match self.accumulator.place(topic, record) {
            Some(place) => place,
            None => {
                // The topic may have got more partitions.
                self.request_leaders(at, &[Arc::clone(&record.topic)], BLOCKING_REQUEST_TIMEOUT)?;
                let known = self.accumulator.partitions(topic);
                self.accumulator.place(topic, record).ok_or_else(|| {
                    let asked = record.partition.map_or(-1, |p| p.0);
                    let said = format!("partition {asked} of {known}");
                    SendError::Fatal(Self::no_such(at, &record.topic, &said))
                })?
            }
        };
        self.accumulator.append(place, record);
        Ok(())
    }

    /// Takes the answers that have arrived, and sends what is due: with `all` everything, otherwise what
    /// is worth a request.
    pub(in crate::kafka::native) fn drive(
        &mut self,
        at: &mut Coordination,
        all: bool,
    ) -> Result<(), SendError> {
        let in_flight: Vec<_> = self.accumulator.in_flight().collect();
        for node in in_flight {
            self.receive(at, node)?;
        }
        let now = self.clock.elapsed();
        let due = all
            || self.accumulator.waiting() >= EAGER_SEND_BYTES
            || self.accumulator.is_fresh()
            || now > self.waiting_since + LINGER;
        if !due || self.accumulator.waiting() == 0 || now < self.not_before {
            return Ok(());
        }
        if self.stale {
            self.request_waiting_leaders(at)?;
        }
        for node in self.accumulator.idle_leaders() {
            if at.cluster.throttled_for(node).is_zero() {
                self.dispatch(at, node)?;
            }
        }
        Ok(())
    }

    /// Like `drive`, then waits for an answer, at most this long, and takes it.
    pub(in crate::kafka::native) fn drive_for(
        &mut self,
        at: &mut Coordination,
        all: bool,
        most: Duration,
    ) -> Result<(), SendError> {
        self.drive(at, all)?;
        let soon = self.not_before.saturating_sub(self.clock.elapsed());
        if soon.is_zero() {
            let most = match self.accumulator.has_in_flight() {
                true => most,
                // No answer will come: waits until something can be sent.
                false => self.pause_for(at, most),
            };
            at.cluster
                .wait_or_connected(self.accumulator.in_flight(), most);
        } else {
            // Nothing is sent before then, so a new connection would only end each wait at once.
            at.cluster
                .wait(self.accumulator.in_flight(), most.min(soon));
        }
        self.drive(at, all)
    }

    /// How long no broker takes what waits, at most `most`: zero, unless all their leaders are throttled
    /// or being connected.
    fn pause_for(&self, at: &Coordination, most: Duration) -> Duration {
        let leaders = self.accumulator.idle_leaders().into_iter();
        let times = leaders.map(|node| match at.cluster.is_connecting(node) {
            true => most,
            false => at.cluster.throttled_for(node).min(most),
        });
        times.min().unwrap_or_default()
    }

    pub(in crate::kafka::native) fn receive(
        &mut self,
        at: &mut Coordination,
        node: Node,
    ) -> Result<(), SendError> {
        let Some((version, since)) = (self.accumulator.flight(node)).map(|f| (f.version, f.since))
        else {
            return Ok(());
        };
        let Some(link) = at.cluster.open_data(node) else {
            return self.requeue(at, node, &ConnectionError::lost("the connection is gone"));
        };
        let answer = link.receive::<ProduceRequest>(version).and_then(|answer| {
            let decoded = answer.map(|mut bytes| ProduceResponse::decode(&mut bytes, version));
            decoded
                .transpose()
                .map_err(|e| ConnectionError::lost(format!("broker {node}: {e}")))
        });
        match answer {
            Ok(None) if self.clock.elapsed() > since + self.answer_timeout.time() => {
                let waited = self.answer_timeout.time();
                self.answer_timeout.missed();
                let why = format!("broker {node}: no answer for {waited:?}");
                self.requeue(at, node, &ConnectionError::lost(why))
            }
            Ok(None) => Ok(()),
            Err(why) => self.requeue(at, node, &why),
            Ok(Some(answer)) => {
                let Some(flight) = self.accumulator.take_flight(node) else {
                    return Ok(());
                };
                if let Some(link) = at.cluster.open_data(node) {
                    link.note(&answer);
                }
                self.answer_timeout.answered();
                let partition_errors = self.accumulator.complete(flight, &answer);
                if let Some(lost) = self.accumulator.ends.take_loss(&at.address) {
                    return Err(SendError::LostRecords(lost));
                }
                if partition_errors.is_empty() {
                    self.progress = self.clock.elapsed();
                    self.pause = PAUSE;
                    self.missing = None;
                    return Ok(());
                }
                self.handle_errors(&partition_errors)?;
                Self::count_retries(at, partition_errors.len());
                Ok(())
            }
        }
    }

    /// The answer of a request won't come: its batches are sent again, and the broker recognises those
    /// that it has already.
    fn requeue(
        &mut self,
        at: &mut Coordination,
        node: Node,
        why: &ConnectionError,
    ) -> Result<(), SendError> {
        at.cluster.drop_data(node, why);
        if let Some(flight) = self.accumulator.take_flight(node) {
            self.send_again(at, flight);
        }
        self.stale = true;
        self.hold_back();
        self.tolerate_or_fail(at, why)
    }

    /// What a failed connection means for waiting batches: patience, or an error.
    fn tolerate_or_fail(&self, at: &Coordination, why: &ConnectionError) -> Result<(), SendError> {
        if why.is_final() {
            return Err(SendError::Fatal(at.silent(why, "writing")));
        }
        self.patience(&why.to_string())
    }

    pub(in crate::kafka::native) fn hold_back(&mut self) {
        self.not_before = self.clock.elapsed() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Fails if nothing was acknowledged for too long: the transaction has timed out by then.
    pub(in crate::kafka::native) fn patience(&self, last: &str) -> Result<(), SendError> {
        if self.clock.elapsed() < self.progress + self.silence {
            return Ok(());
        }
        Err(SendError::Away(last.to_owned()))
    }

    /// Handles the partitions that a broker refused.
    fn handle_errors(&mut self, partition_errors: &[PartitionError]) -> Result<(), SendError> {
        let final_one = (partition_errors.iter())
            .find(|s| !matches!(classify(s.code), ErrorClass::Again | ErrorClass::Ending));
        if let Some(partition_error) = final_one {
            let topic = self
                .accumulator
                .name(partition_error.place.topic)
                .to_owned();
            let said = format!(
                "partition {}: {}",
                partition_error.place.part, partition_error.said
            );
            return Err(SendError::Code {
                code: partition_error.code,
                said,
                what: "writing",
                topic: Some(topic),
            });
        }
        tracing::debug!(target: "stoatflow::kafka", setbacks = ?partition_errors, pause = ?self.pause, "sent again");
        self.stale |= (partition_errors.iter()).any(|s| classify(s.code) == ErrorClass::Again);
        self.hold_back();
        let last = &partition_errors[0];
        self.patience(&format!("{:?} {}", named(last.code), last.said))
    }

    /// Requests the leaders of topics with waiting records.
    fn request_waiting_leaders(&mut self, at: &mut Coordination) -> Result<(), SendError> {
        // Only those: a topic that was deleted and is no longer written to must cause no error.
        let names = self.accumulator.awaited();
        let answer = match at.cluster.metadata(&names, SIDE_REQUEST_TIMEOUT) {
            Ok(answer) => answer,
            Err(why) => {
                self.hold_back();
                return self.tolerate_or_fail(at, &why);
            }
        };
        self.accumulator.learn(&answer, &names);
        self.stale = false;
        let gone = (answer.topics.iter()).find(|t| t.error_code == UNKNOWN_TOPIC_OR_PARTITION);
        let Some(name) = gone.and_then(|t| t.name.as_ref()) else {
            self.missing = None;
            return Ok(());
        };
        self.stale = true;
        self.hold_back();
        let now = self.clock.elapsed();
        let since = *self.missing.get_or_insert(now);
        if now < since + TOPIC_GONE_AFTER {
            return Ok(());
        }
        Err(SendError::Fatal(Self::no_such(
            at,
            &name.0,
            "the topic is gone",
        )))
    }

    /// Sends a broker the batches that wait for it.
    fn dispatch(&mut self, at: &mut Coordination, node: Node) -> Result<(), SendError> {
        if !Accumulator::is_known(node) {
            self.stale = true;
            self.hold_back();
            return self.patience("a partition has no leader");
        }
        let transactions_v2 = at.transactions_v2;
        let most = if transactions_v2 { PRODUCE_V2 } else { PRODUCE };
        let opened = at.cluster.data(node).and_then(|link| {
            let version = link.api_versions.version::<ProduceRequest>(most);
            let known = |v: &i16| *v == PRODUCE_V2 || !transactions_v2 && *v >= PRODUCE_LEAST;
            let version = version.filter(known);
            version.ok_or_else(|| {
                ConnectionError::lost(format!("broker {node} knows other versions of requests"))
            })
        });
        let version = match opened {
            Ok(version) => version,
            // The connection is being opened, and nothing was sent: the batches are sent once it is
            // there.
            Err(why) if why.leaves_connection() => return self.patience(&why.to_string()),
            Err(why) => return self.requeue(at, node, &why),
        };
        let owner = at.identity;
        let Some(flight) = self.accumulator.gather(node, owner, version) else {
            return Ok(());
        };
        at.may_be_open_at_coordinator = true;
        let adds = self.accumulator.is_transactional() && !transactions_v2;
        if adds && let Err(error) = self.add(at, &flight) {
            self.accumulator.keep(flight);
            return error.map_or(Ok(()), Err);
        }
        self.accumulator.added(&flight);
        match self.post(at, node, &flight) {
            Ok(()) => {
                let now = self.clock.elapsed();
                self.accumulator.mark_in_flight(node, flight, now);
            }
            Err(why) => {
                self.send_again(at, flight);
                return self.requeue(at, node, &why);
            }
        }
        Ok(())
    }

    fn post(
        &mut self,
        at: &mut Coordination,
        node: Node,
        flight: &RequestInFlight,
    ) -> Result<(), ConnectionError> {
        // The broker must report a timeout of its replicas before our own timeout ends: it gets three
        // quarters of that.
        let at_broker = self.answer_timeout.time() / 4 * 3;
        let timeout = i32::try_from(at_broker.as_millis()).unwrap_or(i32::MAX);
        let link = at.cluster.data(node)?;
        let head = link.open::<ProduceRequest>(flight.version)?;
        let frame = (self.accumulator).frame(flight, head, &at.id, timeout);
        link.post(&frame.pieces(), WRITE_STALL_TIMEOUT)
    }

    /// Adds partitions to the transaction, where that needs a request. `Err(None)`: try later.
    fn add(
        &mut self,
        at: &mut Coordination,
        flight: &RequestInFlight,
    ) -> Result<(), Option<SendError>> {
        let unknown = self.accumulator.unknown(flight);
        if unknown.is_empty() {
            return Ok(());
        }
        match at.add(&unknown, SIDE_REQUEST_TIMEOUT) {
            CoordinatorAnswer::Done(_) => Ok(()),
            CoordinatorAnswer::Code { code, answer, .. } => Err(Some(SendError::Code {
                code,
                said: "refused".to_owned(),
                what: "adding partitions to the transaction",
                topic: answer.flatten(),
            })),
            CoordinatorAnswer::Silence { last, .. } => {
                // A deleted topic is answered with "not yet": request its leaders.
                self.stale = true;
                self.hold_back();
                Err(self.tolerate_or_fail(at, &last).err())
            }
        }
    }

    /// The error if not everything was acknowledged in time.
    pub(in crate::kafka::native) fn late(&self, at: &Coordination, timeout: Duration) -> Error {
        let bytes = self.accumulator.unacknowledged();
        let last = format!("{bytes} bytes are not acknowledged after {timeout:?}");
        at.silent(&ConnectionError::lost(last), "flushing")
    }

    /// Restarts the clocks for the first waiting and the first unacknowledged record.
    pub(in crate::kafka::native) fn note_start(&mut self) {
        let now = self.clock.elapsed();
        if self.accumulator.waiting() == 0 {
            self.waiting_since = now;
        }
        if self.accumulator.unacknowledged() == 0 {
            self.progress = now;
        }
    }
}
