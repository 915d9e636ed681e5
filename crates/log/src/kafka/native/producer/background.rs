//! A writer that nobody drives: what is sent is acknowledged when `send` returns.
//!
//! For workers of `offload`, which answer in batches and have no loop that would look after a producer.

use super::idempotent::IdempotentProducer;
use crate::{CommitOutcome, CutEntry, Producer, ProducerRecord};
use std::time::Duration;
use stoatflow_core::{Offset, Partition, Result, Timestamp};

/// A writer outside of transactions that waits for every batch.
#[derive(Debug)]
pub(in crate::kafka) struct BackgroundProducer {
    inner: IdempotentProducer,
    patience: Duration,
}

impl BackgroundProducer {
    /// On an open writer; waits at most so long for acknowledgements.
    pub(in crate::kafka) const fn new(inner: IdempotentProducer, patience: Duration) -> Self {
        Self { inner, patience }
    }
}

impl Producer for BackgroundProducer {
    fn sends_are_fenced(&self) -> bool {
        self.inner.sends_are_fenced()
    }

    fn begin(&mut self) -> Result<()> {
        self.inner.begin()
    }

    fn send(&mut self, records: &mut Vec<ProducerRecord>) -> Result<()> {
        self.inner.send(records)?;
        self.inner.flush(self.patience)
    }

    fn flush(&mut self, timeout: Duration) -> Result<()> {
        self.inner.flush(timeout)
    }

    fn offsets(&mut self, group: &str, cut: &[CutEntry], timeout: Duration) -> Result<()> {
        self.inner.offsets(group, cut, timeout)
    }

    fn commit(&mut self, timeout: Duration) -> Result<CommitOutcome> {
        self.inner.commit(timeout)
    }

    fn abort(&mut self, timeout: Duration) -> Result<()> {
        self.inner.abort(timeout)
    }

    fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)> {
        self.inner.acknowledged(topic)
    }

    fn append_time(&self) -> Option<Timestamp> {
        self.inner.append_time()
    }
}
