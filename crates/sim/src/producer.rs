//! The simulated broker's producer: a client buffer and the requests that drain it.
//!
//! Buffers records like a client until they are delivered, and keeps acknowledgements. The buffer is
//! lost with the process. Never fails by itself; see [`crate::faults`].

use crate::broker::SimBroker;
use crate::transaction::Writer;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Offset, Partition, Result};
use stoatflow_log::{CommitOutcome, CutEntry, Producer, ProducerRecord};

/// See the module.
#[derive(Debug)]
pub(crate) struct SimProducer {
    broker: SimBroker,
    writer: Writer,
    transactional: bool,
    begun: bool,
    /// The client knows that it is fenced, and fails from then on without a request.
    fenced: bool,
    buffer: VecDeque<ProducerRecord>,
    remembered: BTreeMap<Arc<str>, BTreeMap<Partition, Offset>>,
    /// Records of this topic are written outside the transaction: a mutation.
    outside: Option<&'static str>,
}

impl SimProducer {
    pub fn new(broker: SimBroker, writer: Writer, transactional: bool) -> Self {
        Self {
            broker,
            writer,
            transactional,
            begun: false,
            fenced: false,
            buffer: VecDeque::new(),
            remembered: BTreeMap::new(),
            outside: None,
        }
    }

    /// Writes records of a topic outside of its transactions.
    pub fn writing_outside(mut self, topic: Option<&'static str>) -> Self {
        self.outside = topic;
        self
    }

    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Size of the keys and values in the buffer.
    pub fn buffered_bytes(&self) -> usize {
        let size = |part: &Option<bytes::Bytes>| part.as_ref().map_or(0, bytes::Bytes::len);
        let buffer = self.buffer.iter();
        buffer.map(|r| size(&r.key) + size(&r.value)).sum()
    }

    /// Delivers this many buffered records to the broker. `draw` chooses the topic of each: a number
    /// below its argument. Topics overtake each other, as on brokers that answer at different times;
    /// within a topic the order is kept.
    pub fn deliver(&mut self, count: usize, mut draw: impl FnMut(usize) -> usize) -> Result<()> {
        for _ in 0..count {
            let Some(drawn) = self.buffer.get(draw(self.buffer.len())) else {
                break;
            };
            let topic = Arc::clone(&drawn.topic);
            let first = self.buffer.iter().position(|r| r.topic == topic);
            let Some(record) = first.and_then(|at| self.buffer.remove(at)) else {
                break;
            };
            self.append(record)?;
        }
        Ok(())
    }

    fn append(&mut self, record: ProducerRecord) -> Result<()> {
        let inside = self.transactional && self.outside != Some(&*record.topic);
        let writer = inside.then_some(&self.writer);
        let appended = self.broker.lock().append(record, writer);
        let (partition, offset) = self.note(appended)?;
        if let Some(topic) = self.remembered.get_mut(&partition.topic) {
            topic.insert(partition.partition, Offset(offset.0 + 1));
        }
        Ok(())
    }

    fn note<T>(&mut self, outcome: Result<T>) -> Result<T> {
        outcome.inspect_err(|e| self.fenced |= e.kind() == stoatflow_core::ErrorKind::Fenced)
    }

    fn expect_begun(&self, call: &str) -> Result<()> {
        if self.fenced {
            return Err(Error::fenced("this producer was fenced by a newer one"));
        }
        if self.begun {
            return Ok(());
        }
        Err(Error::internal(format!("'{call}' outside a transaction")))
    }

    fn end(&mut self, commit: bool) -> Result<()> {
        self.begun = false;
        let mut state = self.broker.lock();
        let finished = state.coordinator.finish(&self.writer);
        if let Ok(Some(open)) = finished {
            state.end(open, commit);
            return Ok(());
        }
        drop(state);
        self.note(finished.map(drop))
    }
}

impl Producer for SimProducer {
    fn sends_are_fenced(&self) -> bool {
        self.transactional
    }

    fn begin(&mut self) -> Result<()> {
        if self.fenced {
            return Err(Error::fenced("this producer was fenced by a newer one"));
        }
        if std::mem::replace(&mut self.begun, true) {
            return Err(Error::internal("'begin' inside a transaction"));
        }
        Ok(())
    }

    fn send(&mut self, records: &mut Vec<ProducerRecord>) -> Result<()> {
        if self.transactional {
            self.expect_begun("send")?;
        }
        self.buffer.extend(records.drain(..));
        Ok(())
    }

    fn flush(&mut self, _timeout: Duration) -> Result<()> {
        while let Some(record) = self.buffer.pop_front() {
            self.append(record)?;
        }
        Ok(())
    }

    fn offsets(&mut self, group: &str, cut: &[CutEntry], _timeout: Duration) -> Result<()> {
        self.expect_begun("offsets")?;
        let mut state = self.broker.lock();
        let added = state.coordinator.current(&self.writer).map(|open| {
            open.offsets
                .extend(cut.iter().map(|entry| (group.to_owned(), entry.clone())));
        });
        drop(state);
        self.note(added)
    }

    fn commit(&mut self, timeout: Duration) -> Result<CommitOutcome> {
        self.expect_begun("commit")?;
        // As with Kafka, a commit doesn't wait for records outside the transaction.
        if self.transactional {
            self.flush(timeout)?;
        }
        self.end(true)?;
        Ok(CommitOutcome::Committed)
    }

    fn abort(&mut self, _timeout: Duration) -> Result<()> {
        self.expect_begun("abort")?;
        if self.transactional {
            self.buffer.clear();
        }
        self.end(false)
    }

    fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)> {
        let found = self.remembered.get(topic);
        found
            .map(|t| t.iter().map(|(p, o)| (*p, *o)).collect())
            .unwrap_or_default()
    }

    fn remember(&mut self, topics: &[Arc<str>]) {
        self.remembered = topics
            .iter()
            .map(|t| (Arc::clone(t), BTreeMap::new()))
            .collect();
    }
}
