//! Writes the inputs, plainly or in transactions of its own, some of which are aborted.
//!
//! Sends the job's records to the broker in order, a few at a time. An open transaction of another
//! producer blocks the records behind it, and records of an aborted one must never be counted.

use crate::broker::SimBroker;
use crate::producer::SimProducer;
use crate::rng::SimRng;
use std::collections::VecDeque;
use std::time::Duration;
use stoatflow_core::Result;
use stoatflow_log::{Producer, ProducerMode, ProducerRecord};

/// See the module.
#[derive(Debug)]
pub(crate) struct Feeder {
    rng: SimRng,
    remaining: VecDeque<ProducerRecord>,
    plain_producer: SimProducer,
    transactional_producer: SimProducer,
    /// Records of the open transaction, to be sent again if it is aborted.
    open: Option<Vec<ProducerRecord>>,
}

fn mode(id: &str, transactional: bool) -> ProducerMode {
    let (id, timeout) = (id.to_owned(), Duration::from_secs(60));
    if transactional {
        ProducerMode::Transactional { id, timeout }
    } else {
        ProducerMode::Plain { id, timeout }
    }
}

impl Feeder {
    pub fn new(rng: SimRng, broker: &SimBroker, inputs: Vec<ProducerRecord>) -> Self {
        Self {
            rng,
            remaining: inputs.into(),
            plain_producer: broker.open_producer(&mode("outside", false)),
            transactional_producer: broker.open_producer(&mode("stranger", true)),
            open: None,
        }
    }

    pub fn is_done(&self) -> bool {
        self.remaining.is_empty() && self.open.is_none()
    }

    /// Sends some records, or ends the open transaction.
    ///
    /// # Errors
    /// Errors of the broker, which are bugs of the simulator.
    pub fn feed(&mut self) -> Result<()> {
        if let Some(sent) = self.open.take() {
            if self.rng.chance(6000) {
                self.transactional_producer.commit(Duration::ZERO)?;
            } else {
                self.transactional_producer.abort(Duration::ZERO)?;
                // The order per partition is kept, since nothing else was sent meanwhile.
                sent.into_iter()
                    .rev()
                    .for_each(|record| self.remaining.push_front(record));
            }
            return Ok(());
        }
        let count = (1 + self.rng.index(12)).min(self.remaining.len());
        let mut records: Vec<ProducerRecord> = self.remaining.drain(..count).collect();
        if self.rng.chance(3000) {
            self.transactional_producer.begin()?;
            self.transactional_producer.send(&mut records.clone())?;
            self.transactional_producer.flush(Duration::ZERO)?;
            self.open = Some(records);
            return Ok(());
        }
        self.plain_producer.send(&mut records)?;
        self.plain_producer.flush(Duration::ZERO)
    }
}
