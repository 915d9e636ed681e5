//! Two transactional clients in turn: one transaction is on its way while the broker still ends the one before.
//!
//! Takes what a [`Producer`] takes; gives each transaction to the client that did not commit the last one. Owns both
//! clients and whose turn it is. Never begins a transaction before the broker has said that the last one is committed, so
//! their order is that of one client.
//!
//! After a commit the broker writes markers into every partition of the transaction, and refuses what the same
//! transactional id wants to add meanwhile. Of another id it knows no such wait. What a newcomer must fence are both
//! ids, whichever way it commits itself.

use super::admin::Admin;
use super::produce::KafkaProducer;
use super::properties::Properties;
use crate::{CommitOutcome, CutEntry, Outgoing, Producer, ProducerMode};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Offset, Partition, Result, SystemClock};

/// Behind `application.id`, where no character of another application's id can be.
const SECOND: &str = "~2";

/// Opens a producer that sends outside of transactions: it needs one id to guard its offsets, and fences both, for an
/// older instance may have used both.
pub(super) fn plain(
    properties: &Properties,
    admin: &Arc<Admin>,
    mode: &ProducerMode,
    timeout: Duration,
) -> Result<KafkaProducer> {
    let clock = SystemClock::new();
    let (ProducerMode::Plain {
        id,
        timeout: silence,
    }
    | ProducerMode::Transactional {
        id,
        timeout: silence,
    }) = mode;
    let second = ProducerMode::Transactional {
        id: second_id(id),
        timeout: *silence,
    };
    let producer = KafkaProducer::new(properties, Arc::clone(admin), mode)?;
    let second = KafkaProducer::new(properties, Arc::clone(admin), &second)?;
    for client in [&producer, &second] {
        client.open(timeout.saturating_sub(clock.monotonic()))?;
    }
    Ok(producer)
}

/// The transactional id of the second client.
fn second_id(id: &str) -> String {
    format!("{id}{SECOND}")
}

/// A producer with two transactional clients.
#[derive(Debug)]
pub(super) struct Turns {
    sides: [KafkaProducer; 2],
    turn: usize,
    /// Did the last transaction of the side whose turn it is end with a commit? A side that failed keeps its turn, and
    /// goes on to say why.
    committed: bool,
}

impl Turns {
    /// Takes both ids over.
    pub(super) fn open(
        properties: &Properties,
        admin: &Arc<Admin>,
        id: &str,
        silence: Duration,
        timeout: Duration,
    ) -> Result<Self> {
        let clock = SystemClock::new();
        let side = |id| {
            let mode = ProducerMode::Transactional {
                id,
                timeout: silence,
            };
            KafkaProducer::new(properties, Arc::clone(admin), &mode)
        };
        // Both connect while the first one is opened.
        let sides = [side(id.to_owned())?, side(second_id(id))?];
        for side in &sides {
            side.open(timeout.saturating_sub(clock.monotonic()))?;
        }
        Ok(Self {
            sides,
            turn: 0,
            committed: false,
        })
    }

    const fn side(&mut self) -> &mut KafkaProducer {
        &mut self.sides[self.turn]
    }
}

impl Producer for Turns {
    fn sends_are_fenced(&self) -> bool {
        true
    }

    fn begin(&mut self) -> Result<()> {
        if std::mem::take(&mut self.committed) {
            self.turn = 1 - self.turn;
        }
        self.side().begin()
    }

    fn send(&mut self, records: &mut Vec<Outgoing>) -> Result<()> {
        self.side().send(records)
    }

    fn pursue(&mut self) -> Result<usize> {
        self.side().pursue()
    }

    fn flush(&mut self, timeout: Duration) -> Result<()> {
        self.side().flush(timeout)
    }

    fn offsets(&mut self, group: &str, cut: &[CutEntry], timeout: Duration) -> Result<()> {
        self.side().offsets(group, cut, timeout)
    }

    fn commit(&mut self, timeout: Duration) -> Result<CommitOutcome> {
        let outcome = self.side().commit(timeout)?;
        self.committed = outcome == CommitOutcome::Committed;
        Ok(outcome)
    }

    fn abort(&mut self, timeout: Duration) -> Result<()> {
        self.side().abort(timeout)
    }

    fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)> {
        let mut ends = BTreeMap::new();
        for (partition, end) in self.sides.iter().flat_map(|side| side.acknowledged(topic)) {
            let known = ends.entry(partition).or_insert(end);
            *known = end.max(*known);
        }
        ends.into_iter().collect()
    }

    fn remember(&mut self, topics: &[Arc<str>]) {
        for side in &mut self.sides {
            side.remember(topics);
        }
    }
}
