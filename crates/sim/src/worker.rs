//! The worker behind an offload: reads requests, writes answers late, out of order, some of them twice.
//!
//! Runs independently of the application. Reads committed requests under at-least-once: it commits its
//! position after its answers are written, and answers again from there after a crash. It is away for a
//! while, repeats answers much later, and writes answers that no record waits for. Its answers are in
//! [`crate::workload::offloads`].

use crate::broker::SimBroker;
use crate::consumer::SimConsumer;
use crate::producer::SimProducer;
use crate::rng::SimRng;
use crate::workload::offloads::{ANSWERS, GARBLED, OffloadSettings, Patience, REQUESTS, Response};
use crate::world::World;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stoatflow_core::{
    Clock, Header, Headers, Offset, Partition, Result, Timestamp, TopicPartition,
};
use stoatflow_log::{Broker, Consumer, ConsumerRecord, Producer, ProducerMode, ProducerRecord};
use stoatflow_operators::offload::{ATTEMPT, CORRELATION, ERROR};

/// A request: partition and offset.
type RequestPosition = (usize, Offset);

/// See the module.
#[derive(Debug)]
pub(crate) struct Worker {
    rng: SimRng,
    settings: OffloadSettings,
    consumer: SimConsumer,
    producer: SimProducer,
    partitions: Vec<TopicPartition>,
    answers: u64,
    /// Divides the delays of its answers.
    speedup: u64,
    /// By the time at which they are written; the random second number breaks ties.
    pending: BTreeMap<(Duration, u64), (Option<RequestPosition>, ProducerRecord)>,
    /// Requests that were read and not answered yet.
    unanswered: BTreeSet<RequestPosition>,
    /// Positions from which it reads after a crash.
    committed: Vec<Offset>,
    away_until: Duration,
}

impl Worker {
    /// A worker for the requests on a broker.
    ///
    /// # Errors
    /// Errors of the broker, which are bugs of the simulator.
    pub fn new(mut rng: SimRng, broker: &SimBroker, settings: OffloadSettings) -> Result<Self> {
        let found = broker.topics(&[REQUESTS, ANSWERS], Duration::ZERO)?;
        let count = |at: usize| found[at].as_ref().map_or(0, |topic| topic.partitions);
        let requests = (0..count(0)).map(|partition| TopicPartition::new(REQUESTS, partition));
        let partitions: Vec<TopicPartition> = requests.collect();
        let mode = ProducerMode::Plain {
            id: "worker".to_owned(),
            timeout: Duration::from_secs(60),
        };
        let mut worker = Self {
            speedup: [1, 1, 8][rng.index(3)],
            rng,
            settings,
            consumer: SimConsumer::new(broker.clone()),
            producer: broker.open_producer(&mode),
            committed: vec![Offset(0); partitions.len()],
            partitions,
            answers: u64::from(count(1).unsigned_abs()),
            pending: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            away_until: Duration::ZERO,
        };
        worker.start_reading()?;
        Ok(worker)
    }

    /// Reads from the committed position.
    fn start_reading(&mut self) -> Result<()> {
        let from = self.partitions.iter().cloned();
        let from: Vec<_> = from.zip(self.committed.iter().copied()).collect();
        self.consumer.assign(&from)
    }

    /// Whether the worker gets a turn now; random.
    pub fn wants_a_turn(&mut self) -> bool {
        self.rng.chance(800)
    }

    /// Whether it has read all requests and written all answers.
    pub fn is_idle(&self) -> bool {
        let mut slots = (0..).take(self.partitions.len());
        self.pending.is_empty() && slots.all(|slot| self.consumer.caught_up(slot))
    }

    /// Does some of its work.
    ///
    /// # Errors
    /// Errors of the broker, which are bugs of the simulator.
    pub fn turn(&mut self, world: &World) -> Result<()> {
        let (now, troubled) = (world.clock.monotonic(), !world.is_healed());
        if troubled && self.rng.chance(60) {
            world.event("the worker crashes".into());
            world.count("crashes of a worker");
            self.pending.clear();
            self.unanswered.clear();
            self.start_reading()?;
        }
        if troubled && self.rng.chance(40) {
            let ms = self.rng.between(100, 3_000);
            world.event(format!("the worker is away for {ms}"));
            self.away_until = now + Duration::from_millis(ms);
        }
        if troubled && now < self.away_until {
            return Ok(());
        }
        let mut requests = Vec::new();
        for slot in 0..self.partitions.len() {
            let most = if troubled { self.rng.index(20) } else { 50 };
            self.consumer.read(slot, most, &mut requests)?;
        }
        for request in requests {
            self.receive(&request, now, world);
        }
        self.write_due(now, world)?;
        if self.rng.chance(3000) {
            self.commit();
        }
        Ok(())
    }

    fn receive(&mut self, request: &ConsumerRecord, now: Duration, world: &World) {
        let position = (request.slot as usize, request.offset);
        let request_text = request.value.as_deref().map(String::from_utf8_lossy);
        let request_text = request_text.unwrap_or_default();
        let attempt = header(&request.headers, ATTEMPT).and_then(|text| text.parse().ok());
        let response = self.settings.response(&request_text, attempt.unwrap_or(0));
        let (what, value, error) = match response {
            Response::Answer(answer) => ("answered", Bytes::from(answer), None),
            Response::Error(error) => ("answered with an error", Bytes::new(), Some(error)),
            Response::Garbled => (
                "answered in garbled bytes",
                Bytes::from_static(GARBLED),
                None,
            ),
            Response::Nothing => {
                world.count("requests that were not answered");
                return;
            }
        };
        let correlation = header(&request.headers, CORRELATION).unwrap_or_default();
        world.event(format!(
            "'{request_text}' ({correlation} #{attempt:?}) will be {what}"
        ));
        world.count(&format!("requests that were {what}"));
        let mut answer = ProducerRecord {
            topic: ANSWERS.into(),
            partition: self.partition(),
            key: request.key.clone(),
            value: Some(value),
            timestamp: Timestamp(0),
            headers: request.headers.clone(),
        };
        if let Some(error) = error {
            answer.headers = with_header(&answer.headers, ERROR, &error);
        }
        self.unanswered.insert(position);
        let after = self.answer_delay();
        if self.rng.chance(1000) {
            world.count("answers that were repeated");
            let later = after + self.answer_delay() * 3;
            self.schedule(now + later, None, answer.clone());
        }
        if self.rng.chance(500) {
            world.count("answers to nobody");
            let unexpected = self.unexpected_answer(answer.clone());
            self.schedule(now + after, None, unexpected);
        }
        self.schedule(now + after, Some(position), answer);
    }

    /// A worker may use a partitioner of its own.
    fn partition(&mut self) -> Option<Partition> {
        let anywhere = Partition(i32::try_from(self.rng.below(self.answers)).unwrap_or(0));
        self.rng.chance(2000).then_some(anywhere)
    }

    fn schedule(
        &mut self,
        at: Duration,
        position: Option<RequestPosition>,
        answer: ProducerRecord,
    ) {
        let chance = self.rng.below(1 << 40);
        self.pending.insert((at, chance), (position, answer));
    }

    /// Delay of an answer.
    fn answer_delay(&mut self) -> Duration {
        let wait = match self.settings.patience {
            Patience::Forever => 400,
            Patience::Endless(ms) | Patience::Limited(ms, _) => ms.unsigned_abs(),
        };
        let ms = match self.rng.below(20) {
            0..=3 => 0,
            4..=13 => self.rng.between(1, 30),
            14..=17 => self.rng.between(1, wait / 2),
            _ => self.rng.between(wait / 2, wait + wait / 2),
        };
        Duration::from_millis(ms / self.speedup)
    }

    /// An answer that no record waits for.
    fn unexpected_answer(&mut self, answer: ProducerRecord) -> ProducerRecord {
        let value = Some(Bytes::from_static(b"for nobody"));
        let answer = ProducerRecord { value, ..answer };
        match self.rng.below(4) {
            0 => ProducerRecord {
                headers: None,
                ..answer
            },
            1 => ProducerRecord {
                headers: with_header(&answer.headers, CORRELATION, "elsewhere/1"),
                ..answer
            },
            2 => ProducerRecord {
                headers: with_header(&answer.headers, CORRELATION, "jobs/1"),
                ..answer
            },
            _ => ProducerRecord {
                key: Some(Bytes::from_static(b"nobody")),
                ..answer
            },
        }
    }

    fn write_due(&mut self, now: Duration, world: &World) -> Result<()> {
        let mut due = Vec::new();
        while let Some(first) = self.pending.first_entry() {
            if first.key().0 > now {
                break;
            }
            let (position, mut answer) = first.remove();
            answer.timestamp = world.clock.now();
            if let Some(position) = position {
                self.unanswered.remove(&position);
            }
            due.push(answer);
        }
        if due.is_empty() {
            return Ok(());
        }
        world.event(format!("the worker writes {} answers", due.len()));
        self.producer.send(&mut due)?;
        self.producer.flush(Duration::ZERO)
    }

    /// Commits the positions up to the first unanswered request.
    fn commit(&mut self) {
        self.committed = self.consumer.positions();
        for (slot, offset) in &self.unanswered {
            let committed = &mut self.committed[*slot];
            *committed = (*committed).min(*offset);
        }
    }
}

/// The text of the last header of this name.
pub(crate) fn header(headers: &Headers, name: &str) -> Option<String> {
    let all = headers.as_deref().unwrap_or_default();
    let found = all.iter().rev().find(|header| &*header.name == name)?;
    Some(String::from_utf8_lossy(found.value.as_deref()?).into_owned())
}

/// Appends a header; the last one of a name counts.
fn with_header(headers: &Headers, name: &str, value: &str) -> Headers {
    let own = Header {
        name: name.into(),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
    };
    let others = headers.as_deref().unwrap_or_default().iter().cloned();
    Some(others.chain([own]).collect())
}
