//! Reading with the native client.
//!
//! Takes an assignment, returns committed records. Each broker has at most one fetch in flight. The next
//! one is sent before the records of the last answer are returned, so that the broker works meanwhile
//! and its answer waits in the socket. Records are read in the answer's own memory, which is reused for
//! the next answer. There is no thread: the caller of `poll` does the work. Owns the leaders, and when
//! they are requested again.

mod answer;
mod ask;
mod trouble;

use crate::kafka::admin::AdminClient;
use crate::kafka::blocks::Blocks;
use crate::kafka::native::consumer::fetch::FetchLimits;
use crate::kafka::native::consumer::fetch_state::{FetchState, FetchStates};
use crate::kafka::native::error_class::{
    ErrorClass, UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION, classify,
};
use crate::kafka::native::net::answer_timeout::AnswerTimeout;
use crate::kafka::native::net::cluster::{Cluster, Node};
use crate::kafka::native::net::connection_error::ConnectionError;
use crate::kafka::native::net::network::Stopwatch;
use crate::kafka::native::records::batch_reader::{Record, UnreadableBatch};
use crate::kafka::native::{NativeConfig, unreachable};
use crate::{Consumer, ConsumerRecord, RecordRef};
use bytes::Bytes;
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use kafka_protocol::protocol::Decodable;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, ErrorKind, Offset, Result, Timestamp, TopicPartition};

/// The longest wait for answers before the next call of `pump`.
const MAX_PUMP_WAIT: Duration = Duration::from_secs(30);
/// Timeout for connecting, for sending a fetch, and for metadata.
const SIDE_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between metadata requests.
const METADATA_RETRY_PAUSE: Duration = Duration::from_millis(50);
/// How long a broker may not know a topic, for example after a restart, before the topic counts as
/// deleted.
const UNKNOWN_TOPIC_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a broker may answer with an unknown error before reading fails.
const UNKNOWN_ERROR_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest pause between two fetches from a broker, even if the caller defers them for longer.
pub(in crate::kafka::native) const MAX_FETCH_PAUSE: Duration = Duration::from_millis(15);
/// Timeout for checking that the topics of an assignment exist.
const LOOK_UP: Duration = Duration::from_secs(30);

/// A fetch in flight.
#[derive(Clone, Copy, Debug)]
struct FetchInFlight {
    version: i16,
    /// When it was sent, or more of the answer arrived.
    since: Duration,
    received: usize,
}

/// A reader of assigned partitions.
#[derive(Debug)]
pub(in crate::kafka) struct NativeConsumer {
    cluster: Cluster,
    admin: Arc<dyn AdminClient>,
    address: String,
    fetch_limits: FetchLimits,
    slots: FetchStates,
    /// A connection that receives no part of an answer for this long is replaced.
    answer_timeout: AnswerTimeout,
    flights: BTreeMap<Node, FetchInFlight>,
    /// When each broker was sent its last fetch.
    asked: BTreeMap<Node, Duration>,
    /// How long each broker takes to answer with records, smoothed.
    usual: BTreeMap<Node, Duration>,
    /// If records are needed only at a later time: that time.
    deferred: Option<Duration>,
    /// The last answer of each broker: its memory is reused once all its records are returned.
    answers: BTreeMap<Node, Bytes>,
    /// Earliest time of the next metadata request.
    look_at: Duration,
    /// Since when a partition is missing, or fails with an unknown error, and the code.
    missing: BTreeMap<usize, (Duration, i16)>,
    /// Returned once, after the fetched records.
    trouble: Option<Error>,
    blocks: Blocks,
    clock: Stopwatch,
}

impl NativeConsumer {
    pub(in crate::kafka::native) fn new(
        config: &NativeConfig,
        admin: Arc<dyn AdminClient>,
        fetch_limits: FetchLimits,
    ) -> Self {
        Self {
            // Other partitions are read meanwhile.
            cluster: Cluster::new(config).with_long_backoff(),
            admin,
            address: config.address.clone(),
            answer_timeout: AnswerTimeout::new(config.request_timeout),
            fetch_limits,
            slots: FetchStates::default(),
            flights: BTreeMap::new(),
            asked: BTreeMap::new(),
            usual: BTreeMap::new(),
            deferred: None,
            answers: BTreeMap::new(),
            look_at: Duration::ZERO,
            missing: BTreeMap::new(),
            trouble: None,
            blocks: Blocks::default(),
            clock: config.context.stopwatch(),
        }
    }

    /// Assigns partitions that exist.
    pub(in crate::kafka) fn place(&mut self, partitions: &[(TopicPartition, Offset)]) {
        // Answers in flight are for the old assignment.
        for node in std::mem::take(&mut self.flights).into_keys() {
            self.cluster.disconnect_data(node);
        }
        self.slots = FetchStates::new(partitions);
        self.missing.clear();
        self.trouble = None;
        self.look_at = Duration::ZERO;
    }

    /// Takes the answers that have arrived, and sends the next fetches. Returns when to call again if no
    /// answer arrives.
    fn pump(&mut self, left: Duration) -> Duration {
        let in_flight: Vec<_> = self.flights.iter().map(|(n, f)| (*n, *f)).collect();
        let under_way = in_flight.len();
        for (node, flight) in in_flight {
            self.receive(node, flight);
        }
        // With a deferred fetch, records that have arrived are returned first.
        if self.deferred.is_some() && self.flights.len() < under_way {
            return Duration::ZERO;
        }
        if self.slots.is_unled() && self.clock.elapsed() >= self.look_at {
            self.request_leaders();
        }
        let mut again = MAX_PUMP_WAIT;
        for node in self.slots.leaders() {
            if self.flights.contains_key(&node) {
                continue;
            }
            let rest = self
                .rest_of(node, left)
                .max(self.cluster.throttled_for(node));
            if rest.is_zero() {
                self.ask(node);
            } else {
                again = again.min(rest);
            }
        }
        again
    }

    fn receive(&mut self, node: Node, flight: FetchInFlight) {
        let FetchInFlight { version, since, .. } = flight;
        let Some(link) = self.cluster.open_data(node) else {
            return self.lose(node, &ConnectionError::lost("the connection is gone"));
        };
        let answer = link.receive::<FetchRequest>(version);
        let received = link.received();
        match answer {
            Ok(None) if received != flight.received => {
                // A part has arrived: the timeout starts again.
                let since = self.clock.elapsed();
                let flight = FetchInFlight {
                    since,
                    received,
                    ..flight
                };
                self.flights.insert(node, flight);
            }
            Ok(None) if self.clock.elapsed() > since + self.answer_timeout.time() => {
                let waited = self.answer_timeout.time();
                self.answer_timeout.missed();
                let why = format!("broker {node}: no answer for {waited:?}");
                self.lose(node, &ConnectionError::lost(why));
            }
            Ok(None) => {}
            Err(why) => self.lose(node, &why),
            Ok(Some(answer)) => match FetchResponse::decode(&mut answer.clone(), version) {
                Ok(said) => {
                    self.flights.remove(&node);
                    self.answer_timeout.answered();
                    link.note(&said);
                    self.note_answer(node, &said);
                    self.answers.insert(node, answer);
                    self.take(node, said);
                }
                Err(e) => self.lose(node, &ConnectionError::lost(format!("broker {node}: {e}"))),
            },
        }
    }

    /// Records how long an answer took, including the wait for records.
    fn note_answer(&mut self, node: Node, answer: &FetchResponse) {
        const LONGEST: Duration = Duration::from_millis(4);
        let mut partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
        let came = partitions.any(|p| {
            p.records
                .as_ref()
                .is_some_and(|records| !records.is_empty())
        });
        if let Some(asked) = self.asked.get(&node).filter(|_| came) {
            let took = self.clock.elapsed().saturating_sub(*asked).min(LONGEST);
            let usual = self.usual.entry(node).or_insert(took);
            *usual = *usual * 7 / 8 + took / 8;
        }
    }

    /// The broker can't be read from: another one may lead its partitions by now.
    fn lose(&mut self, node: Node, why: &ConnectionError) {
        self.cluster.drop_data(node, why);
        if why.is_final() {
            self.note(unreachable(&self.address, "reading", why));
        }
        self.flights.remove(&node);
        self.usual.remove(&node);
        self.slots.lose(node);
        self.retry_leader_lookup();
    }

    fn retry_leader_lookup(&mut self) {
        self.look_at = self
            .look_at
            .max(self.clock.elapsed() + METADATA_RETRY_PAUSE);
    }

    /// Requests the leaders.
    fn request_leaders(&mut self) {
        let answer = self
            .cluster
            .metadata(&self.slots.unled_topics(), SIDE_REQUEST_TIMEOUT);
        self.retry_leader_lookup();
        let learned = match answer {
            Ok(answer) => self.slots.learn(&answer),
            Err(why) => {
                tracing::debug!(target: "stoatflow::kafka", "nobody says who leads: {why}");
                if why.is_final() {
                    self.note(unreachable(&self.address, "reading", &why));
                }
                return;
            }
        };
        let still = |index: &usize| learned.missing.iter().any(|(gone, _)| gone == index);
        self.missing
            .retain(|index, (_, code)| *code == UNKNOWN_SERVER_ERROR || still(index));
        for (index, code) in learned.missing {
            if classify(code) == ErrorClass::Refused {
                self.note_code(index, code, "refused");
            } else {
                self.miss(index, UNKNOWN_TOPIC_OR_PARTITION);
            }
        }
        for index in learned.replaced {
            let partition = &self.slots.all[index].partition;
            let error = Error::new(
                ErrorKind::Incompatible,
                format!(
                    "reading: {partition} was deleted while it was read, and another topic has its name now"
                ),
            );
            self.note(error.hint(
                "reset the application (docs: reset), or give it another \
                application.id: positions of the old topic mean nothing in the new one",
            ));
        }
    }

    /// Passes up to `max` records to `each`. Waits for the first.
    fn rounds(
        &mut self,
        max: usize,
        timeout: Duration,
        mut each: impl FnMut(u32, Record<'_>) -> Result<(), UnreadableBatch>,
    ) -> Result<()> {
        let clock = self.cluster.stopwatch();
        loop {
            if max == 0 {
                return Ok(());
            }
            let rest = self.pump(timeout.saturating_sub(clock.elapsed()));
            let (given, unreadable) = self.slots.deliver(max, &mut each);
            if let Some((index, why)) = unreadable {
                self.note_unreadable(index, &why);
            }
            if let Some(error) = self.trouble.take() {
                return Err(error);
            }
            let left = timeout.saturating_sub(clock.elapsed());
            if given > 0 || left.is_zero() {
                return Ok(());
            }
            let most = if self.slots.is_unled() {
                let soon = self.look_at.saturating_sub(self.clock.elapsed());
                rest.min(soon.max(Duration::from_millis(1)))
            } else {
                rest
            };
            let nodes = self.flights.keys().copied();
            self.cluster.wait_or_connected(nodes, left.min(most));
        }
    }
}

impl Consumer for NativeConsumer {
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> Result<()> {
        self.admin.must_have(partitions, LOOK_UP)?;
        self.place(partitions);
        Ok(())
    }

    fn poll(
        &mut self,
        max: usize,
        timeout: Duration,
        into: &mut Vec<ConsumerRecord>,
    ) -> Result<()> {
        let mut blocks = std::mem::take(&mut self.blocks);
        let outcome = self.rounds(max, timeout, |slot, record| {
            let headers = record.headers()?;
            let (key, value) = blocks.copy(record.key, record.value);
            into.push(ConsumerRecord {
                slot,
                offset: Offset(record.offset),
                timestamp: Timestamp(record.timestamp),
                key,
                value,
                headers,
                number: 0,
            });
            Ok(())
        });
        self.blocks = blocks;
        outcome
    }

    fn poll_borrowed(
        &mut self,
        max: usize,
        timeout: Duration,
        each: &mut dyn FnMut(RecordRef<'_>),
    ) -> Result<()> {
        self.rounds(max, timeout, |slot, record| {
            each(RecordRef {
                slot,
                offset: Offset(record.offset),
                timestamp: Timestamp(record.timestamp),
                key: record.key,
                value: record.value,
                headers: record.raw_headers(),
            });
            Ok(())
        })
    }

    fn positions(&self) -> Vec<Offset> {
        let slots = self.slots.all.iter();
        slots.map(|slot| Offset(slot.position)).collect()
    }

    fn leader_epoch(&self, slot: u32, before: Offset) -> Option<i32> {
        self.slots.all.get(slot as usize)?.epoch_before(before.0)
    }

    fn caught_up(&self, slot: u32) -> bool {
        let slot = self.slots.all.get(slot as usize);
        slot.is_some_and(FetchState::has_caught_up)
    }

    fn defer_fetch(&mut self, time: Option<Duration>) {
        self.deferred = time.map(|time| self.clock.elapsed() + time);
    }

    fn has_asked(&self) -> bool {
        !self.flights.is_empty()
    }

    fn usual_answer(&self) -> Duration {
        self.usual.values().max().copied().unwrap_or_default()
    }

    fn pause(&mut self, slots: &[u32], paused: bool) -> Result<()> {
        let all = &mut self.slots.all;
        if let Some(slot) = slots.iter().find(|slot| **slot as usize >= all.len()) {
            return Err(Error::internal(format!("slot {slot} is not assigned")));
        }
        for slot in slots {
            all[*slot as usize].paused = paused;
        }
        Ok(())
    }
}
