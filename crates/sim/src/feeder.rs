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
    left: VecDeque<ProducerRecord>,
    plain: SimProducer,
    stranger: SimProducer,
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
            left: inputs.into(),
            plain: broker.open_producer(&mode("outside", false)),
            stranger: broker.open_producer(&mode("stranger", true)),
            open: None,
        }
    }

    pub fn is_done(&self) -> bool {
        self.left.is_empty() && self.open.is_none()
    }

    /// Sends some records, or ends the open transaction.
    ///
    /// # Errors
    /// Errors of the broker, which are bugs of the simulator.
    pub fn feed(&mut self) -> Result<()> {
        if let Some(sent) = self.open.take() {
            if self.rng.chance(6000) {
                self.stranger.commit(Duration::ZERO)?;
            } else {
                self.stranger.abort(Duration::ZERO)?;
                // The order per partition is kept, since nothing else was sent meanwhile.
                sent.into_iter()
                    .rev()
                    .for_each(|record| self.left.push_front(record));
            }
            return Ok(());
        }
        let count = (1 + self.rng.index(12)).min(self.left.len());
        let mut records: Vec<ProducerRecord> = self.left.drain(..count).collect();
        if self.rng.chance(3000) {
            self.stranger.begin()?;
            self.stranger.send(&mut records.clone())?;
            self.stranger.flush(Duration::ZERO)?;
            self.open = Some(records);
            return Ok(());
        }
        self.plain.send(&mut records)?;
        self.plain.flush(Duration::ZERO)
    }
}
