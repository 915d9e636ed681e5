//! The producer of one process: buffered records may reach the broker at any time, and any call may be
//! the last one.

use super::{Fault, FaultPoint};
use crate::producer::SimProducer;
use crate::world::Instance;
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Clock, Offset, Partition, Result, Timestamp};
use stoatflow_log::{CommitOutcome, CutEntry, Producer, ProducerRecord};

/// See the module.
#[derive(Debug)]
pub(crate) struct FaultyProducer {
    instance: Arc<Instance>,
    producer: SimProducer,
    /// Time of the last flush.
    append_time: Option<Timestamp>,
}

impl FaultyProducer {
    pub fn new(instance: Arc<Instance>, producer: SimProducer) -> Self {
        Self {
            instance,
            producer,
            append_time: None,
        }
    }

    /// Delivers some of the buffered records to the broker.
    fn deliver_some(&mut self) -> Result<()> {
        let world = &self.instance.world;
        let some = world.below(self.producer.buffered() + 1);
        self.producer.deliver(some, |count| world.below(count))
    }
}

impl Producer for FaultyProducer {
    fn sends_are_fenced(&self) -> bool {
        self.producer.sends_are_fenced()
    }

    fn begin(&mut self) -> Result<()> {
        let Self {
            instance, producer, ..
        } = self;
        instance.call(FaultPoint::Begin, || producer.begin())
    }

    fn send(&mut self, records: &mut Vec<ProducerRecord>) -> Result<()> {
        let fault = self.instance.draw_fault(FaultPoint::Send)?;
        let instance = Arc::clone(&self.instance);
        instance.call_as(FaultPoint::Send, fault, || {
            self.producer.send(records)?;
            self.deliver_some()
        })
    }

    fn send_pending(&mut self) -> Result<usize> {
        self.deliver_some()?;
        Ok(self.producer.buffered_bytes())
    }

    fn flush(&mut self, timeout: Duration) -> Result<()> {
        let fault = self.instance.draw_fault(FaultPoint::Flush)?;
        if matches!(fault, Fault::CrashBefore | Fault::FailBefore) {
            self.deliver_some()?;
        }
        let now = self.instance.world.clock.now();
        self.instance
            .call_as(FaultPoint::Flush, fault, || self.producer.flush(timeout))?;
        self.append_time = Some(now);
        Ok(())
    }

    fn offsets(&mut self, group: &str, cut: &[CutEntry], timeout: Duration) -> Result<()> {
        let Self {
            instance, producer, ..
        } = self;
        instance.call(FaultPoint::Offsets, || {
            producer.offsets(group, cut, timeout)
        })
    }

    fn commit(&mut self, timeout: Duration) -> Result<CommitOutcome> {
        let Self {
            instance, producer, ..
        } = self;
        let fault = instance.draw_fault(FaultPoint::Commit)?;
        if fault == Fault::Aborted {
            // The transaction timed out on the broker before the commit arrived.
            producer.abort(timeout)?;
            let _ = instance.failure(FaultPoint::Abort, true);
            instance.world.count("commit answered with an abort");
            return Ok(CommitOutcome::Aborted);
        }
        instance.call_as(FaultPoint::Commit, fault, || {
            let outcome = producer.commit(timeout)?;
            instance.world.count("commits");
            Ok(outcome)
        })
    }

    fn abort(&mut self, timeout: Duration) -> Result<()> {
        let Self {
            instance, producer, ..
        } = self;
        instance.call(FaultPoint::Abort, || producer.abort(timeout))
    }

    fn acknowledged(&self, topic: &str) -> Vec<(Partition, Offset)> {
        self.producer.acknowledged(topic)
    }

    fn append_time(&self) -> Option<Timestamp> {
        self.append_time
    }

    fn remember(&mut self, topics: &[Arc<str>]) {
        self.producer.remember(topics);
    }
}
