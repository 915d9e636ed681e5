//! Two transactional clients that alternate: one transaction is written while the broker still completes
//! the one before.
//!
//! Takes the calls of a [`Producer`]; passes each transaction to the client that did not commit the last
//! one. Owns both clients and whose turn it is. Never begins a transaction before the broker has
//! answered that the last one is committed, so the order of transactions is that of one client.
//!
//! After a commit the broker writes markers into every partition of the transaction, and until then
//! refuses what the same transactional id adds to the next one. Another id doesn't have to wait. A new
//! instance must fence both ids, whichever mode it uses itself.

use super::native::{self, NativeConfig};
use super::properties::Properties;
use super::transactional_side::TransactionalSide;
use crate::kafka::admin::AdminClient;
use crate::kafka::librdkafka::producer::KafkaProducer;
use crate::{CommitOutcome, CutEntry, Producer, ProducerMode, ProducerRecord};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::settings::ClientRole;
use stoatflow_core::{Clock, Error, ErrorKind, Offset, Partition, Result, SystemClock, Timestamp};

/// Suffix of `application.id`; its character is illegal in the id of another application.
const SECOND_ID_SUFFIX: &str = "~2";

/// The transactional ids of an application.
pub(super) fn transactional_ids(application: &str) -> [String; 2] {
    [
        application.to_owned(),
        format!("{application}{SECOND_ID_SUFFIX}"),
    ]
}

/// A producer with two transactional clients.
#[derive(Debug)]
struct AlternatingProducer<S> {
    sides: [S; 2],
    /// The side whose transaction is open or comes next. A side that failed keeps its turn, and goes on
    /// to report why.
    turn: usize,
    /// Topics whose ends both sides must know.
    remembered: Vec<Arc<str>>,
}

/// Takes over both ids, in either mode: an older instance may have used both. A producer that writes
/// outside of transactions needs only one of them afterwards, for its offsets.
pub(super) fn open(
    properties: &Properties,
    admin: &Arc<dyn AdminClient>,
    mode: &ProducerMode,
    timeout: Duration,
) -> Result<Box<dyn Producer>> {
    let (id, silence, transactional) = (mode.id(), mode.timeout(), mode.is_transactional());
    let clock = SystemClock::new();
    let left = || timeout.saturating_sub(clock.monotonic());
    let [_, second] = transactional_ids(id);
    // The native client has no thread of its own.
    let background = matches!(mode, ProducerMode::Background { .. });
    if let Some(native) = properties.native(ClientRole::Producer) {
        if !background || !properties.answers_by_librdkafka() {
            let ids = [id, &second];
            return by_native(
                &native.config,
                ids,
                silence,
                transactional,
                left,
                background,
            );
        }
        tracing::info!(target: "stoatflow::kafka", "librdkafka sends the answers of this worker: it sends in the background, and the native client would wait for each answer; kafka.client = native uses the native client for them too");
    }
    let second = ProducerMode::Transactional {
        id: second,
        timeout: silence,
    };
    let side = |mode| KafkaProducer::new(properties, Arc::clone(admin), mode);
    // Both connect while the first one is being opened.
    let sides = [side(mode)?, side(&second)?];
    for side in &sides {
        side.open(left())?;
    }
    if !transactional {
        let [guarded, _] = sides;
        return Ok(Box::new(guarded));
    }
    Ok(Box::new(AlternatingProducer::new(sides)))
}

/// Takes over both ids with the native client.
fn by_native(
    config: &NativeConfig,
    ids: [&str; 2],
    silence: Duration,
    transactional: bool,
    left: impl Fn() -> Duration,
    background: bool,
) -> Result<Box<dyn Producer>> {
    let mut sides = ids.map(|id| native::producer(config, id, silence));
    for side in &mut sides {
        side.open(left())?;
    }
    if transactional {
        return Ok(Box::new(AlternatingProducer::new(sides)));
    }
    let [guard, _] = sides;
    let mut writer = native::plain(guard, config, ids[0], silence, background);
    writer.open(left())?;
    Ok(Box::new(writer))
}

impl<S: TransactionalSide> AlternatingProducer<S> {
    const fn new(sides: [S; 2]) -> Self {
        Self {
            sides,
            turn: 0,
            remembered: Vec::new(),
        }
    }

    /// Calls the side whose turn it is.
    ///
    /// The first id decides which instance owns the application: every instance takes it over first. If
    /// two start at the same instant, each may win one id, and the one that has the first goes on: the
    /// other one, which took over the second id, is fenced at its own first transaction.
    fn side<T>(&mut self, act: impl FnOnce(&mut S) -> Result<T>) -> Result<T> {
        let outcome = act(&mut self.sides[self.turn]);
        match outcome {
            Err(error) if error.kind() == ErrorKind::Fenced && self.turn == 1 => {
                if !self.sides[0].owns_its_id() {
                    return Err(error);
                }
                let lost = "another instance has begun, and taken the second transactional id, but \
                    not the first";
                Err(Error::unavailable(lost)
                    .hint("start again: this one goes on, and the other one stops")
                    .caused_by(error))
            }
            outcome => outcome,
        }
    }
}

impl<S: TransactionalSide> Producer for AlternatingProducer<S> {
    fn sends_are_fenced(&self) -> bool {
        true
    }

    fn begin(&mut self) -> Result<()> {
        self.side(S::begin)
    }

    fn send(&mut self, records: &mut Vec<ProducerRecord>) -> Result<()> {
        self.side(|side| side.send(records))
    }

    fn send_pending(&mut self) -> Result<usize> {
        self.side(S::send_pending)
    }

    fn flush(&mut self, timeout: Duration) -> Result<()> {
        self.side(|side| side.flush(timeout))
    }

    fn offsets(&mut self, group: &str, cut: &[CutEntry], timeout: Duration) -> Result<()> {
        self.side(|side| side.offsets(group, cut, timeout))
    }

    fn commit(&mut self, timeout: Duration) -> Result<CommitOutcome> {
        let outcome = self.side(|side| side.commit(timeout))?;
        if outcome == CommitOutcome::Committed {
            let [first, second] = &mut self.sides;
            let (own, other) = match self.turn {
                0 => (first, second),
                _ => (second, first),
            };
            for topic in &self.remembered {
                for (partition, end) in own.acknowledged(topic) {
                    other.expect_end_offset(topic, partition, end);
                }
            }
            self.turn = 1 - self.turn;
        }
        Ok(outcome)
    }

    fn abort(&mut self, timeout: Duration) -> Result<()> {
        self.side(|side| side.abort(timeout))
    }

    fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)> {
        let mut ends = BTreeMap::new();
        for (partition, end) in self.sides.iter().flat_map(|side| side.acknowledged(topic)) {
            let known = ends.entry(partition).or_insert(end);
            *known = end.max(*known);
        }
        ends.into_iter().collect()
    }

    fn append_time(&self) -> Option<Timestamp> {
        self.sides.iter().filter_map(Producer::append_time).max()
    }

    fn producer_ids(&self) -> Vec<i64> {
        let sides = self.sides.iter();
        sides.flat_map(Producer::producer_ids).collect()
    }

    fn rollovers(&self) -> u64 {
        self.sides.iter().map(Producer::rollovers).sum()
    }

    fn remember(&mut self, topics: &[Arc<str>]) {
        self.remembered = topics.to_vec();
        for side in &mut self.sides {
            side.remember(topics);
        }
    }

    fn expect_end_offset(&mut self, topic: &str, partition: Partition, end: Offset) {
        for side in &mut self.sides {
            side.expect_end_offset(topic, partition, end);
        }
    }
}
