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

/// A producer with two transactional clients.
#[derive(Debug)]
struct Turns {
    sides: [KafkaProducer; 2],
    /// Whose the transaction is that is open, or comes next. A side that failed keeps its turn, and goes on to say why.
    turn: usize,
}

/// Takes both ids over, in either mode: an older instance may have used both. One that sends outside of transactions
/// needs only one afterwards, to guard its offsets.
pub(super) fn open(
    properties: &Properties,
    admin: &Arc<Admin>,
    mode: &ProducerMode,
    timeout: Duration,
) -> Result<Box<dyn Producer>> {
    let (ProducerMode::Transactional {
        id,
        timeout: silence,
    }
    | ProducerMode::Plain {
        id,
        timeout: silence,
    }) = mode;
    let second = ProducerMode::Transactional {
        id: format!("{id}{SECOND}"),
        timeout: *silence,
    };
    let clock = SystemClock::new();
    let side = |mode| KafkaProducer::new(properties, Arc::clone(admin), mode);
    // Both connect while the first one is opened.
    let sides = [side(mode)?, side(&second)?];
    for side in &sides {
        side.open(timeout.saturating_sub(clock.monotonic()))?;
    }
    Ok(match mode {
        ProducerMode::Transactional { .. } => Box::new(Turns { sides, turn: 0 }),
        ProducerMode::Plain { .. } => {
            let [guarded, _] = sides;
            Box::new(guarded)
        }
    })
}

impl Turns {
    const fn side(&mut self) -> &mut KafkaProducer {
        &mut self.sides[self.turn]
    }
}

impl Producer for Turns {
    fn sends_are_fenced(&self) -> bool {
        true
    }

    fn begin(&mut self) -> Result<()> {
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
        if outcome == CommitOutcome::Committed {
            self.turn = 1 - self.turn;
        }
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
